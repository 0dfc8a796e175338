"""What must hold for every job, whatever the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.job import SETTINGS, load_job
from perfmodel.library import find
from perfmodel.prediction import Prediction, predict
from perfmodel.specs import Strategy
from perfmodel.timeline import Repeat, duration

if TYPE_CHECKING:
    from perfmodel.specs import Hardware, Workload

GPT, MACHINE = "gpt2-355m", "dgx-a100-80gb"  # 24 layers, 16 heads
CLOSE = 1 + 1e-9


def hardware(**changes: str) -> Hardware:
    made: Hardware = find(
        "hardware", MACHINE, {path.replace("__", "."): (text, "--set") for path, text in changes.items()}
    )
    return made


def workload(batch: int) -> Workload:
    made: Workload = find("workloads", GPT, {"training.batch": (batch, "--batch")})
    return made


@st.composite
def strategies(draw: st.DrawFn, /, **fixed: Any) -> dict[str, Any]:
    """Valid ones of the small GPT, with the batch that they need under `batch`."""
    power = st.sampled_from([1, 2, 4, 8])
    made: dict[str, Any] = {
        "tp": draw(power), "pp": draw(power), "dp": draw(st.sampled_from([1, 2, 3, 8, 16])), "cp": draw(st.sampled_from([1, 1, 2])),
        "microbatch": draw(power), "zero": draw(st.integers(0, 3)), "sequence_parallel": draw(st.booleans()),
        "recompute": draw(st.sampled_from(["none", "selective", "full"])), "attention": draw(st.sampled_from(["unfused", "flash"])),
        "schedule": draw(st.sampled_from(["1f1b", "gpipe"])), "gradient_overlap": draw(st.sampled_from(["none", "backward"])),
        "tensor_overlap": draw(st.sampled_from(["none", "backward"])), "gradient_precision": draw(st.sampled_from(["fp32", "same"])),
    } | fixed  # fmt: skip
    can_interleave = made["pp"] > 1 and made["schedule"] == "1f1b" and "vpp" not in fixed
    made["vpp"] = draw(st.sampled_from([1, 3])) if can_interleave else made.get("vpp", 1)
    made["batch"] = made["dp"] * made["microbatch"] * made["pp"] * draw(st.integers(1, 6))
    return made


def predicted(given: dict[str, Any], machine: Hardware | None = None) -> Prediction:
    chosen = {name: value for name, value in given.items() if name != "batch"}
    return predict(workload(given["batch"]), machine or hardware(), Strategy(**chosen))


class TestBounds:
    @given(strategies())
    def test_the_step_lies_within_its_interval_and_below_its_upper_bound(self, job: dict[str, Any]) -> None:
        made = predicted(job)
        low, high = made.interval
        assert low < made.step_time < high
        assert made.computing <= made.step_time * CLOSE
        assert made.step_time <= made.bounds[1] * CLOSE

    @settings(phases=[Phase.explicit, Phase.generate])
    @example({"tp": 4, "dp": 2, "cp": 2, "zero": 3, "gradient_overlap": "none", "tensor_overlap": "none", "batch": 2})
    @given(strategies())
    def test_the_step_lies_above_its_lower_bound(self, job: dict[str, Any]) -> None:
        made = predicted(job)
        assert made.bounds[0] <= made.step_time * CLOSE

    @given(strategies(gradient_overlap="none", tensor_overlap="none", zero=0))
    def test_where_nothing_overlaps_the_step_is_its_upper_bound(self, job: dict[str, Any]) -> None:
        made = predicted(job)
        assert made.step_time == pytest.approx(made.bounds[1], rel=1e-12)

    @given(strategies())
    def test_utilisation(self, job: dict[str, Any]) -> None:
        made = predicted(job)
        assert 0 < made.mfu("causal") < made.mfu() <= made.hfu < 1

    @given(strategies())
    def test_the_exposed_times_add_up(self, job: dict[str, Any]) -> None:
        made = predicted(job)
        assert sum(exposed for _, _, exposed in made.terms) == pytest.approx(made.step_time, rel=1e-9)
        assert sum(seen for _, seen in made.kinds.values()) == pytest.approx(made.step_time, rel=1e-9)


class TestPipeline:
    @given(strategies())
    def test_each_layer_of_a_stage_works_once_on_each_microbatch(self, job: dict[str, Any]) -> None:
        made = predicted(job)
        expected = made.layout.microbatches * 24 / made.layout.pp
        counts = {leaf.name: time / float(leaf.time) for leaf, time, _ in made.terms}
        names = ("mlp up", "mlp up weight gradient", "attention qkv", "mlp residual backward")
        assert [counts[name] for name in names] == pytest.approx([expected] * len(names))
        assert ("recompute mlp up" in counts) == (job["recompute"] == "full")

    @given(strategies(), st.integers(2, 8))
    def test_more_microbatches_fill_the_pipeline(self, job: dict[str, Any], factor: int) -> None:
        few, many = predicted(job), predicted({**job, "batch": job["batch"] * factor})
        assert few.samples_per_second <= many.samples_per_second * CLOSE

    @given(strategies())
    def test_never_above_the_rate_without_a_bubble(self, job: dict[str, Any]) -> None:
        """All stages at work on microbatches, nothing before or after."""
        made = predicted(job)
        body = next(part for part in made.tree.parts if isinstance(part, Repeat) and part.name == "microbatches")  # type: ignore[union-attr]
        computing = duration(body.part)
        rate = made.layout.dp * made.layout.microbatch / float(computing)
        assert made.samples_per_second <= rate * CLOSE

    @given(strategies(pp=1, vpp=1))
    def test_one_stage_has_no_bubble_and_sends_nothing(self, job: dict[str, Any]) -> None:
        assert not {"bubble", "pipeline parallel"} & predicted(job).kinds.keys()

    @given(strategies(pp=8, vpp=1, schedule="1f1b"))
    def test_virtual_stages_divide_the_bubble(self, job: dict[str, Any]) -> None:
        plain, interleaved = predicted(job), predicted({**job, "vpp": 3})
        assert interleaved.kinds["bubble"][0] < plain.kinds["bubble"][0]
        assert interleaved.kinds["pipeline parallel"][0] == pytest.approx(3 * plain.kinds["pipeline parallel"][0])
        assert interleaved.memory_peak >= plain.memory_peak


class TestMemory:
    @given(strategies(shard_group=None))
    def test_falls_with_the_stage_of_zero(self, job: dict[str, Any]) -> None:
        # of small models the buffers of what is gathered and scattered may outweigh what sharding saves
        classes = ("weights", "gradients", "optimizer")
        footprints = [predicted({**job, "zero": zero}).footprint.classes for zero in range(4)]
        peaks = [float(np.max(sum(made[name] for name in classes))) for made in footprints]
        assert peaks == sorted(peaks, reverse=True)
        shares = predicted({**job, "zero": 3}).footprint
        whole = predicted({**job, "zero": 0}).footprint
        replicas = job["dp"] * job["cp"]
        for name in ("weights", "gradients", "optimizer"):
            assert getattr(shares, name) * replicas == pytest.approx(getattr(whole, name))

    @given(strategies())
    def test_recomputation_keeps_less(self, job: dict[str, Any]) -> None:
        none, selective, full = (
            predicted({**job, "recompute": policy}).footprint.activations for policy in ("none", "selective", "full")
        )
        assert np.all(full <= selective)
        assert np.all(selective <= none)

    @given(strategies(tp=8))
    def test_sequence_parallelism_keeps_less(self, job: dict[str, Any]) -> None:
        on, off = (predicted({**job, "sequence_parallel": value}) for value in (True, False))
        assert on.memory_peak <= off.memory_peak

    @given(strategies(schedule="1f1b", vpp=1))
    def test_gpipe_never_keeps_fewer_microbatches(self, job: dict[str, Any]) -> None:
        assert predicted({**job, "schedule": "gpipe"}).memory_peak >= predicted(job).memory_peak
        assert predicted({**job, "schedule": "gpipe"}).step_time == predicted(job).step_time


class TestNetwork:
    @given(strategies(), st.sampled_from(["tp", "cp", "dp"]))
    def test_one_rank_has_nothing_to_say(self, job: dict[str, Any], name: str) -> None:
        assume(not (name == "dp" and job["cp"] > 1) and not (name == "cp" and job["dp"] > 1))
        alone = {**job, name: 1, "batch": job["batch"] * 16}
        kind = {"tp": "tensor parallel", "cp": "context parallel", "dp": "data parallel"}[name]
        if name == "dp" and job["pp"] > 1:
            assert {leaf.name for leaf, _, _ in predicted(alone).terms if leaf.kind == kind} == {
                "tied embedding all-reduce"
            }
        else:
            assert kind not in predicted(alone).kinds

    @given(strategies(), st.sampled_from([0, 1]), st.floats(1.0, 100.0))
    def test_a_faster_one_never_slows_the_step(self, job: dict[str, Any], tier: int, factor: float) -> None:
        before = hardware()
        bandwidth, latency = (getattr(before.network[tier], name) for name in ("bandwidth", "latency"))
        path = f"network__{tier}__"
        wider = hardware(**{f"{path}bandwidth": f"{bandwidth * factor!r} B/s"})
        nearer = hardware(**{f"{path}latency": f"{latency / factor!r} s"})
        step = predicted(job, before).step_time
        assert predicted(job, wider).step_time <= step * CLOSE
        assert predicted(job, nearer).step_time <= step * CLOSE

    @given(strategies())
    def test_a_device_alone_is_faster_with_more_bandwidth_or_peak(self, job: dict[str, Any]) -> None:
        step = predicted(job).step_time
        assert predicted(job, hardware(device__memory__bandwidth="4 TB/s")).step_time < step
        assert predicted(job, hardware(device__compute__peak__fp16="600 TFLOP/s")).step_time <= step


@given(strategies(), st.sampled_from(["tp", "pp", "vpp", "microbatch", "dp", "cp"]), st.integers(1, 100))
def test_a_strategy_is_laid_out_or_refused_with_a_reason(job: dict[str, Any], name: str, value: int) -> None:
    """Nothing between: no other exception, no prediction with broken microbatches."""
    chosen = {setting: given for setting, given in {**job, name: value}.items() if setting in SETTINGS}
    try:
        made = load_job(GPT, MACHINE, settings=chosen)
        prediction = predict(made.workload, made.hardware, made.strategy)
    except InputError as error:
        reasons = [problem.message for problem in error.problems]
    else:
        reasons = []
        layout = prediction.layout
        assert layout.devices == layout.tp * layout.pp * layout.cp * layout.dp
        assert layout.microbatches == int(layout.microbatches) >= 1
        assert prediction.step_time > 0
    assert all(reasons)
