"""Asynchronous 1F1B: the pipeline is never flushed, so that steps follow one another without a bubble.

PipeDream updates after every microbatch and keeps the weights that each microbatch in flight began with; 2BW adds up the
gradients of a step and keeps two versions. Gradients are stale, which is the optimiser's business, not that of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.formulas.pipeline import no_bubble
from perfmodel.schedule.one_f_one_b import order
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from perfmodel.schedule.passes import Costs

__all__ = ["bubble", "order"]


def bubble(costs: Costs) -> Term:
    """None."""
    return term("pipeline bubble", no_bubble, kind="bubble", microbatch=costs.whole)
