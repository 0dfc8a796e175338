"""Unions and what several stretches share, against counting one moment after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.traces.spans import callers, covered, exclusive, in_order, shared
from perfmodel.traces.trace import Span

SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 2)), max_size=12)


def columns(spans: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start = np.array([a for a, _, _ in spans], dtype=float)
    length = np.array([b for _, b, _ in spans], dtype=float)
    return start, start + length, np.array([c for *_, c in spans], dtype=np.int64)


@given(SPANS)
def test_each_moment_belongs_to_the_first_group_that_covers_it(spans: list[tuple[int, int, int]]) -> None:
    start, end, group = columns(spans)
    expected = np.zeros(3)
    for moment in range(30):
        there = [c for a, b, c in spans if a <= moment < a + b]
        if there:
            expected[min(there)] += 1
    assert exclusive(start, end, group, 3) == pytest.approx(expected)
    assert covered(start, end) == pytest.approx(expected.sum())


@given(SPANS)
def test_a_stretch_alone_shares_nothing_and_one_beside_another_does(spans: list[tuple[int, int, int]]) -> None:
    start, end, _ = columns(spans)
    found = shared(start, end)
    for i, (a, b, _) in enumerate(spans):
        beside = any(j != i and max(a, c) < min(a + b, c + d) for j, (c, d, _) in enumerate(spans))
        assert beside <= (found[i] > 0)


@given(SPANS)
def test_the_caller_is_the_shortest_around(spans: list[tuple[int, int, int]]) -> None:
    nested = [(a, b, c) for a, b, c in spans if b]
    nested = [s for i, s in enumerate(nested) if not any(crosses(s, other) for other in nested[:i])]
    start, end, thread = columns(nested)
    for row, caller in enumerate(callers(start, end, thread)):
        around = [
            end[i] - start[i]
            for i in range(len(nested))
            if thread[i] == thread[row]
            and start[i] <= start[row]
            and end[i] >= end[row]
            and (start[i], end[i]) != (start[row], end[row])
        ]
        if around:
            assert caller >= 0
            assert end[caller] - start[caller] in {min(around), end[row] - start[row]}
        elif caller >= 0:
            assert (start[caller], end[caller]) == (start[row], end[row])


def crosses(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    (a, b, thread), (c, d, on) = one, other
    return thread == on and (a < c < a + b < c + d or c < a < c + d < a + b)


def test_of_an_unknown_thread_nothing_is_a_caller() -> None:
    assert callers(np.array([0.0, 1.0]), np.array([5.0, 2.0]), np.array([0, -1])).tolist() == [-1, -1]


def test_steps_are_in_order_and_each_once() -> None:
    given = [Span("step 2", 5.0, 9.0), Span("step 1", 0.0, 4.0), Span("step 1", 1.0, 2.0)]
    assert [(s.name, s.start, s.end) for s in in_order(given, "f")] == [("step 1", 0.0, 4.0), ("step 2", 5.0, 9.0)]


def test_steps_that_overlap_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        in_order([Span("step 1", 0.0, 4.0), Span("step 2", 3.0, 9.0)], "run.json")
    assert str(caught.value) == "run.json: steps: step 2 begins before step 1 ends; steps must not overlap"


def test_nothing_covers_nothing() -> None:
    none = np.zeros(0)
    assert (covered(none, none), len(shared(none, none)), len(callers(none, none, none.astype(np.int64)))) == (
        0.0,
        0,
        0,
    )
