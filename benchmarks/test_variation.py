"""Closed forms of 100,000 times each, and a step with delays: `pytest benchmarks/test_variation.py --benchmark-enable`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfmodel
from perfmodel.formulas import order_statistics as kth
from perfmodel.formulas.mitigation import coded_gradient_time
from perfmodel.library import find
from perfmodel.variation.apply import vary

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

AIM = 0.010
"""Seconds."""
FORMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "exponential": (kth.exponential_kth, {"shift": 1.0, "mean": 0.3}),
    "normal": (kth.normal_kth, {"mean": 1.0, "deviation": 0.1}),
    "lognormal": (kth.lognormal_kth, {"median": 1.0, "sigma": 0.3}),
    "gamma": (kth.gamma_kth, {"shift": 1.0, "mean": 0.3, "shape": 2.5}),
    "weibull": (kth.weibull_kth, {"shift": 1.0, "scale": 0.3, "shape": 0.7}),
    "pareto": (kth.pareto_kth, {"minimum": 1.0, "tail": 3.0}),
    "mixture": (kth.mixture_kth, {"time": 1.0, "slowdown": 0.5, "probability": 1e-4}),
    "empirical": (kth.empirical_kth, {"times": np.linspace(1, 2, 100), "weights": np.arange(100.0, 0.0, -1)}),
    "gradient code": (
        coded_gradient_time,
        {"load": 4, "reduction": 3, "compute": 1.6, "compute_delay": 1.25, "communication": 6.0, "communication_delay": 10.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_closed_form(benchmark: BenchmarkFixture, form: str) -> None:
    formula, given = FORMS[form]
    benchmark(formula, waited=99_000, dropped=1_000, **given)
    if benchmark.stats:
        assert benchmark.stats["median"] < AIM


def test_step_with_delays(benchmark: BenchmarkFixture) -> None:
    """Three causes at two levels on 1,024 devices: sums by tables."""
    prediction = perfmodel.predict("gpt3-175b", "dgx-a100-80gb", devices=1024, tp=8, pp=8, batch=1536)
    variation = find("variations", "jitter-assumed")
    benchmark(vary, prediction, variation)
