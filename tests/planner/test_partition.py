"""Layers cut into stages: no cut has a shorter longest stage, and Malleus's planner finds the same ones."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.planner.partition import partition
from perfmodel.variation.balance import split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MALLEUS: dict[str, tuple[list[float], float]] = {
    "70B, first pipeline": ([7.22, 7.22, 1.9, 1, 1, 1, 1], 17.0),
    "70B, second pipeline": ([3.66, 3.66, 1.9, 1, 1], 26.6),
    "110B": ([7.35, 3.77, 1.91, 1, 1, 1], 21.0),
}
"""Rates of the stages of its planner's fixtures (PKU-DAIR/Hetu@9e47240), and the time of the longest in its split, or less."""


def loads(cut: Sequence[int], times: Sequence[float], fixed: Sequence[float], rates: Sequence[float]) -> list[float]:
    ends = np.cumsum([0, *cut])
    return [e + r * sum(times[a:b]) for (a, b), e, r in zip(pairwise(ends), fixed, rates, strict=True)]


def every_cut(layers: int, stages: int) -> Iterator[list[int]]:
    for ends in combinations(range(1, layers), stages - 1):
        yield [b - a for a, b in pairwise((0, *ends, layers))]


@pytest.mark.parametrize("name", MALLEUS)
def test_malleus(name: str) -> None:
    rates, longest = MALLEUS[name]
    found = partition([1.0] * 80, fixed=[0.0] * len(rates), rates=rates)
    assert found == split(80, rates)
    assert max(loads(found, [1.0] * 80, [0.0] * len(rates), rates)) == pytest.approx(longest)


def test_malleus_110b_beats_what_its_planner_prints() -> None:
    rates, longest = MALLEUS["110B"]
    assert max(loads([2, 5, 11, 20, 21, 21], [1.0] * 80, [0.0] * 6, rates)) > longest


@given(data=st.data(), times=st.lists(st.floats(0.1, 3), min_size=3, max_size=8), stages=st.integers(1, 3))
def test_no_cut_is_shorter(data: st.DataObject, times: list[float], stages: int) -> None:
    """Layers of different times, and room that hangs on which layers a stage has, not only on how many."""
    each = st.lists(st.floats(0, 2), min_size=stages, max_size=stages)
    fixed = data.draw(each)
    rates = [0.5 + value for value in data.draw(each)]
    sizes = np.array(
        [0.0, *np.cumsum(data.draw(st.lists(st.integers(1, 3), min_size=len(times), max_size=len(times))))]
    )
    room = np.array(data.draw(st.lists(st.integers(1, 24), min_size=stages, max_size=stages)))
    fits = sizes[None, None, :] - sizes[None, :, None] <= room[:, None, None]

    def has_room(cut: Sequence[int]) -> bool:
        ends = np.cumsum([0, *cut])
        return all(fits[stage, a, b] for stage, (a, b) in enumerate(pairwise(ends)))

    allowed = [cut for cut in every_cut(len(times), stages) if has_room(cut)]
    if not allowed:
        with pytest.raises(ValueError, match=f"no room for {len(times)} layers"):
            partition(times, fixed=fixed, rates=rates, fits=fits)
        return
    found = partition(times, fixed=fixed, rates=rates, fits=fits)
    assert found in allowed
    best = min(max(loads(cut, times, fixed, rates)) for cut in allowed)
    assert max(loads(found, times, fixed, rates)) == pytest.approx(best, rel=1e-9)


def test_of_the_shortest_the_most_even() -> None:
    assert partition([1.0] * 9, fixed=[0, 0, 4]) == [4, 4, 1]
    assert partition([1.0] * 7, fixed=[4, 0, 0]) == [1, 3, 3]
