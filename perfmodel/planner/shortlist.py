"""The few of very many candidates that are worth keeping: the first by a figure, and those that nothing beats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Identity = NDArray[np.int64]

EQUAL = 1e-9
"""Relative difference below which two values are the same."""


@dataclass
class Shortlist:
    """The ``count`` least by one figure; of those that are equal in it, the least by a second.

    Offered in chunks, in any order, it ends with what sorting all of them would give.
    """

    count: int
    first: Floats = field(default_factory=lambda: np.empty(0))
    second: Floats = field(default_factory=lambda: np.empty(0))
    identity: Identity = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))

    def offer(self, first: Floats, second: Floats, identity: Callable[[Identity], Identity]) -> None:
        """Consider a chunk.

        Args:
            first: what is to be small.
            second: what decides among equals.
            identity: of candidates by their place in the chunk, a row of numbers each.
        """
        full = len(self.first) == self.count
        near = np.flatnonzero(first <= self.first[-1] * (1 + EQUAL) if full and self.count else np.isfinite(first))
        if not len(near) or not self.count:
            return
        a = np.concatenate([self.first, first[near]])
        b = np.concatenate([self.second, second[near]])
        order = np.lexsort((b, a))
        a = a[order]
        group = np.concatenate([[0], np.cumsum(np.diff(a) > EQUAL * np.abs(a[:-1]))])
        order = order[np.lexsort((b[order], group))]
        leading = order[np.concatenate([[True], np.diff(group) > 0])][: self.count]
        chosen = np.concatenate([self.identity, identity(near)])[leading]
        self.first, self.second, self.identity = np.concatenate([self.first, first[near]])[leading], b[leading], chosen


@dataclass
class Front:
    """Candidates that no other beats in both of two figures; offered in chunks."""

    first: Floats = field(default_factory=lambda: np.empty(0))
    second: Floats = field(default_factory=lambda: np.empty(0))
    identity: Identity = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))

    def offer(self, first: Floats, second: Floats, identity: Callable[[Identity], Identity]) -> None:
        """Consider a chunk; both figures are to be small."""
        near = np.arange(len(first))
        if len(self.first):
            below = np.searchsorted(self.first, first, side="right") - 1
            near = np.flatnonzero((below < 0) | (second < self.second[below]))
        if not len(near):
            return
        a, b = np.concatenate([self.first, first[near]]), np.concatenate([self.second, second[near]])
        order = np.lexsort((b, a))
        least = np.minimum.accumulate(b[order])
        kept = order[np.concatenate([[True], least[1:] < least[:-1]])]
        self.identity = np.concatenate([self.identity, identity(near)])[kept]
        self.first, self.second = a[kept], b[kept]


def unbeaten(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Indices of the points that no other beats: no worse in all figures, and better in one.

    >>> unbeaten([(1.0, 3.0), (2.0, 2.0), (2.0, 4.0), (1.0, 3.0)])
    [0, 1]
    """
    table: Any = np.array(points, dtype=float)
    kept: list[int] = []
    for index in np.lexsort(table.T[::-1]) if len(points) else []:
        if not any(np.all(table[other] <= table[index]) for other in kept):
            kept.append(int(index))
    return sorted(kept)
