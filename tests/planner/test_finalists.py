"""Finalists: their simulated steps, what makes them differ, and stages of unequal layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel import api
from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.planner.finalists import PLAYED, WORTH, differences, finalist, played, rescued
from perfmodel.planner.unequal import held, unequal_layers

if TYPE_CHECKING:
    from perfmodel.planner.plan import Plan
    from perfmodel.prediction import Prediction

GIB = 2.0**30
MACHINE = str(Path(__file__).parents[1] / "fixtures" / "machine.yaml")
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a large head": ("llama-3.1-8b", "dgx-h100", {"devices": 16, "pp": 4, "batch": 64, "zero": 1}),
    "interleaved": ("llama-3.1-8b", "dgx-h100", {"devices": 16, "pp": 2, "vpp": 4, "batch": 64, "zero": 1}),
    "sharded weights": ("llama-3.1-8b", "dgx-h100", {"devices": 16, "pp": 4, "batch": 64, "zero": 3}),
    "all forward first": ("llama-3.1-8b", "dgx-h100", {"devices": 8, "pp": 4, "batch": 8, "schedule": "gpipe"}),
    "split backward": ("llama-3.1-8b", "dgx-h100", {"devices": 8, "pp": 4, "batch": 16, "schedule": "zero-bubble-h1"}),
}  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES)


def made(case: str, **more: Any) -> Prediction:
    model, machine, job = CASES[case]
    return api.predict(model, machine, strategy="megatron-core", **job, **more)


@every_case
def test_differences_add_up_to_what_the_simulation_takes_longer(case: str) -> None:
    one = made(case)
    causes = differences(one)
    assert sum(causes.values()) == pytest.approx(one.replay.step_time - one.step_time, rel=1e-9, abs=1e-12)
    assert causes["passes"] == pytest.approx(0, abs=1e-9), "equal stages have a closed form"


@every_case
def test_unequal_stages_are_faster_and_hold_no_more_than_the_room(case: str) -> None:
    found = finalist(made(case), 80 * GIB)
    assert found.unequal is not None
    assert found.unequal.simulated < found.simulated  # type: ignore[operator]
    assert found.unequal.prediction.memory_peak <= 80 * GIB
    sizes = [int(word) for word in found.unequal.prediction.strategy.stage_layers.split("-")]
    assert sum(sizes) == 32
    assert sizes[-1] < max(sizes), "the stage with the head has fewer"


def test_a_head_of_three_layers_of_a_vocabulary_of_128k() -> None:
    """Eight, nine, nine and six layers: no stage takes longer than nine."""
    assert unequal_layers(made("a large head"), 80 * GIB) == "8-9-9-6"


def test_no_cut_of_two_layers_moved_is_faster() -> None:
    best = finalist(made("a large head"), 80 * GIB).unequal
    assert best is not None
    for layers in ("9-9-9-5", "9-9-7-7", "7-9-9-7", "8-8-9-7", "8-10-8-6"):
        other = made("a large head", sets={"strategy.stage_layers": layers})
        assert best.simulated <= other.replay.step_time * (1 + WORTH)  # type: ignore[operator]


def test_what_layers_need_is_what_footprints_say() -> None:
    one = made("a large head")
    needed = held(one)
    for cut in ((8, 9, 9, 6), (1, 10, 20, 1), (12, 8, 8, 4)):
        other = made("a large head", sets={"strategy.stage_layers": "-".join(map(str, cut))})
        ends = np.cumsum([0, *cut])
        found = [needed[stage, ends[stage], ends[stage + 1]] for stage in range(4)]
        np.testing.assert_allclose(found, np.asarray(other.footprint.total), rtol=1e-12)


def test_little_room_shifts_layers_to_later_stages() -> None:
    one = made("a large head")
    free, tight = unequal_layers(one, 80 * GIB), unequal_layers(one, 45 * GIB)
    assert free is not None
    assert tight is not None
    assert int(tight.partition("-")[0]) < int(free.partition("-")[0])
    assert unequal_layers(one, 10 * GIB) is None, "no room at all"


def test_nothing_to_cut() -> None:
    alone = api.predict("llama-3.1-8b", "dgx-h100", strategy="megatron-core", devices=8, batch=16)
    turning = made("a large head", schedule="zero-bubble-v", vpp=2)
    assert unequal_layers(alone, 80 * GIB) is None
    assert unequal_layers(turning, 80 * GIB) is None
    assert unequal_layers(made("a large head", sets={"strategy.stage_layers": "8-9-9-6"}), 80 * GIB) is None, (
        "as the strategy has it"
    )


def test_a_step_of_too_many_passes_is_not_played() -> None:
    many = api.predict("gpt2-124m", "dgx-h100", devices=2, pp=2, vpp=1, batch=PLAYED, recompute="full")
    assert played(many) is None
    assert finalist(many, 80 * GIB).simulated is None


@pytest.mark.parametrize(
    ("layers", "more", "message"),
    [
        ("8-8-8-8", {"pp": 2}, "8-8-8-8 names 4 chunks, but pp 2 x vpp 1 are 2; name one for each"),
        ("8-8-8-9", {}, "8-8-8-9 are 33 layers, but the model has 32; make them add up"),
        ("8-8-8-8", {"schedule": "dual-pipe", "batch": 128}, "dual-pipe has chunks of equal layers only; leave stage_layers at equal, or take"),
        ("8.5-7", {}, "must be 'equal', 'last-fewer' or 'ends-fewer', or layers of each chunk as in 19-21-21-19"),
    ],
)  # fmt: skip
def test_layers_that_are_not_those_of_the_model(layers: str, more: dict[str, Any], message: str) -> None:
    job = {"devices": 16, "pp": 4, "batch": 64, **more}
    with pytest.raises(InputError, match=message):
        api.predict("llama-3.1-8b", "dgx-h100", strategy="megatron-core", sets={"strategy.stage_layers": layers}, **job)


def test_layers_named_one_by_one_as_the_rule_would_have_them() -> None:
    """What `last-fewer` makes of 30 layers on 4 stages."""
    job: dict[str, Any] = {"strategy": "megatron-core", "devices": 16, "pp": 4, "batch": 64}
    ruled, named = (
        api.predict("llama-3.1-8b", "dgx-h100", sets={"workload.model.layers": 30, "strategy.stage_layers": layers}, **job)
        for layers in ("last-fewer", "8-8-8-6")
    )  # fmt: skip
    assert named.step_time == pytest.approx(ruled.step_time, rel=1e-12)
    assert named.replay.step_time == pytest.approx(ruled.replay.step_time, rel=1e-12)
    np.testing.assert_allclose(np.asarray(named.footprint.total), np.asarray(ruled.footprint.total), rtol=1e-12)


class TestRescued:
    FIX = {"pp": 4, "tp": 1, "cp": 1, "vpp": 1, "zero": 0, "recompute": "none", "microbatch": 1}  # noqa: RUF012

    def plan(self, bound: str) -> Plan:
        return api.plan("gpt2-355m", MACHINE, devices=4, batch=32, fix=self.FIX, constrain=[bound], top=2)

    def test_a_layout_that_fits_with_unequal_stages_alone_is_found(self) -> None:
        found = self.plan("memory.peak<=2.9 GiB")
        assert not found.plans
        assert found.rejected[0].prediction.memory_peak > 2.9 * GIB
        one = found.rescued[0]
        assert one.prediction.memory_peak <= 2.9 * GIB
        assert one.simulated == played(one.prediction)
        assert sum(map(int, str(one.prediction.strategy.stage_layers).split("-"))) == 24

    def test_none_where_equal_stages_fit_and_where_no_cut_has_room(self) -> None:
        assert self.plan("memory.peak<=5 GiB").rescued == ()
        assert self.plan("memory.peak<=1 GiB").rescued == ()

    def test_none_where_another_bound_is_broken(self) -> None:
        assert self.plan("step_time<=1 ms").rescued == ()

    def test_the_command_shows_it_and_ends_well(self, capsys: pytest.CaptureFixture[str]) -> None:
        fixed = [word for axis, value in self.FIX.items() for word in ("--fix", f"{axis}={value}")]
        job = ["plan", "gpt2-355m", MACHINE, "--devices", "4", "--batch", "32", "--constrain", "memory.peak<=2.9 GiB"]
        assert main([*job, *fixed]) == 0
        out = capsys.readouterr().out
        assert "These fit with unequal stages alone" in out
        assert "5-8-8-3" in out
        assert "With equal stages nothing keeps all bounds." in out

    def test_no_room_for_a_layer_is_no_rescue(self) -> None:
        assert rescued(made("a large head"), 1 * GIB) is None
