"""Decoupled backward (DDG): one microbatch forward through all stages, then the stages go backward at once.

Each stage takes the gradient that the next one made a round before, so that stage s goes back over the microbatch of p - s - 1
rounds ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.formulas.pipeline import decoupled_backward_bubble
from perfmodel.schedule.passes import Pass, arranged, forward_pass, whole_backward
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.schedule.passes import Costs, Order, Slot


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage; there is one chunk on each."""
    total = microbatches * chunks

    def slots(stage: int) -> Iterator[Slot]:
        delay = stages - stage - 1
        for k in range(total + delay):
            if k < total:
                yield forward_pass(k, stage)
            if k >= delay:
                yield whole_backward(k - delay, stage)

    return arranged(map(slots, range(stages)))


def waits(each: Pass, stages: int) -> tuple[Pass, ...]:
    """A round begins after every backward pass of the round before."""
    if each.kind != "forward" or each.position:
        return ()
    before = (Pass("weight", each.microbatch - 1 - (stages - s - 1), s) for s in range(stages))
    return tuple(one for one in before if one.microbatch >= 0)


def bubble(costs: Costs) -> Term:
    """The forward passes of the other stages."""
    return term(
        "pipeline bubble", decoupled_backward_bubble, kind="bubble",
        forward=costs.forward, stages=costs.stages, microbatches=costs.microbatches,
    )  # fmt: skip
