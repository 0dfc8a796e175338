"""Splits among unequal machines against all splits tried one by one, and against what planners gave."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfmodel
from perfmodel.errors import InputError
from perfmodel.library import folder as find_folder
from perfmodel.variation.balance import affine_batch, proportional_batch, slowdown, split
from perfmodel.variation.machines import speed_of

if TYPE_CHECKING:
    from collections.abc import Sequence

MACHINE = Path(__file__).parents[1] / "fixtures" / "machine.yaml"
speeds = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=3)


def slowest(numbers: Sequence[int], costs: Sequence[float]) -> float:
    return max(number * cost for number, cost in zip(numbers, costs, strict=True))


@given(costs=speeds, total=st.integers(0, 12), least=st.integers(0, 2))
def test_no_split_is_faster(costs: list[float], total: int, least: int) -> None:
    if least * len(costs) > total:
        with pytest.raises(ValueError, match="hold more than"):
            split(total, costs, least=least)
        return
    best = min(
        slowest(numbers, costs)
        for numbers in product(range(least, total + 1), repeat=len(costs))
        if sum(numbers) == total
    )
    found = split(total, costs, least=least)
    assert sum(found) == total
    assert min(found) >= least
    assert slowest(found, costs) == pytest.approx(best)


@given(
    total=st.integers(1, 12),
    parts=st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 2), st.floats(0, 5)), min_size=1, max_size=3),
)
def test_no_affine_split_is_faster(total: int, parts: list[tuple[float, float, float]]) -> None:
    def time(numbers: Sequence[int]) -> float:
        return max(max(floor, a + b * n) for n, (a, b, floor) in zip(numbers, parts, strict=True))

    best = min(time(numbers) for numbers in product(range(total + 1), repeat=len(parts)) if sum(numbers) == total)
    found = affine_batch(total, *map(list, zip(*parts, strict=True)))
    assert sum(found) == total
    assert time(found) == pytest.approx(best)


def test_places_can_be_too_small() -> None:
    with pytest.raises(ValueError, match="2 places cannot hold 9"):
        split(9, [1.0, 1.0], most=[4, 4])
    assert split(8, [1.0, 5.0], most=[6, 9]) == [6, 2]
    with pytest.raises(ValueError, match="above 0"):
        split(8, [1.0, 0.0])


def test_equal_speeds_share_equally() -> None:
    assert proportional_batch(64, [3.0] * 4) == [16] * 4


def test_malleus_70b() -> None:
    """Layers and microbatches of the planner of the 70B case, tensor-parallel rates of 8, 4, 2 and 1 devices."""
    first, second = [7.22, 7.22, 1.9, 1, 1, 1, 1], [3.66, 3.66, 1.9, 1, 1]
    layers = [split(80, rates) for rates in (first, second)]
    assert layers == [[2, 2, 8, 17, 17, 17, 17], [7, 7, 14, 26, 26]]
    slots = [slowest(part, rates) for part, rates in zip(layers, (first, second), strict=True)]
    assert split(64, slots) == [39, 25]


def test_malleus_110b_is_a_tie() -> None:
    """The planner's [2, 5, 11, 20, 21, 21] takes 21.01; 21.0 is the least."""
    rates = [7.35, 3.77, 1.91, 1, 1, 1]
    assert slowest(split(80, rates), rates) == pytest.approx(21.0)
    assert slowest([2, 5, 11, 20, 21, 21], rates) == pytest.approx(21.01, abs=0.005)


def test_lb_bsp_gains_the_mean_over_the_least() -> None:
    batch, speed = 15_400, [1.0, 1.54, 2.08]
    even, balanced = split(batch, [1.0] * 3), proportional_batch(batch, speed)
    costs = [1 / v for v in speed]
    assert slowest(even, costs) / slowest(balanced, costs) == pytest.approx(1.54, rel=2e-4)


class TestSlowdown:
    @given(speeds=speeds, replicas=st.integers(1, 12))
    def test_balance_never_hurts(self, speeds: list[float], replicas: int) -> None:
        even, batch = (slowdown(speeds, replicas, balance=kind) for kind in ("none", "batch"))
        assert batch <= even * (1 + 1e-12)

    @given(speeds=speeds, count=st.integers(1, 6))
    def test_many_threads_come_close_to_samples(self, speeds: list[float], count: int) -> None:
        replicas = count * len(speeds)
        batch = slowdown(speeds, replicas, balance="batch")
        threads = slowdown(speeds, replicas, balance="threads", threads=10_000 * replicas)
        assert batch <= threads * (1 + 1e-12)
        assert threads == pytest.approx(batch, rel=0.02)

    def test_equal_machines_need_no_balance(self) -> None:
        assert slowdown([1.0], 8) == slowdown([1.0], 8, balance="batch") == 1

    def test_classes_are_spread_evenly(self) -> None:
        assert slowdown([1.0, 3.0], 4, balance="batch") == pytest.approx(0.5)

    def test_each_replica_has_a_thread(self) -> None:
        with pytest.raises(ValueError, match="at least 4"):
            slowdown([1.0], 4, balance="threads", threads=3)


class TestPredicted:
    def test_lb_bsp(self, tmp_path: Path) -> None:
        """Computing alone, so that the whole step gains; the even one waits for the slowest."""
        text = (find_folder("variations") / "lb-bsp.yaml").read_text(encoding="utf-8")
        even = tmp_path / "even.yaml"
        even.write_text(text.replace("batch}", "none}"), encoding="utf-8")

        def computing(file: str | Path) -> float:
            made: Any = perfmodel.predict("resnet-50", MACHINE, devices=3, batch=96, stragglers=file)
            return float(made.kinds["convolution"][0])

        assert computing(even) / computing("lb-bsp") == pytest.approx(1.54)

    def test_random_delays_come_on_top(self, tmp_path: Path) -> None:
        file = tmp_path / "both.yaml"
        file.write_text(
            "schema: 1\nname: both\nsources: {none: invented}\nstragglers:\n  source: none\n  status: assumed\n"
            "  machines: {speeds: [0.5, 1.0]}\n  compute: [{kind: exponential, mean: 0.1}]\n",
            encoding="utf-8",
        )
        made: Any = perfmodel.predict("gpt2-355m", MACHINE, devices=8, batch=64, stragglers=file, simulate=4000, seed=1)
        drawn = made.simulation.step_time
        assert abs(drawn.mean - made.step_time) < 3 * drawn.error
        plain = perfmodel.predict("gpt2-355m", MACHINE, devices=8, batch=64)
        assert made.step_time > 2 * plain.step_time * 0.95

    def test_too_few_threads_are_refused(self) -> None:
        with pytest.raises(
            InputError, match=r"easyscale.yaml:10:\d+: stragglers.machines.threads: 12 logical workers leave"
        ):
            perfmodel.predict("gpt2-355m", MACHINE, devices=16, batch=64, stragglers="easyscale")


class TestDeviceClasses:
    """Two hosts of A100 and one of V100 under one job: speeds are predictions."""

    @pytest.mark.parametrize("balance", ["none", "batch"])
    def test_the_slow_class_or_the_mean(self, balance: str, tmp_path: Path) -> None:
        file = tmp_path / "classes.yaml"
        file.write_text(
            "schema: 1\nname: classes\nsources: {none: invented}\nstragglers:\n  source: none\n  status: assumed\n"
            f"  machines: {{devices: [dgx-a100-80gb, dgx-1-v100], counts: [2, 1], balance: {balance}}}\n",
            encoding="utf-8",
        )
        job: dict[str, Any] = {"devices": 24, "batch": 96, "precision": "fp16"}
        plain: Any = perfmodel.predict("gpt2-355m", "dgx-a100-80gb", **job)
        mixed: Any = perfmodel.predict("gpt2-355m", "dgx-a100-80gb", stragglers=file, **job)
        speed = speed_of(plain, "dgx-1-v100")
        assert 0.2 < speed < 0.7
        expected = 1 / speed if balance == "none" else 3 / (2 + speed)
        assert mixed.waiting.machine_factor == pytest.approx(expected)
        assert mixed.step_time > plain.step_time

    @pytest.mark.parametrize(
        ("machines", "message"),
        [
            ("{balance: batch}", "needs 'speeds' or 'devices', one of the two"),
            ("{speeds: [1.0, 2.0], counts: [1]}", "1 counts for 2 classes"),
            ("{devices: [dgx-1-v100x]}", "did you mean 'dgx-1-v100'"),
            ("{devices: [dgx-1-v100]}", "has no peak for bf16"),
        ],
    )
    def test_what_is_refused(self, machines: str, message: str, tmp_path: Path) -> None:
        file = tmp_path / "classes.yaml"
        file.write_text(
            "schema: 1\nname: classes\nsources: {none: invented}\nstragglers:\n  source: none\n  status: assumed\n"
            f"  machines: {machines}\n",
            encoding="utf-8",
        )
        with pytest.raises(InputError, match=message):
            perfmodel.predict("gpt2-355m", "dgx-a100-80gb", stragglers=file, devices=8, batch=8, precision="bf16")
