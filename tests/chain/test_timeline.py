"""The algebra of time, on trees that no model makes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.timeline import Overlap, Part, Repeat, Serial, Term, duration, leaves, term


def leaf(time: float, name: str = "leaf") -> Term:
    return Term(name, float, {}, time)


def parts(inner: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    several: Any = st.lists(inner, min_size=1, max_size=4).map(tuple)
    return st.one_of(
        several.map(partial(Serial, "serial")),
        several.map(partial(Overlap, "overlap")),
        st.builds(partial(Repeat, "repeat"), inner, st.integers(0, 5)),
    )


TREES: st.SearchStrategy[Part] = st.recursive(st.floats(0, 100).map(leaf), parts, max_leaves=12)


def walked(part: Part, *, hidden: bool) -> float:
    """The same by adding and comparing floats one at a time."""
    match part:
        case Term():
            return float(part.time)
        case Repeat():
            return float(part.count) * walked(part.part, hidden=hidden)
        case Overlap() if hidden:
            return max(walked(each, hidden=hidden) for each in part.parts)
    return math.fsum(walked(each, hidden=hidden) for each in part.parts)


@given(TREES, st.booleans())
def test_duration(tree: Part, hidden: bool) -> None:
    assert duration(tree, hidden=hidden) == pytest.approx(walked(tree, hidden=hidden))


@given(TREES)
def test_exposed_times_add_up_to_the_duration(tree: Part) -> None:
    rows = list(leaves(tree))
    assert sum(float(seen) for _, _, seen in rows) == pytest.approx(float(duration(tree)), abs=1e-9)
    assert sum(float(time) for _, time, _ in rows) == pytest.approx(float(duration(tree, hidden=False)), abs=1e-9)
    assert all(0 <= seen <= time * (1 + 1e-9) for _, time, seen in rows)


def test_the_first_part_of_an_overlap_hides_the_others_as_far_as_it_reaches() -> None:
    tree = Overlap("three", (leaf(4.0, "a"), leaf(10.0, "b"), leaf(6.0, "c"), leaf(11.0, "d")))
    assert [(each.name, float(seen)) for each, _, seen in leaves(tree)] == [
        ("a", 4), ("b", pytest.approx(6)), ("c", 0), ("d", pytest.approx(1)),
    ]  # fmt: skip


def test_columns_are_hidden_row_by_row() -> None:
    tree = Overlap("two", (leaf_of([1.0, 5.0]), leaf_of([3.0, 3.0])))
    np.testing.assert_array_equal(duration(tree), [3, 5])
    exposed: Any = [seen for _, _, seen in leaves(tree)]
    np.testing.assert_allclose(exposed, [[1, 5], [2, 0]])


def leaf_of(times: list[float]) -> Term:
    return Term("column", float, {}, np.array(times))


def test_a_term_keeps_the_call() -> None:
    made = term("power", pow, kind="arithmetic", base=2, exp=10)
    assert (made.time, made.formula, made.inputs, made.kind) == (1024, pow, {"base": 2, "exp": 10}, "arithmetic")
