"""The search against a loop of `predict` over the same candidates, and bounds, fixed axes and objectives."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from perfmodel.cost.demand import room
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.planner.axes import axes_of
from perfmodel.planner.limits import limits_of
from perfmodel.planner.plan import plan, value_of
from perfmodel.planner.request import device_counts
from perfmodel.planner.search import Question, search
from perfmodel.planner.sensitivity import sensitivities
from perfmodel.prediction import Prediction, predict
from perfmodel.specs import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs import Hardware, Workload

LAYERS, BATCH, DEVICES = 4, 8, 4
SOME: dict[str, tuple[int, ...]] = {"microbatch": (1, 4), "zero": (0, 1, 3)}
"""Axes of the comparison with a loop, which takes 10 ms for each candidate."""


@pytest.fixture(scope="module")
def small() -> Workload:
    made: Workload = find("workloads", "megatron-1.7b")
    training = made.training.model_copy(update={"batch": BATCH})
    return made.model_copy(update={"training": training, "model": made.model.model_copy(update={"layers": LAYERS})})


def tight(machine: Hardware, gigabytes: float) -> Hardware:
    """With room for so much beside the least context."""
    context = machine.device.memory.capacity - room(machine)
    memory = machine.device.memory.model_copy(update={"capacity": gigabytes * 1e9 + context})
    return machine.model_copy(update={"device": machine.device.model_copy(update={"memory": memory})})


def question(workload: Workload, hardware: Hardware, *limits: str, **fixed: Any) -> Question:
    return Question(workload, hardware, Strategy(), DEVICES, axes_of(Strategy(), fixed), limits_of(limits))


def loop(workload: Workload, hardware: Hardware) -> Iterator[Prediction]:
    """Every strategy that predict takes, one by one."""
    counts = (1, 2, 4)
    for tp, cp, pp in product(counts, repeat=3):
        dp = DEVICES // (tp * cp * pp)
        for vpp, microbatch, sequence, recompute, (zero, group) in product(
            (1, 2, 4), SOME["microbatch"], (False, True), ("none", "full"), [(0, None), *product((1, 3), counts)]
        ):
            if zero and dp * cp == 1:  # nothing to spread
                continue
            strategy = Strategy(
                devices=DEVICES, tp=tp, cp=cp, pp=pp, dp=dp or 1, vpp=vpp, microbatch=microbatch, zero=zero,
                sequence_parallel=sequence, recompute=recompute, shard_group=group,  # type: ignore[arg-type]
            )  # fmt: skip
            try:
                yield predict(workload, hardware, strategy)
            except InputError:
                continue


@pytest.fixture(scope="module")
def cramped(machine: Hardware) -> Hardware:
    return tight(machine, 2.5)


@pytest.fixture(scope="module")
def all_of(small: Workload, cramped: Hardware) -> list[Prediction]:
    return list(loop(small, cramped))


class TestAgainstALoop:
    @pytest.mark.parametrize("objective", ["time", "memory", "energy", "cost", "throughput"])
    def test_best(self, small: Workload, cramped: Hardware, all_of: list[Prediction], objective: Any) -> None:
        figure = {"time": "step_time", "memory": "memory.peak", "energy": "energy_per_step", "cost": "cost_per_step",
                  "throughput": "throughput.samples_per_second"}[objective]  # fmt: skip
        sign = -1 if objective == "throughput" else 1
        found = search(question(small, cramped, **SOME), objective, 5)
        best = sorted({float(f"{sign * value_of(p, figure):.10g}") for p in all_of if p.fits})[:5]
        assert [row.rank for row in found.best] == pytest.approx(best, rel=1e-9)

    def test_front(self, small: Workload, cramped: Hardware, all_of: list[Prediction]) -> None:
        found = search(question(small, cramped, **SOME), "time", 1)
        points = {(float(f"{p.step_time:.9g}"), float(f"{p.memory_peak:.9g}")) for p in all_of if p.fits}
        unbeaten = {a for a in points if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in points)}
        assert {(float(f"{r.step_time:.9g}"), float(f"{r.memory:.9g}")) for r in found.front} == unbeaten

    def test_nearest(self, small: Workload, cramped: Hardware, all_of: list[Prediction]) -> None:
        found = search(question(small, cramped, **SOME), "time", 3)
        over = sorted({float(f"{p.memory_peak / room(cramped) - 1:.10g}") for p in all_of if not p.fits})[:3]
        assert [row.rank for row in found.nearest] == pytest.approx(over, rel=1e-8)

    def test_candidates_are_counted(self, small: Workload, cramped: Hardware) -> None:
        found = search(question(small, cramped, **SOME), "time", 3)
        assert 0 < found.feasible < found.evaluated


class TestLimits:
    def test_a_bound_on_memory(self, small: Workload, machine: Hardware) -> None:
        free = search(question(small, machine), "time", 1).best[0]
        bound = free.memory * 0.8
        found = search(question(small, machine, f"memory.peak<={bound / 1e9} GB"), "time", 3)
        assert all(row.memory <= bound * (1 + 1e-9) for row in found.best)
        assert found.best[0].step_time > free.step_time

    def test_a_bound_on_a_degree(self, small: Workload, machine: Hardware) -> None:
        found = search(question(small, machine, "tp<=2", "pp>=2"), "time", 5)
        assert {(row.strategy.tp, row.strategy.pp) for row in found.best} <= {(1, 2), (1, 4), (2, 2)}

    def test_a_bound_that_nothing_keeps(self, small: Workload, machine: Hardware) -> None:
        made = plan([question(small, machine, "mfu>=0.99")], "time", 3)
        assert made.plans == ()
        assert made.feasible == 0
        (limit, value, excess), *_ = made.rejected[0].broken
        assert (limit.figure, limit.bound) == ("mfu", 0.99)
        assert excess == pytest.approx(0.99 / value - 1)
        assert value == pytest.approx(made.rejected[0].prediction.mfu(), rel=1e-9)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("memory<=3 GiB", "'memory' is no figure of a plan; did you mean 'memory.peak'"),
            ("memory.peak<=3", "needs a unit of B, as in '80 GiB'"),
            ("mfu=0.5", "must be a figure, <= or >=, and a value"),
            ("mfu>=lots", "'lots' is no number"),
            ("tp<=0", "must be a number above 0, not 0"),
            ("", "must be a figure"),
        ],
    )
    def test_what_is_no_bound(self, text: str, told: str) -> None:
        with pytest.raises(InputError, match="--constrain") as caught:
            limits_of([text])
        assert told in str(caught.value)


class TestAxes:
    def test_fixed_axes_stay(self, small: Workload, machine: Hardware) -> None:
        fixed = {"tp": (1, 2), "zero": 1, "recompute": "full", "microbatch": 2}
        found = search(question(small, machine, **fixed), "time", 50)
        assert {row.strategy.tp for row in (*found.best, *found.front)} <= {1, 2}
        assert {(r.strategy.zero, r.strategy.recompute, r.strategy.microbatch) for r in found.best} == {(1, "full", 2)}

    def test_what_a_strategy_states_stays(self) -> None:
        axes = axes_of(Strategy(zero=3, recompute="full"), {})
        assert (axes.choices["zero"], axes.choices["recompute"]) == ((3,), ("full",))
        assert axes_of(Strategy(zero=3), {"zero": [0, 1]}).choices["zero"] == (0, 1)

    def test_schedules_are_searched_where_asked(self, small: Workload, machine: Hardware) -> None:
        found = search(question(small, machine, schedule=["1f1b", "zero-bubble-h1"], pp=4), "time", 5)
        assert {row.strategy.schedule for row in (*found.best, *found.front)} == {"1f1b", "zero-bubble-h1"}

    @pytest.mark.parametrize("stated", [{"schedule": "pipedream"}, {"stage_layers": "2-2"}])
    def test_what_the_search_has_not(self, stated: dict[str, Any]) -> None:
        with pytest.raises(InputError, match=next(iter(stated))):
            axes_of(Strategy(**stated), {})

    def test_servers_keep_whole_replicas(self) -> None:
        assert axes_of(Strategy(sync="parameter-server"), {}).choices["zero"] == (0,)

    @pytest.mark.parametrize(
        ("fixed", "told"),
        [
            ({"tpp": 2}, "--fix tpp: is no axis of the search; did you mean 'tp' or 'pp' or 'vpp'?"),
            ({"tp": 0}, "--fix tp: must be a whole number above 0, not 0"),
            ({"tp": [2, "x"]}, "--fix tp: must be a whole number above 0, not 'x'"),
            ({"zero": 4}, "--fix zero: 4 is none of 0, 1, 2, 3"),
            ({"zero": True}, "--fix zero: true is none of 0, 1, 2, 3"),
            ({"schedule": "dapple"}, "--fix schedule: dapple is none of 1f1b, gpipe, breadth-first, zero-bubble-h1"),
        ],
    )
    def test_what_is_no_axis_or_value(self, fixed: dict[str, Any], told: str) -> None:
        with pytest.raises(InputError) as caught:
            axes_of(Strategy(), fixed)
        assert told in str(caught.value)

    def test_a_degree_that_does_not_divide_says_why(self, small: Workload, machine: Hardware) -> None:
        found = search(question(small, machine, vpp=3, pp=2), "time", 3)
        assert found.evaluated == 0
        refused = {refusal.path: refusal.example for refusal in found.refused}
        assert refused["vpp"].startswith("3 does not divide the 2 layers of a stage")


class TestRequests:
    @pytest.mark.parametrize("word", ["", "x", "0", "8..", "..8", "8..4", "8..64:0", "-8", "1.5", "8;9"])
    def test_what_is_no_number_of_devices(self, word: str) -> None:
        with pytest.raises(InputError, match="--devices"):
            device_counts(word)

    def test_several_questions_share_one_answer(self, small: Workload, machine: Hardware) -> None:
        questions = [
            Question(small, machine, Strategy(), count, axes_of(Strategy(), {}), ()) for count in device_counts("1..8")
        ]
        made = plan(questions, "cost", 4)
        assert made.rows[0].question.devices == 1
        assert {row.question.devices for row in made.front} == {1, 2, 4, 8}
        times = [row.step_time for row in made.front]
        assert times == sorted(times)


class TestSensitivity:
    def test_is_a_logarithmic_derivative(self, small: Workload, machine: Hardware) -> None:
        """Twice the change of every rate, and half of every latency, is twice the speed: elasticities add up to one."""
        strategy = search(question(small, machine), "time", 1).best[0].strategy
        found = {one.path: one.elasticity for one in sensitivities(small, machine, strategy)}
        assert (
            found["device.compute.peak.bf16" if "device.compute.peak.bf16" in found else "device.compute.peak.fp16"] < 0
        )
        rates = sum(e for path, e in found.items() if path.endswith(("bandwidth", "bf16", "fp16", "fp32")))
        waits = sum(e for path, e in found.items() if path.endswith(("latency", "time", "setup", "ramp", "handshake", "depth_time")))  # fmt: skip
        assert waits - rates == pytest.approx(1.0, abs=0.03)

    def test_strongest_first(self, small: Workload, machine: Hardware) -> None:
        strategy = search(question(small, machine), "time", 1).best[0].strategy
        sizes = [abs(one.elasticity) for one in sensitivities(small, machine, strategy)]
        assert sizes == sorted(sizes, reverse=True)
