"""`predict --stragglers` with pipelines that differ: stages, devices and shares of the batch of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel
from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.simulate import Times
from perfmodel.variation.balance import split

MACHINE = str(Path(__file__).parents[1] / "fixtures" / "machine.yaml")
JOB: dict[str, Any] = {"devices": 16, "batch": 32, "tp": 2, "pp": 4}
EQUAL_ENDS = {"workload.model.vocabulary": 64}
"""No head to speak of on the last stage."""
EVEN = "{microbatches: 16, stages: [" + ", ".join(["{tp: 2, layers: 6}"] * 4) + "]}"


def written(folder: Path, *pipelines: str, more: str = "") -> Path:
    file = folder / "plan.yaml"
    lines = "".join(f"    - {pipeline}\n" for pipeline in pipelines)
    file.write_text(
        "schema: 1\nname: plan\nsources: {none: invented}\nstragglers:\n  source: none\n  status: assumed\n"
        f"  pipelines:\n{lines}{more}",
        encoding="utf-8",
    )
    return file


def made(file: Path | None, **job: Any) -> Any:
    return perfmodel.predict("gpt2-355m", MACHINE, stragglers=file, sets=EQUAL_ENDS, **{**JOB, **job})


class TestEqualOnes:
    @pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble-h1"])
    def test_they_are_the_strategy(self, schedule: str, tmp_path: Path) -> None:
        """The closed form takes the ends as beside the other stages, the simulation plays them: 2 % of a step is theirs."""
        plan, plain = made(written(tmp_path, EVEN, EVEN), schedule=schedule), made(None, schedule=schedule)
        assert plan.step_time == pytest.approx(plain.step_time, rel=0.03)
        assert plan.step_time == pytest.approx(plain.replay.step_time, rel=0.01)
        assert plan.memory_peak == pytest.approx(plain.memory_peak)
        assert plan.flops() == plain.flops()
        assert plan.tokens_per_step == plain.tokens_per_step

    def test_terms_and_losses_add_up(self, tmp_path: Path) -> None:
        plan = made(written(tmp_path, EVEN, EVEN))
        assert sum(seen for _, seen in plan.kinds.values()) == pytest.approx(plan.step_time)
        assert sum(plan.losses.values()) == pytest.approx(plan.step_time)


class TestUnequalOnes:
    def test_a_slow_stage_sets_the_pace(self, tmp_path: Path) -> None:
        slow = EVEN.replace("{tp: 2, layers: 6}", "{tp: 2, layers: 6, slowdown: 2}", 1)
        late, even = made(written(tmp_path, slow, EVEN)), made(written(tmp_path, EVEN, EVEN))
        assert 1.3 * even.step_time < late.step_time < 2.1 * even.step_time
        assert late.pipelines.times[0] > late.pipelines.times[1]

    def test_fewer_layers_and_microbatches_help(self, tmp_path: Path) -> None:
        """As Malleus would: layers in proportion to speed, then microbatches in proportion to the pace of the pipelines."""
        costs = [2.0, 1.0, 1.0, 1.0]
        layers = split(24, costs)
        shares = split(32, [max(n * c for n, c in zip(layers, costs, strict=True)), 6.0])
        stages = ", ".join(f"{{tp: 2, layers: {n}, slowdown: {c}}}" for n, c in zip(layers, costs, strict=True))
        planned = (f"{{microbatches: {shares[0]}, stages: [{stages}]}}", EVEN.replace("16", str(shares[1]), 1))
        slow = EVEN.replace("{tp: 2, layers: 6}", "{tp: 2, layers: 6, slowdown: 2}", 1)
        assert made(written(tmp_path, *planned)).step_time < 0.8 * made(written(tmp_path, slow, EVEN)).step_time

    def test_devices_of_two_classes(self, tmp_path: Path) -> None:
        """Stages on V100 take longer than on A100, and hold less memory."""
        mixed = EVEN.replace("{tp: 2, layers: 6}", "{tp: 2, layers: 6, device: dgx-1-v100}", 2)
        job: dict[str, Any] = {"precision": "fp16"}
        plan: Any = perfmodel.predict(
            "gpt2-355m", "dgx-a100-80gb", stragglers=written(tmp_path, mixed, EVEN), **JOB | job
        )
        even: Any = perfmodel.predict(
            "gpt2-355m", "dgx-a100-80gb", stragglers=written(tmp_path, EVEN, EVEN), **JOB | job
        )
        assert plan.pipelines.times[0] > 1.3 * even.pipelines.times[0]
        assert plan.pipelines.times[1] == pytest.approx(even.pipelines.times[1])

    def test_memory_of_each_stage(self, tmp_path: Path) -> None:
        long = "{microbatches: 16, stages: [{tp: 4, layers: 20}, {tp: 2, layers: 4}]}"
        plan = made(written(tmp_path, EVEN, long))
        assert len(plan.footprint.total) == 6
        assert plan.footprint.weights[4] > plan.footprint.weights[1]
        assert plan.fits

    @given(
        layers=st.lists(st.integers(1, 6), min_size=2, max_size=5), microbatches=st.integers(1, 12),
        rates=st.lists(st.floats(0.5, 3), min_size=5, max_size=5),
    )  # fmt: skip
    @settings(max_examples=40, deadline=None)
    def test_between_the_pace_of_the_slowest_and_its_fill(
        self, layers: list[int], microbatches: int, rates: list[float]
    ) -> None:
        """What Malleus minimises, microbatches times the slowest stage, is the bound from below; a fill of it that from above."""
        times = [n * y for n, y in zip(layers, rates, strict=False)]
        stages, pace = len(times), max(times)
        end = SCHEDULES["1f1b"].step(
            stages, 1, microbatches, Times([t / 3 for t in times], [t / 3 for t in times], [t / 3 for t in times])
        )
        assert microbatches * pace * (1 - 1e-9) <= end <= (microbatches + stages - 1) * pace * (1 + 1e-9)


class TestMalleus:
    """The layers and microbatches of the planner (PKU-DAIR/Hetu@9e47240), whose rates are those of fewer tensor parallel devices."""

    def test_its_pipelines_end_together(self) -> None:
        plan = find("variations", "malleus-70b").stragglers.pipelines
        costs = {1: 7.22, 2: 3.66, 4: 1.9, 8: 1.0}
        for pipeline in plan:
            given = [int(stage.layers) for stage in pipeline.stages]
            assert given == split(80, [costs[int(stage.tp)] for stage in pipeline.stages])
        job: dict[str, Any] = {"tp": 8, "pp": 4, "devices": 64, "batch": 64, "zero": 1, "recompute": "full"}
        found: Any = perfmodel.predict("llama-2-70b", "dgx-a100-80gb", stragglers="malleus-70b", **job)
        assert max(found.pipelines.times) < 1.03 * min(found.pipelines.times)

    def test_the_table_shows_them(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = "predict llama-2-70b dgx-a100-80gb --tp 8 --pp 4 --devices 64 --batch 64 --zero 1 --recompute full --stragglers malleus-70b"
        assert main(words.split()) == 0
        assert "2 x 1, 2 x 1, 8 x 4, 17 x 8" in capsys.readouterr().out


class TestRefused:
    @pytest.mark.parametrize(
        ("pipelines", "more", "job", "messages"),
        [
            ((EVEN,), "", {}, ["take 16 microbatches; the batch of 32 has 32 of 1"]),
            ((EVEN.replace("layers: 6", "layers: 5"),) * 2, "", {}, ["hold 20 layers; GPT-2 355M has 24"]),
            ((EVEN, EVEN.replace("layers: 6", "layers: 5", 1)), "", {}, ["hold 23 layers, those of the first pipeline 24"]),
            ((EVEN, EVEN.replace("tp: 2", "tp: 3", 1)), "", {"devices": 24, "batch": 36}, ["3 does not divide 16 attention heads; nearest that do: 2 and 4"]),
            ((EVEN.replace("tp: 2", "tp: 4"),) * 2, "", {}, ["take 32 devices; the job has 16, give --devices"]),
            ((EVEN, EVEN), "  machines: {speeds: [1.0]}\n", {}, ["stands beside pipelines, which say who does what; leave one out"]),
            ((EVEN, EVEN), "", {"zero": 3}, ["take --zero 1 or 0"]),
            ((EVEN, EVEN), "", {"vpp": 2}, ["pass each stage once"]),
            ((EVEN, EVEN), "", {"lengths": "lengths-assumed"}, ["are dealt to equal pipelines"]),
            ((EVEN, EVEN), "", {"workload": "resnet-50", "tp": 1, "pp": 1}, ["need a chain of equal layers"]),
        ],
    )  # fmt: skip
    def test_what_they_cannot_be(
        self, pipelines: tuple[str, ...], more: str, job: dict[str, Any], messages: list[str], tmp_path: Path
    ) -> None:
        file = written(tmp_path, *pipelines, more=more)
        with pytest.raises(InputError) as caught:
            perfmodel.predict(job.pop("workload", "gpt2-355m"), MACHINE, stragglers=file, **{**JOB, **job})
        found = [problem.message for problem in caught.value.problems]
        assert all(any(message in one for one in found) for message in messages), found
