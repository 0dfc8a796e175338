"""What is kept of many candidates is what sorting all of them would give."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.planner.shortlist import Front, Shortlist, unbeaten

if TYPE_CHECKING:
    from collections.abc import Sequence

POINTS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)


def offered(kept: Any, points: Sequence[tuple[int, int]], size: int) -> Any:
    table = np.array(points, dtype=float)
    for begin in range(0, len(points), size):
        part = table[begin : begin + size]

        def named(which: Any, begin: int = begin) -> Any:
            return np.stack([which + begin] * 3, axis=1)

        kept.offer(part[:, 0], part[:, 1], named)
    return kept


@given(points=POINTS, count=st.integers(1, 8), size=st.integers(1, 20))
def test_shortlist_is_sorting(points: list[tuple[int, int]], count: int, size: int) -> None:
    """Of equals in the first figure the least in the second."""
    best: dict[int, int] = {}
    for first, second in points:
        best[first] = min(second, best.get(first, second))
    kept = offered(Shortlist(count), points, size)
    assert [(int(a), int(b)) for a, b in zip(kept.first, kept.second, strict=True)] == sorted(best.items())[:count]
    assert [points[index] for index in kept.identity[:, 0]] == sorted(best.items())[:count]


@given(points=POINTS, size=st.integers(1, 20))
def test_front_is_what_none_beats(points: list[tuple[int, int]], size: int) -> None:
    def beaten(a: tuple[int, int]) -> bool:
        return any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in points)

    kept = offered(Front(), points, size)
    assert {points[index] for index in kept.identity[:, 0]} == {a for a in points if not beaten(a)}
    assert all(a < b for a, b in pairwise(kept.first))


@given(points=POINTS)
def test_unbeaten_agrees_with_the_front(points: list[tuple[int, int]]) -> None:
    kept = offered(Front(), points, 7)
    assert sorted({points[i] for i in unbeaten(points)}) == sorted(zip(kept.first, kept.second, strict=True))


def test_infinite_figures_are_never_kept() -> None:
    kept = Shortlist(3)
    kept.offer(np.array([np.inf, 1.0]), np.zeros(2), lambda which: np.stack([which] * 3, axis=1))
    assert kept.first.tolist() == [1.0]


def test_nothing_offered_is_nothing_kept() -> None:
    kept = Shortlist(3)
    kept.offer(np.empty(0), np.empty(0), lambda which: np.stack([which] * 3, axis=1))
    assert len(kept.first) == 0
    assert unbeaten([]) == []


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_chunks_does_not_matter(order: int) -> None:
    points = [(5, 1), (3, 2), (3, 1), (9, 9), (1, 4)][::order]
    kept = offered(Shortlist(2), points, 1)
    assert list(zip(kept.first, kept.second, strict=True)) == [(1, 4), (3, 1)]
