"""ZB-H1: 1F1B whose gradients of weights wait until they fill the draining pipeline.

Stage s does them s microbatches after those of the inputs, so that every stage keeps as many activations as the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.formulas.split_backward import zero_bubble_h1
from perfmodel.schedule.passes import arranged, backward_pass, forward_pass, weight_pass
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.schedule.passes import Costs, Order, Slot


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage; there is one chunk on each."""
    return arranged(delayed(s, stages - s, s, microbatches * chunks) for s in range(stages))


def delayed(stage: int, fill: int, delay: int, microbatches: int) -> Iterator[Slot]:
    """Passes of a stage that begins with ``fill`` forward passes and delays gradients of weights by so many microbatches."""
    fill = min(fill, microbatches)
    yield from (forward_pass(k, stage) for k in range(fill))
    for k in range(microbatches):
        yield backward_pass(k, stage)
        if k >= delay:
            yield weight_pass(k - delay, stage)
        if fill + k < microbatches:
            yield forward_pass(fill + k, stage)
    yield from (weight_pass(k, stage) for k in range(max(microbatches - delay, 0), microbatches))


def bubble(costs: Costs) -> Term:
    """What gradients of weights cannot fill."""
    return term(
        "pipeline bubble", zero_bubble_h1, kind="bubble",
        forward=costs.forward, backward=costs.backward, weight=costs.weight, stages=costs.stages,
        microbatches=costs.microbatches,
    )  # fmt: skip
