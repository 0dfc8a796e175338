"""How long one prediction takes, beside plain Python arithmetic of about the same amount.

    pytest benchmarks --benchmark-enable

The ratio of the two says more than either: it holds from one machine to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfmodel import api
from perfmodel.library import find
from perfmodel.prediction import Prediction, predict
from perfmodel.specs import Strategy
from perfmodel.timeline import leaves

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

DEGREES: dict[str, Any] = {"tp": 8, "pp": 16, "dp": 8, "recompute": "full"}


@pytest.fixture(scope="module")
def job() -> tuple[Any, Any, Strategy]:
    return find("workloads", "gpt3-175b"), find("hardware", "dgx-a100-80gb"), Strategy.model_validate(DEGREES)


def arithmetic(terms: int) -> float:
    """As many rooflines as a step has terms, nine tile shapes each, written as a loop over floats."""
    total = 0.0
    for term in range(1, terms + 1):
        rows, columns, depth = 2048.0 * term, 12288.0, 1536.0
        best = float("inf")
        for tile in (256.0, 192.0, 160.0, 128.0, 112.0, 96.0, 64.0, 48.0, 32.0):
            waves = -(-(-(-rows // tile) * -(-columns // tile)) // 108)
            best = min(best, waves * 2 * tile * tile * (depth + 64) / (312e12 * 0.89 / 108) * (1 + 20 / tile))
        total += max(best, (rows * depth + depth * columns + rows * columns) * 2 / (2e12 * 0.8)) + 5e-6
    return total


def test_reference_loop(benchmark: BenchmarkFixture, job: tuple[Any, Any, Strategy]) -> None:
    terms = sum(1 for _ in leaves(predict(*job).tree))
    assert benchmark(arithmetic, terms) > 0


def test_predict(benchmark: BenchmarkFixture, job: tuple[Any, Any, Strategy]) -> None:
    made: Prediction = benchmark(predict, *job)
    assert made.step_time > 0


def test_report(benchmark: BenchmarkFixture, job: tuple[Any, Any, Strategy]) -> None:
    assert benchmark(lambda: api.report(predict(*job)).record)["step_time"] > 0


def test_api_predict(benchmark: BenchmarkFixture) -> None:
    """By names, as users call it: the files are parsed once and kept."""
    made: Prediction = benchmark(api.predict, "gpt3-175b", "dgx-a100-80gb", **DEGREES)
    assert made.step_time > 0


def test_read_a_file(benchmark: BenchmarkFixture) -> None:
    """With an override nothing is kept: parse and validate."""
    from perfmodel.library import folder
    from perfmodel.specs import Hardware
    from perfmodel.yamlfile import load

    made: Hardware = benchmark(load, folder("hardware") / "dgx-a100-80gb.yaml", Hardware)
    assert made.reach > 0
