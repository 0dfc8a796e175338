"""Sequences put together: several in one row, and rows on ranks so that all end at about the same time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.uneven import padding_share, waiting_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_ROUNDING = 1e-12
"""Relative, of a quotient that is meant to be whole."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows of a fixed capacity and the lengths in each."""

    rows: tuple[tuple[float, ...], ...]
    capacity: float

    @property
    def tokens(self) -> float:
        """Of all sequences; none is cut or left out."""
        return float(sum(map(sum, self.rows)))

    @property
    def padding(self) -> float:
        """Tokens that only fill up."""
        return len(self.rows) * self.capacity - self.tokens

    @property
    def padding_share(self) -> float:
        """Of all computed tokens."""
        return float(padding_share(tokens=self.tokens, blocks=len(self.rows), capacity=self.capacity))


def pack(lengths: Sequence[float] | Array, capacity: float, *, sort: bool = True) -> Packed:
    """Each sequence into the fullest row that still has room (best fit); the longest first, or in the order given.

    Raises ValueError for a sequence longer than a row.

    BLoad fills rows at random with what still fits (Ruschel et al., 2023, arXiv:2310.10879); best fit is at least as full.

    >>> pack([6, 5, 4, 3, 2], 10).rows
    ((6.0, 4.0), (5.0, 3.0, 2.0))
    """
    from bisect import bisect_left, insort

    values = np.asarray(lengths, dtype=float)
    if values.size and values.max() > capacity:
        raise ValueError(f"a sequence of {values.max():g} does not fit into a row of {capacity:g}")
    rows: list[list[float]] = []
    room: list[tuple[float, int]] = []
    for length in (np.sort(values)[::-1] if sort else values).tolist():
        at = bisect_left(room, (length, -1))
        left, row = room.pop(at) if at < len(room) else (capacity, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(length)
        insort(room, (left - length, row))
    return Packed(tuple(map(tuple, rows)), capacity)


def balanced(costs: Sequence[float] | Array, ranks: int, most: int | None = None) -> list[list[int]]:
    """Which items each rank gets: the costliest first, each to the rank with least so far, of those with fewer than ``most``.

    The last to end takes at most 4/3 - 1/(3 ranks) of the best (Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl.
    Math. 17(2), 1969; recalled, a test holds it).

    >>> balanced([5, 4, 3, 3, 3], 2)
    [[0, 3], [1, 2, 4]]
    """
    order = np.argsort(-np.asarray(costs, dtype=float), kind="stable")
    loads = [(0.0, rank) for rank in range(ranks)]
    chosen: list[list[int]] = [[] for _ in range(ranks)]
    for item in order.tolist():
        load, rank = heapq.heappop(loads)
        chosen[rank].append(item)
        if most is None or len(chosen[rank]) < most:
            heapq.heappush(loads, (load + float(costs[item]), rank))
    return chosen


def waiting(costs: Sequence[float] | Array, assignment: Sequence[Sequence[int]]) -> float:
    """Share of the step in which ranks wait for the last of them."""
    every = np.asarray(costs, dtype=float)
    loads = np.array([every[list(items)].sum() for items in assignment])
    return float(waiting_share(mean=loads.mean(), longest=loads.max()))


def in_turn(count: int, ranks: int) -> list[list[int]]:
    """Items dealt out in the order in which they come, which is random."""
    return [list(range(rank, count, ranks)) for rank in range(ranks)]


def context_degrees(lengths: Sequence[float] | Array, capacity: float) -> Array:
    """Ranks that each sequence needs so that none holds more than ``capacity`` tokens; the shortest need one.

    ByteScale gives each sequence as many (Ge et al., SIGCOMM 2025, arXiv:2502.21231), where static context parallelism gives all as
    many as the longest.

    >>> context_degrees([100, 4096, 9000], 4096).tolist()
    [1.0, 1.0, 3.0]
    """
    whole = np.ceil(np.asarray(lengths, dtype=float) / capacity * (1 - _ROUNDING))
    degrees: Array = np.maximum(whole, 1.0)
    return degrees
