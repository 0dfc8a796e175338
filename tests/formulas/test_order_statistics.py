"""Expected order statistics against draws by numpy's own generators, against exact sums, and against the clock."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas import order_statistics as formulas

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

LISTED = {"times": np.array([1.0, 1.2, 1.1, 2.0]), "weights": np.array([5.0, 2.0, 3.0, 0.1])}
KINDS: dict[str, tuple[dict[str, Any], Callable[[Generator, tuple[int, int]], NDArray[np.float64]]]] = {
    "exponential": ({"shift": 0.0, "mean": 0.3}, lambda r, n: r.exponential(0.3, n)),
    "shifted-exponential": ({"shift": 1.0, "mean": 0.3}, lambda r, n: 1 + r.exponential(0.3, n)),
    "normal": ({"mean": 1.0, "deviation": 0.1}, lambda r, n: r.normal(1, 0.1, n)),
    "lognormal": ({"median": 1.0, "sigma": 0.3}, lambda r, n: r.lognormal(0, 0.3, n)),
    "gamma": ({"shift": 1.0, "mean": 0.3, "shape": 2.5}, lambda r, n: 1 + r.gamma(2.5, 0.12, n)),
    "weibull": ({"shift": 1.0, "scale": 0.3, "shape": 0.7}, lambda r, n: 1 + 0.3 * r.weibull(0.7, n)),
    "pareto": ({"minimum": 1.0, "tail": 3.0}, lambda r, n: 1 + r.pareto(3.0, n)),
    "mixture": (
        {"time": 1.0, "slowdown": 0.5, "probability": 0.0001},
        lambda r, n: np.where(r.random(n) < 0.0001, 1.5, 1.0),
    ),
    "empirical": (LISTED, lambda r, n: r.choice(LISTED["times"], size=n, p=LISTED["weights"] / 10.1)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def formula(kind: str) -> Callable[..., Any]:
    made: Callable[..., Any] = getattr(formulas, f"{kind.removeprefix('shifted-')}_kth")
    return made


class TestAgainstDraws:
    @every_kind
    @pytest.mark.parametrize(
        ("waited", "dropped", "draws"),
        [
            (1, 0, 20_000),
            (8, 0, 20_000),
            (6, 2, 20_000),
            (1, 7, 20_000),
            (950, 50, 1000),
            (1000, 0, 1000),
            (100_000, 0, 100),
        ],
    )
    def test_within_three_standard_errors(self, kind: str, waited: int, dropped: int, draws: int) -> None:
        given_values, draw = KINDS[kind]
        random = np.random.default_rng(20)
        drawn = draw(random, (draws, waited + dropped))
        kth = np.partition(drawn, waited - 1, axis=1)[:, waited - 1]
        error = kth.std(ddof=1) / math.sqrt(draws)
        expected = float(formula(kind)(waited=waited, dropped=dropped, **given_values))
        # where all draws agree, one of them might still have differed
        agree = np.ptp(kth) == 0
        assert abs(kth.mean() - expected) <= (3 * np.ptp(drawn) / draws if agree else 3 * error)

    @every_kind
    def test_takes_less_than_ten_milliseconds(self, kind: str) -> None:
        given_values, _ = KINDS[kind]
        formula(kind)(waited=2, dropped=0, **given_values)
        took = []
        for waited in (1, 1000, 100_000):
            start = time.perf_counter()
            formula(kind)(waited=waited, dropped=waited // 10, **given_values)
            took.append(time.perf_counter() - start)
        assert min(took) < 0.010


class TestExact:
    @given(n=st.integers(1, 400), data=st.data())
    def test_harmonic_numbers(self, n: int, data: st.DataObject) -> None:
        k = data.draw(st.integers(1, n))
        exact = sum(1 / i for i in range(n - k + 1, n + 1))
        for kind in ("exponential", "gamma", "weibull"):
            shape = {} if kind == "exponential" else {"shape": 1.0}
            delay = {"scale": 1.0} if kind == "weibull" else {"mean": 1.0}
            found = formula(kind)(waited=k, dropped=n - k, shift=0.0, **delay, **shape)
            assert float(found) == pytest.approx(exact, rel=1e-9)

    @given(n=st.integers(1, 5000), shape=st.floats(0.3, 8.0))
    def test_first_of_weibull(self, n: int, shape: float) -> None:
        first = formulas.weibull_kth(waited=1, dropped=n - 1, shift=0.0, scale=2.0, shape=shape)
        assert float(first) == pytest.approx(2 * math.gamma(1 + 1 / shape) / n ** (1 / shape), rel=1e-7)

    def test_largest_normal_deviates(self) -> None:
        """Of 2, 3, 4 and 5: 1 / sqrt(pi), 3 / (2 sqrt(pi)), and two that tables print."""
        largest = formulas.normal_kth(waited=np.array([2, 3, 4, 5]), dropped=0, mean=0.0, deviation=1.0)
        exact = [1 / math.sqrt(math.pi), 1.5 / math.sqrt(math.pi), 1.02937537, 1.16296447]
        np.testing.assert_allclose(largest, exact, rtol=1e-8)

    @given(n=st.integers(1, 60), tail=st.floats(1.1, 9.0))
    def test_all_order_statistics_add_up_to_n_means(self, n: int, tail: float) -> None:
        k = np.arange(1, n + 1)
        total = np.sum(formulas.pareto_kth(waited=k, dropped=n - k, minimum=1.0, tail=tail))
        assert total == pytest.approx(n * tail / (tail - 1), rel=1e-9)
        normal = np.sum(formulas.normal_kth(waited=k, dropped=n - k, mean=1.0, deviation=0.2))
        assert normal == pytest.approx(n, rel=1e-9)

    @given(n=st.integers(1, 2000), slow=st.floats(0.0, 2.0), probability=st.floats(0.0, 1.0))
    def test_a_mixture_is_an_empirical_of_two(self, n: int, slow: float, probability: float) -> None:
        one = formulas.mixture_kth(waited=n, dropped=0, time=1.0, slowdown=slow, probability=probability)
        assert float(one) == pytest.approx(1 + slow * (1 - (1 - probability) ** n), abs=1e-9)
        times, weights = np.array([1.0, 1.0 + slow]), np.array([1 - probability, probability])
        two = formulas.empirical_kth(waited=n, dropped=0, times=times, weights=weights)
        assert float(two) == pytest.approx(float(one), abs=1e-9)

    @every_kind
    @given(n=st.integers(2, 300), data=st.data())
    def test_later_ones_take_longer(self, kind: str, n: int, data: st.DataObject) -> None:
        k = data.draw(st.integers(1, n - 1))
        given_values, _ = KINDS[kind]
        earlier, later = (float(formula(kind)(waited=i, dropped=n - i, **given_values)) for i in (k, k + 1))
        assert earlier <= later * (1 + 1e-12)
