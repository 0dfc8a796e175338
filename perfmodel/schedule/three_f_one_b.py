"""3F1B: each microbatch passes forward three times, the last time with gradient, as AlphaFold 2's recycling does.

The passes without gradient of all microbatches come first, what they make waits in the host's memory; the rest is 1F1B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.formulas.pipeline import repeated_forward_bubble
from perfmodel.schedule.one_f_one_b import order as order_of_the_rest
from perfmodel.schedule.passes import arranged, forward_pass
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.schedule.passes import Costs, Order, Slot

REPEATS = 2
"""Passes forward without gradient."""


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage; there is one chunk on each, passes without gradient stand at the first positions."""
    rest = order_of_the_rest(stages, chunks, microbatches)

    def slots(stage: int) -> Iterator[Slot]:
        yield from (forward_pass(k, r * stages + stage) for r in range(REPEATS) for k in range(microbatches))
        for slot in rest[stage]:
            yield tuple(each._replace(position=each.position + REPEATS * stages) for each in slot)

    return arranged(map(slots, range(stages)))


def bubble(costs: Costs) -> Term:
    """That of 1F1B, and the wait for the first microbatch to come round."""
    return term(
        "pipeline bubble", repeated_forward_bubble, kind="bubble", forward=costs.forward,
        backward=costs.whole - costs.forward, stages=costs.stages, microbatches=costs.microbatches, repeats=REPEATS,
    )  # fmt: skip
