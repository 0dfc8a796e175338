"""ZB-H2: more forward passes before the first backward pass, and gradients of weights twice as late as in ZB-H1.

Nothing is left to wait for where the three passes take the same time; every stage keeps 2 p - 1 microbatches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.formulas.split_backward import zero_bubble_h2
from perfmodel.schedule.passes import arranged
from perfmodel.schedule.zero_bubble_h1 import delayed
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from perfmodel.schedule.passes import Costs, Order


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage; there is one chunk on each."""
    return arranged(delayed(s, 2 * (stages - s) - 1, 2 * s, microbatches * chunks) for s in range(stages))


def bubble(costs: Costs) -> Term:
    """What gradients of weights cannot fill."""
    return term(
        "pipeline bubble", zero_bubble_h2, kind="bubble",
        forward=costs.forward, backward=costs.backward, weight=costs.weight, stages=costs.stages,
    )  # fmt: skip
