"""What every formula owes its reader, checked for all of them at once."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pkgutil
import re
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel import formulas, units
from perfmodel.formulas.collectives import ring_all_reduce
from perfmodel.units import Bytes, BytesPerSecond, Count, Seconds, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Formula = Any
MODULES = [importlib.import_module(m.name) for m in pkgutil.iter_modules(formulas.__path__, "perfmodel.formulas.")]
FORMULAS = [
    function
    for module in MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_")
]
every_formula = pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__name__)

ALIASES = [
    alias for alias in vars(units).values() if any(isinstance(m, Unit) for m in getattr(alias, "__metadata__", ()))
]
FACTOR = {"B": 3.0, "FLOP": 5.0, "s": 7.0, "W": 11.0, "J": 77.0, "USD": 13.0, "1": 1.0}
"""How many new units make an old one; J = W s."""

SHARES = {"fraction", "streaming_fraction", "sustained", "winograd_fraction"}
SWITCHES = {"on", "closed"}
HALVES = {"ramp_size", "eager"}
"""Sizes at which half of something is reached: the larger, the later."""
CONSTANTS = {"tile_balance", "depth_half", "softmax_width"}
TILES = {"tile_rows", "tile_columns", "times", "weights"}
"""Have an axis of their own, the last."""
RANGES = {
    "probability": (0.001, 0.999), "sigma": (0.01, 2.0), "shape": (0.5, 20.0), "tail": (1.5, 20.0),
    "rate": (1e-6, 1e-4), "interval": (1e2, 1e4), "write": (1.0, 1e3), "restart": (1.0, 1e3), "skew": (0.0, 2.0),
}  # fmt: skip
"""Of what has no meaning elsewhere: parameters of distributions, times of failures and checkpoints beside one another."""
EITHER_WAY = {
    ("normal_kth", "deviation"), ("failure_rate", "device_mtbf"), ("failure_rate", "node_mtbf"), ("daly_interval", "write"),
    ("checkpointed_time", "interval"), ("checkpointed_deviation", "interval"), ("waiting_share", "mean"),
    ("last_bucket", "size"), ("last_bucket", "first"), ("last_bucket", "bucket"),
    ("padding_time", "useful"), ("left_over", "busy"), ("row_traffic", "sector"),
}  # fmt: skip
"""Arguments with a dimension whose growth may make a result smaller."""
COUNTS_FLOP = {"tiled_matmul", "tiled_compute", "split_product", "flash_attention"}
"""Its 2 m n k FLOP are made of counts, so that the unit FLOP cannot be rescaled."""
FILLERS = {"forward", "backward", "weight", "together"}
"""Passes that make a pipeline wait and fill its bubbles: idle time may go either way with them."""


def units_of(formula: Formula) -> dict[str, str]:
    hints = get_type_hints(formula, include_extras=True)
    return {name: hint.__metadata__[0].name for name, hint in hints.items()}


def scale(unit: str, fixed: str = "") -> float:
    above, _, below = unit.partition("/")
    return (1.0 if above == fixed else FACTOR[above]) / FACTOR[below or "1"]


def domain(name: str, unit: str) -> st.SearchStrategy[Any]:
    """Orders of magnitude for what has a dimension, so that each branch of a maximum is seen."""
    if name in SWITCHES:
        return st.integers(0, 1)
    if name in RANGES:
        return st.floats(*RANGES[name])
    if name in SHARES:
        return st.floats(0.01, 1.0)
    if unit != "1" or name in CONSTANTS:
        return st.floats(-6, 12).map(lambda exponent: 10.0**exponent)
    return st.integers(1, 4096)


def inputs_of(formula: Formula) -> st.SearchStrategy[dict[str, Any]]:
    named = units_of(formula)
    drawn = st.fixed_dictionaries({name: domain(name, unit) for name, unit in named.items() if name != "return"})
    return drawn.filter(lambda inputs: not nearly_equal(inputs.values()))


def nearly_equal(values: Iterable[float]) -> bool:
    """Whether the difference of two of them is mostly rounding."""
    return any(0 < abs(a - b) < 1e-6 * abs(a) for a, b in itertools.combinations(values, 2))


def is_consistent(formula: Formula, inputs: dict[str, Any]) -> bool:
    """Whether, measured in other units, the answer changes by exactly its own unit."""
    named = units_of(formula)
    fixed = "FLOP" if formula.__name__ in COUNTS_FLOP else ""
    scaled = {name: value * scale(named[name], fixed) for name, value in inputs.items()}
    rounding = max((abs(scaled[name]) for name in scaled if named[name] == named["return"]), default=0.0) * 1e-14
    return math.isclose(formula(**scaled), formula(**inputs) * scale(named["return"]), rel_tol=1e-9, abs_tol=rounding)


def test_formulas_are_found() -> None:
    assert {"ring_all_reduce", "tiled_matmul", "one_f_one_b_bubble", "step_energy"} <= {f.__name__ for f in FORMULAS}


@every_formula
class TestDocumented:
    def test_takes_keywords_only_and_has_no_defaults(self, formula: Formula) -> None:
        """Two floats in the wrong order still run; a default for physics is a hidden assumption."""
        for parameter in inspect.signature(formula).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY
            assert parameter.default is parameter.empty

    def test_documents_each_argument(self, formula: Formula) -> None:
        section = re.search(r"\nArgs:\n(.*?)\n(?=\S|\Z)", inspect.getdoc(formula) or "", re.DOTALL)
        assert section
        documented = re.findall(r"^ {4}(\w+): \S", section[1], re.MULTILINE)
        assert documented == list(inspect.signature(formula).parameters)

    @pytest.mark.parametrize("part", [".. math::", "\nReferences:\n", "\n>>> "])
    def test_has_equation_reference_and_example(self, formula: Formula, part: str) -> None:
        assert part in (inspect.getdoc(formula) or "")

    def test_is_annotated_with_units(self, formula: Formula) -> None:
        hints = get_type_hints(formula, include_extras=True)
        assert hints.keys() == {*inspect.signature(formula).parameters, "return"}
        assert all(hint in ALIASES for hint in hints.values())


class TestDimensions:
    @every_formula
    @given(data=st.data())
    def test_has_the_unit_it_claims(self, formula: Formula, data: st.DataObject) -> None:
        assert is_consistent(formula, data.draw(inputs_of(formula)))

    def test_a_lost_bandwidth_is_noticed(self) -> None:
        def wrong(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
            return 2 * (ranks - 1) * (latency + size / ranks) + 0 * bandwidth

        inputs = {"size": 8e9, "ranks": 8, "bandwidth": 1e11, "latency": 1e-6}
        assert is_consistent(ring_all_reduce, inputs)
        assert not is_consistent(wrong, inputs)


def rows_equal_scalars(formula: Formula, columns: set[str], table: list[dict[str, Any]]) -> None:
    first = table[0]
    wide = {name: np.array([row[name] for row in table]) if name in columns else first[name] for name in first}
    alone = [formula(**{name: row[name] if name in columns else first[name] for name in first}) for row in table]
    np.testing.assert_allclose(np.broadcast_to(formula(**wide), len(table)), alone, rtol=1e-12)


class TestColumns:
    @every_formula
    @given(data=st.data())
    def test_a_table_equals_its_rows(self, formula: Formula, data: st.DataObject) -> None:
        table = data.draw(st.lists(inputs_of(formula), min_size=2, max_size=5))
        rows_equal_scalars(formula, table[0].keys() - TILES, table)

    @every_formula
    @given(data=st.data())
    def test_one_column_beside_numbers(self, formula: Formula, data: st.DataObject) -> None:
        table = data.draw(st.lists(inputs_of(formula), min_size=2, max_size=5))
        rows_equal_scalars(formula, {data.draw(st.sampled_from(sorted(table[0].keys() - TILES)))}, table)

    def test_device_constants_of_a_tiled_product(self) -> None:
        formula = next(f for f in FORMULAS if f.__name__ == "tiled_matmul")
        row = {name: 64.0 for name in units_of(formula) if name != "return"} | {"traffic": 0.0, "launch": 0.0}
        rows_equal_scalars(formula, {"peak"}, [{**row, "peak": peak} for peak in (1e12, 2e12, 4e12)])


def direction(name: str, unit: str) -> int:
    """1 where the result may only grow with this argument, -1 where it may only fall, 0 where neither."""
    if unit in {"B/s", "FLOP/s"} or name in SHARES | HALVES:
        return -1
    if name in FILLERS:
        return 0
    return int(unit in {"B", "FLOP", "s", "W", "J"} or name in {"rows", "columns", "depth", "count", "devices"})


@every_formula
@given(data=st.data(), factor=st.floats(1.0, 1e3))
def test_moves_the_right_way(formula: Formula, data: st.DataObject, factor: float) -> None:
    """Time grows with size and falls with bandwidth, energy grows with power, memory with size; a bandwidth with that of its links."""
    named = units_of(formula)
    inputs = data.draw(inputs_of(formula))
    if formula.__name__ == "step_energy":
        inputs["active"] = inputs["idle"] + inputs["active"]
    before = formula(**inputs)
    for name, value in inputs.items():
        sign = direction(name, named[name]) * (-1 if named["return"] == "B/s" else 1)
        if not sign or (formula.__name__, name) in EITHER_WAY:
            continue
        if formula.__name__ == "step_energy" and name == "idle":
            continue  # stays below the active power
        larger = value * (math.ceil(factor) if isinstance(value, int) else factor)
        changed = formula(**{**inputs, name: min(larger, 1.0) if name in SHARES else larger})
        assert sign * (changed - before) >= -1e-9 * abs(before), name


def test_no_formula_changes_its_inputs() -> None:
    sizes = np.array([1e6, 1e9])
    call: Callable[..., Any] = ring_all_reduce
    call(size=sizes, ranks=np.array([2, 8]), bandwidth=1e9, latency=0.0)
    np.testing.assert_array_equal(sizes, [1e6, 1e9])
