"""One formula for one prediction and for a million: degrees as columns give, row by row, what numbers give."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel.cost.capacity import footprint
from perfmodel.library import find
from perfmodel.parallel import Layout
from perfmodel.prediction import predict_layout
from perfmodel.specs import Strategy
from perfmodel.timeline import duration, leaves

if TYPE_CHECKING:
    from perfmodel.specs import Hardware, Workload
    from perfmodel.timeline import Part

DEGREES = ("tp", "pp", "vpp", "cp", "dp", "microbatch")
STRATEGIES = {
    "plain": Strategy(),
    "unfused": Strategy(attention="unfused", recompute="selective", gradient_overlap="none", tensor_overlap="none"),
    "sequence parallel": Strategy(sequence_parallel=True, recompute="full", scatter_gather=False),
    "zero 1": Strategy(zero=1, gradient_precision="same"),
    "zero 2": Strategy(zero=2, fused_accumulation=False),
    "zero 3": Strategy(zero=3),
    "gpipe": Strategy(schedule="gpipe"),
    "breadth-first": Strategy(schedule="breadth-first", zero=3),
    "zero bubble": Strategy(schedule="zero-bubble-h1"),
    "zero bubble twice": Strategy(schedule="zero-bubble-h2"),
    "zero bubble v": Strategy(schedule="zero-bubble-v"),
    "dual pipe": Strategy(schedule="dual-pipe", zero=1),
    "asynchronous": Strategy(schedule="pipedream"),
    "two versions": Strategy(schedule="pipedream-2bw"),
    "decoupled backward": Strategy(schedule="decoupled-backward"),
    "three forward": Strategy(schedule="3f1b"),
}
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def rows(count: int = 40) -> list[dict[str, int]]:
    """Valid layouts of a model of 96 layers and 96 heads."""
    rng = np.random.default_rng(1)
    made: list[dict[str, int]] = []
    while len(made) < count:
        row = {name: int(rng.choice([1, 2, 4, 8])) for name in DEGREES} | {"vpp": int(rng.choice([1, 2, 3]))}
        if row["pp"] == 1:
            row["vpp"] = 1
        if row["tp"] * row["pp"] * row["cp"] * row["dp"] <= 128:
            made.append(row)
    return made


ROWS = rows()


def layout_of(row: dict[str, Any]) -> Layout:
    return Layout(**row, batch=row["dp"] * row["microbatch"] * row["pp"] * 4, shard_group=row["dp"] * row["cp"])


def columns() -> dict[str, Any]:
    return {name: np.array([row[name] for row in ROWS]) for name in DEGREES}


def tree_and_memory(workload: Workload, hardware: Hardware, strategy: Strategy, layout: Layout) -> tuple[Part, Any]:
    """The step of a layout of numbers or columns, with the memory of the first stage."""
    made = predict_layout(workload, hardware, strategy, layout)
    return made.tree, footprint(made.share, made.state, layout, strategy, stage=0)


@pytest.fixture(scope="module")
def gpt() -> Any:
    return find("workloads", "gpt3-175b")


@every_strategy
def test_step_and_memory(gpt: Any, machine: Hardware, strategy: Strategy) -> None:
    tree, memory = tree_and_memory(gpt, machine, strategy, layout_of(columns()))
    alone = [tree_and_memory(gpt, machine, strategy, layout_of(row)) for row in ROWS]
    for hidden in (True, False):
        expected = [float(duration(each, hidden=hidden)) for each, _ in alone]
        np.testing.assert_allclose(duration(tree, hidden=hidden), expected, rtol=1e-12)
    for field in fields(memory):
        wide = np.broadcast_to(getattr(memory, field.name), len(ROWS))
        np.testing.assert_allclose(wide, [float(getattr(each, field.name)) for _, each in alone], rtol=1e-12)


@every_strategy
def test_terms(gpt: Any, machine: Hardware, strategy: Strategy) -> None:
    """The exposed time of each leaf, in the same order."""
    tree, _ = tree_and_memory(gpt, machine, strategy, layout_of(columns()))
    wide: list[Any] = list(leaves(tree))
    for index in range(0, len(ROWS), 7):
        alone: list[Any] = list(leaves(tree_and_memory(gpt, machine, strategy, layout_of(ROWS[index]))[0]))
        assert [leaf.name for leaf, _, _ in alone] == [leaf.name for leaf, _, _ in wide]
        for position in (1, 2):
            picked = [np.broadcast_to(row[position], len(ROWS))[index] for row in wide]
            np.testing.assert_allclose(picked, [float(row[position]) for row in alone], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", DEGREES)
def test_one_column_beside_numbers(gpt: Any, machine: Hardware, name: str) -> None:
    """A sweep of one degree."""
    values = [1, 2, 4]
    base = dict.fromkeys(DEGREES, 2)
    wide = layout_of({**base, name: np.array(values)})
    tree, _ = tree_and_memory(gpt, machine, Strategy(), wide)
    alone = [tree_and_memory(gpt, machine, Strategy(), layout_of({**base, name: value}))[0] for value in values]
    expected = [float(duration(each)) for each in alone]
    np.testing.assert_allclose(np.broadcast_to(duration(tree), 3), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in DEGREES if name != "microbatch"),
        "microbatch",
    ],
)
def test_exposed_times_of_one_column_beside_numbers(gpt: Any, machine: Hardware, name: str) -> None:
    wide = layout_of({**dict.fromkeys(DEGREES, 2), name: np.array([1, 2, 4])})
    tree, _ = tree_and_memory(gpt, machine, Strategy(), wide)
    exposed = sum(np.broadcast_to(seen, 3) for _, _, seen in leaves(tree))
    np.testing.assert_allclose(exposed, np.broadcast_to(duration(tree), 3), rtol=1e-9)


def test_columns_share_no_memory_with_the_layout(gpt: Any, machine: Hardware) -> None:
    """Nothing is computed in place."""
    given = columns()
    tree_and_memory(gpt, machine, Strategy(zero=3, sequence_parallel=True), layout_of(given))
    for name, column in columns().items():
        np.testing.assert_array_equal(given[name], column)
