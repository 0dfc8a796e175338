"""GPipe: all microbatches forward, then all backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.formulas.pipeline import one_f_one_b_bubble
from perfmodel.schedule.passes import arranged, forward_pass, whole_backward
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from perfmodel.schedule.passes import Costs, Order


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage; there is one chunk on each."""
    each = range(microbatches * chunks)
    return arranged(
        [*(forward_pass(k, stage) for k in each), *(whole_backward(k, stage) for k in each)] for stage in range(stages)
    )


def bubble(costs: Costs) -> Term:
    """Filling and draining, as 1F1B."""
    return term(
        "pipeline bubble", one_f_one_b_bubble, kind="bubble", microbatch=costs.whole, stages=costs.stages, chunks=costs.chunks,
    )  # fmt: skip
