"""Gradient coding against a table computed elsewhere by numeric integration, and its limits."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfmodel.formulas.mitigation import balance_gain, coded_gradient_time, replicated_time
from perfmodel.formulas.order_statistics import exponential_kth
from perfmodel.variation.mitigation import best_gradient_code

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = {"compute": 1.6, "compute_delay": 1.25, "communication": 6.0, "communication_delay": 10.0}
"""n = 8, t1 = 1.6, lambda1 = 0.8, t2 = 6, lambda2 = 0.1."""


def test_each_code_of_eight_workers_to_four_digits(fixtures: Path) -> None:
    with (fixtures / "gradient_coding_expected_runtime.csv").open(encoding="utf-8") as stream:
        rows = [list(map(float, row)) for row in list(csv.reader(stream))[1:]]
    assert len(rows) == 36
    load, reduction, stragglers, expected = np.array(rows).T
    found = coded_gradient_time(waited=8 - stragglers, dropped=stragglers, load=load, reduction=reduction, **EXAMPLE)
    np.testing.assert_allclose(found, expected, atol=5.1e-5)


def test_the_best_codes() -> None:
    """36.1138 uncoded, 24.1063 without shorter messages, 21.3697 at d = 4, m = 3, s = 1."""
    d, m, s, time = best_gradient_code(8, **EXAMPLE)
    assert (d, m, s, round(time, 4)) == (4, 3, 1, 21.3697)
    alone = [
        float(coded_gradient_time(waited=8 - (d - 1), dropped=d - 1, load=d, reduction=1, **EXAMPLE))
        for d in range(1, 9)
    ]
    assert (round(alone[0], 4), round(min(alone), 4), int(np.argmin(alone)) + 1) == (36.1138, 24.1063, 8)


@pytest.mark.parametrize("workers", [1, 8, 1000, 100_000])
def test_without_delays_of_messages_it_is_exponential(workers: int) -> None:
    coded = coded_gradient_time(
        waited=workers, dropped=0, load=1, reduction=1, compute=2.0, compute_delay=0.5, communication=3.0,
        communication_delay=1e-9,
    )  # fmt: skip
    assert float(coded) == pytest.approx(
        float(exponential_kth(waited=workers, dropped=0, shift=5.0, mean=0.5)), rel=1e-6
    )


def test_equal_delays_do_not_cancel() -> None:
    """Two exponential delays of one mean are a gamma distribution."""
    apart = {"compute": 0.0, "communication": 0.0, "waited": 8, "dropped": 0, "load": 1, "reduction": 1}
    equal = coded_gradient_time(compute_delay=1.0, communication_delay=1.0, **apart)
    near = coded_gradient_time(compute_delay=1.0, communication_delay=1.0 + 1e-7, **apart)
    assert float(equal) == pytest.approx(float(near), rel=1e-6)


def test_replication_against_draws() -> None:
    random = np.random.default_rng(1)
    delays = 2 * (1 + random.exponential(0.7, (100_000, 6, 2))).min(axis=2)  # twice the load
    steps = delays.max(axis=1)
    expected = float(replicated_time(groups=6, copies=2, shift=1.0, mean=0.7))
    assert abs(steps.mean() - expected) < 3 * steps.std() / np.sqrt(len(steps))


def test_one_copy_waits_for_all() -> None:
    alone = float(replicated_time(groups=12, copies=1, shift=1.0, mean=0.7))
    assert alone == pytest.approx(float(exponential_kth(waited=12, dropped=0, shift=1.0, mean=0.7)))


def test_gain_of_balance() -> None:
    """LB-BSP reports up to 54 %: machines whose mean speed is 1.54 of the slowest."""
    assert balance_gain(mean_speed=1.54, least_speed=1.0) == pytest.approx(0.54)
    assert balance_gain(mean_speed=2.0, least_speed=2.0) == 0
