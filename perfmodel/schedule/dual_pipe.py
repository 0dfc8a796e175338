"""DualPipe: microbatches enter at both ends, and passes of the two directions overlap.

Device r holds two stages, r and p - 1 - r, hence twice the weights. In the middle of the step each forward pass runs beside
a backward pass of the other direction, which hides the messages of both; while the pipeline fills and drains passes are
alone. Half of the microbatches go each way; those that enter at the last device are numbered after the others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfmodel.formulas.split_backward import dual_pipe_bubble
from perfmodel.schedule.passes import arranged, backward_pass, forward_pass, weight_pass, whole_backward
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from perfmodel.schedule.passes import Costs, Order, Slot
    from perfmodel.units import Count


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each device: an even number of stages, an even number of at least 2 p microbatches.

    Raises ValueError for other numbers.
    """
    if stages % 2 or microbatches % 2 or microbatches < 2 * stages or chunks != 1:
        raise ValueError("DualPipe needs even stages of one chunk, and an even number of at least 2 p microbatches")
    return arranged(_device(device, stages, microbatches) for device in range(stages))


def paired(stages: Count, microbatches: Count) -> Count:
    """Pairs of passes that overlap on the first and on the last device; the other 3 p / 2 - 1 microbatches pass alone."""
    return microbatches - 3 * stages / 2 + 1


@dataclass
class _Made:
    """Slots so far. Way 0 is that of the microbatches that reach the device first."""

    device: int
    stages: int
    half: int
    slots: list[Slot] = field(default_factory=list)
    forwards: list[int] = field(default_factory=lambda: [0, 0])
    backwards: list[int] = field(default_factory=lambda: [0, 0])
    late: deque[tuple[int, int]] = field(default_factory=deque)
    """Microbatch and position of gradients of weights that wait."""

    def place(self, way: int, count: int) -> tuple[int, int]:
        """Microbatch and position of the next pass of a way."""
        reverse = bool(way) == (self.device < self.stages // 2)
        position = self.stages - 1 - self.device if reverse else self.device
        return count + self.half * reverse, position

    def _next_forward(self, way: int) -> Slot:
        self.forwards[way] += 1
        return forward_pass(*self.place(way, self.forwards[way] - 1))

    def _next_backward(self, way: int) -> tuple[int, int]:
        self.backwards[way] += 1
        return self.place(way, self.backwards[way] - 1)

    def forward(self, way: int) -> None:
        self.slots.append(self._next_forward(way))

    def backward(self, way: int, *, split: bool = False) -> None:
        place = self._next_backward(way)
        self.slots.append(backward_pass(*place) if split else whole_backward(*place))
        self.late.extend([place] * split)

    def weight(self) -> None:
        self.slots.append(weight_pass(*self.late.popleft()))

    def pair(self, way: int) -> None:
        """Forward of one way beside backward of the other."""
        self.slots.append((*self._next_forward(way), *whole_backward(*self._next_backward(1 - way))))


def _device(device: int, stages: int, microbatches: int) -> list[Slot]:
    """The eight phases of the source's code."""
    made = _Made(device, stages, microbatches // 2)
    near = min(device, stages - 1 - device)
    inner = stages // 2 - near - 1
    for _ in range(2 * inner):
        made.forward(0)
    for way in (0, 1) * (near + 1):
        made.forward(way)
    for _ in range(inner):
        made.backward(1, split=True)
        made.weight()
        made.forward(1)
    for k in range(microbatches // 2 - stages + near + 1):
        if k or inner:
            made.pair(0)
        else:  # on the two devices in the middle the first pair stays apart: what it waits for comes one by one
            made.forward(0)
            made.backward(1)
        made.pair(1)
    for _ in range(inner):
        made.backward(1)
        made.pair(1)
    _drain(made, near, inner)
    return made.slots


def _drain(made: _Made, near: int, inner: int) -> None:
    """Backward passes alone, the second half of them split; then the gradients of weights that are left."""
    for k in range(2 * (near + 1)):
        made.backward(1 - k % 2, split=k > near)
    for _ in range(inner):
        made.weight()
        made.backward(0, split=True)
    for _ in range(near + 1):
        made.weight()


def bubble(costs: Costs) -> Term:
    """What is left of filling and draining."""
    return term(
        "pipeline bubble", dual_pipe_bubble, kind="bubble",
        forward=costs.forward, backward=costs.backward, weight=costs.weight, together=costs.together, stages=costs.stages,
    )  # fmt: skip
