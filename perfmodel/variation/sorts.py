"""A step whose sequences differ as a mixture of steps in which all are alike, each priced by the whole chain.

Costs between the lengths that are priced follow straight lines, so that the shares by which lengths are spread over their
neighbours give every mean exactly as those lines do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.prediction import Prediction, predict_layout
from perfmodel.timeline import Part, Repeat, Serial
from perfmodel.variation.packing import context_degrees
from perfmodel.variation.reweigh import base_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

PRICED = 14
"""Lengths that are priced, at equal ratios; of a cost that grows with the square, lines between them miss less than 4 %."""
WIDEST = 256.0
"""The longest over the shortest of them; below it everything grows with the length alone."""


@dataclass(frozen=True)
class Sort:
    """Sequences of one length, and the step if the batch held no others."""

    length: float
    degree: float
    """Context parallel ranks that share one."""
    made: Prediction

    @cached_property
    def cost(self) -> float:
        """Seconds that one microbatch keeps its ranks busy: kernels, and messages inside the replica."""
        base = base_of(self.made.tree)
        return (base.compute + base.inner) / float(self.made.layout.microbatches)


@dataclass(frozen=True)
class Sorts:
    """Priced lengths in rising order."""

    sorts: tuple[Sort, ...]

    @cached_property
    def lengths(self) -> Array:
        """Of each."""
        return np.array([sort.length for sort in self.sorts])

    @cached_property
    def costs(self) -> Array:
        """Seconds of a microbatch of each on one of its ranks."""
        return np.array([sort.cost for sort in self.sorts])

    @cached_property
    def _own_degrees(self) -> Array:
        return np.array([sort.degree for sort in self.sorts])

    def cost(self, lengths: Array) -> Array:
        """Seconds of a microbatch on each of its ranks, by the length of its rows."""
        made: Array = np.interp(lengths, self.lengths, self.costs * self._own_degrees) / self.degrees(lengths)
        return made

    def degrees(self, lengths: Array) -> Array:
        """Context parallel ranks of each."""
        own = self._own_degrees
        return (
            np.full(np.shape(lengths), own[0])
            if np.all(own == own[0])
            else context_degrees(lengths, self.lengths[-1] / own[-1])
        )

    def shares(self, lengths: Array, weights: Array) -> Array:
        """How much of some lengths falls to each sort, between two of which a length is divided by its distance."""
        known = self.lengths
        if len(known) == 1:
            return np.ones(1)
        right = np.clip(np.searchsorted(known, lengths), 1, len(known) - 1)
        part = np.clip((lengths - known[right - 1]) / (known[right] - known[right - 1]), 0.0, 1.0)
        made = np.zeros(len(known))
        np.add.at(made, right, weights * part)
        np.add.at(made, right - 1, weights * (1 - part))
        return made / float(weights.sum())

    def mixture(self, shares: Array) -> Part:
        """The tree of a step in which each sort has a share of the microbatches."""
        kept = [(sort, float(share)) for sort, share in zip(self.sorts, shares, strict=True) if share > 0]
        trees = [Repeat(f"sequences of {sort.length:,.0f}", sort.made.tree, share) for sort, share in kept]
        return trees[0].part if len(trees) == 1 else Serial("sequences of several lengths", tuple(trees))


def priced(prediction: Prediction, lengths: Array, row: float | None = None, *, by_length: bool = False) -> Sorts:
    """The lengths that stand for all others, each with its step.

    Args:
        prediction: of a step of equal sequences.
        lengths: of a distribution, in rising order.
        row: tokens of the rows into which sequences are packed: as many microbatches hold as many tokens, cut into more
            sequences; None where each has a row of its own.
        by_length: a sequence has as many context parallel ranks as it needs, where the longest needs all.
    """
    layout = prediction.layout
    capacity = float(lengths[-1]) / float(layout.cp)
    chosen = _chosen(lengths, capacity if by_length else None)
    degrees = context_degrees(chosen, capacity) if by_length else np.full(len(chosen), float(layout.cp))

    def sort(length: float, degree: float) -> Sort:
        more = 1.0 if row is None else row / length
        changed = replace(
            layout, cp=degree, dp=layout.dp * layout.cp / degree, microbatch=layout.microbatch * more, batch=layout.batch * more
        )  # fmt: skip
        return Sort(length, degree, at_length(prediction, length, changed))

    return Sorts(tuple(sort(float(n), float(d)) for n, d in zip(chosen, degrees, strict=True)))


def _chosen(lengths: Array, capacity: float | None) -> Array:
    """All lengths where they are few, else some at equal ratios, and both sides of where a second rank is needed."""
    if len(lengths) <= PRICED:
        return lengths
    first, last = float(lengths[0]), float(lengths[-1])
    rising = np.round(np.geomspace(max(first, last / WIDEST), last, PRICED))
    edge = [] if capacity is None or not first < capacity < last else [np.floor(capacity), np.floor(capacity) + 1]
    return np.unique(np.concatenate([[first], rising, edge]))


def at_length(prediction: Prediction, length: float, layout: object = None) -> Prediction:
    """The same job with sequences of another length."""
    training = prediction.workload.training.model_copy(update={"sequence": length})
    workload = prediction.workload.model_copy(update={"training": training})
    return predict_layout(workload, prediction.hardware, prediction.strategy, layout or prediction.layout)  # type: ignore[arg-type]
