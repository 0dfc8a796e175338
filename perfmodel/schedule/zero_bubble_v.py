"""ZB-V: two chunks on each stage, the second on the way back, so that the first stage also has the loss.

The order is that of PyTorch's ScheduleZBVZeroBubble: forward passes of the first chunk until the second can begin, pairs
of chunks while the pipeline fills, then all four passes of both chunks in turn; gradients of weights are left for the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfmodel.formulas.split_backward import zero_bubble_v
from perfmodel.schedule.passes import arranged, backward_pass, forward_pass, weight_pass
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from perfmodel.schedule.passes import Costs, Order, Slot


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage; at least 2 p - 1 microbatches.

    Raises ValueError where there are not two chunks.
    """
    if chunks != 2:
        raise ValueError(f"two chunks on each stage make a V, not {chunks}")
    return arranged(_stage(stage, stages, microbatches) for stage in range(stages))


@dataclass
class _Made:
    """Slots so far, and how many passes of each kind each chunk has done."""

    positions: tuple[int, int]
    slots: list[Slot] = field(default_factory=list)
    forwards: list[int] = field(default_factory=lambda: [0, 0])
    backwards: list[int] = field(default_factory=lambda: [0, 0])
    weights: list[int] = field(default_factory=lambda: [0, 0])

    def forward(self, chunk: int) -> None:
        self.slots.append(forward_pass(self.forwards[chunk], self.positions[chunk]))
        self.forwards[chunk] += 1

    def backward(self, chunk: int) -> None:
        self.slots.append(backward_pass(self.backwards[chunk], self.positions[chunk]))
        self.backwards[chunk] += 1

    def weight(self, chunk: int) -> None:
        self.slots.append(weight_pass(self.weights[chunk], self.positions[chunk]))
        self.weights[chunk] += 1

    def both(self, chunk: int) -> None:
        self.backward(chunk)
        self.weight(chunk)


def _stage(stage: int, stages: int, microbatches: int) -> list[Slot]:
    made = _Made((stage, 2 * stages - 1 - stage))
    for _ in range(2 * (stages - stage) - 1):
        made.forward(0)
    for _ in range(stage):
        made.forward(1)
        made.forward(0)
    for _ in range(stages - stage):
        made.forward(1)
        made.both(1)
    while made.forwards[1] < microbatches:
        if made.forwards[0] < microbatches:
            made.forward(0)
        made.both(0)
        made.forward(1)
        made.both(1)
    for _ in range(stage):
        made.backward(0)
        made.backward(1)
    for _ in range(stages - stage):
        made.backward(0)
        made.weight(0)
    for chunk in (1, 0):
        for _ in range(microbatches - made.weights[chunk]):
            made.weight(chunk)
    return made.slots


def bubble(costs: Costs) -> Term:
    """What gradients of weights cannot fill."""
    return term(
        "pipeline bubble", zero_bubble_v, kind="bubble",
        forward=costs.forward, backward=costs.backward, weight=costs.weight, stages=costs.stages,
    )  # fmt: skip
