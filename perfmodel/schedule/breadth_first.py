"""Breadth-first: all microbatches through one chunk before any passes the next, forward and backward.

Each weight is then needed in one stretch of time, so that sharded weights are gathered once for all microbatches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.formulas.pipeline import breadth_first_bubble
from perfmodel.schedule.passes import arranged, forward_pass, whole_backward
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.schedule.passes import Costs, Order, Slot


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage."""

    def slots(stage: int) -> Iterator[Slot]:
        positions = [chunk * stages + stage for chunk in range(chunks)]
        yield from (forward_pass(k, at) for at in positions for k in range(microbatches))
        yield from (whole_backward(k, at) for at in reversed(positions) for k in range(microbatches))

    return arranged(map(slots, range(stages)))


def bubble(costs: Costs) -> Term:
    """Filling and draining of the first and last chunk."""
    return term(
        "pipeline bubble", breadth_first_bubble, kind="bubble", microbatch=costs.whole,
        stages=costs.stages, chunks=costs.chunks, microbatches=costs.microbatches,
    )  # fmt: skip
