"""The ladder of losses: it adds up to the step, and each loss goes where its cause is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel import api
from perfmodel.cli import main
from perfmodel.cost.losses import IDEAL, LADDER
from perfmodel.graph.flops import CONVENTIONS
from perfmodel.schedule import SCHEDULES

if TYPE_CHECKING:
    from pathlib import Path

GPT = ("gpt3-175b", "dgx-a100-80gb")
MODELS = [
    *[GPT] * 4, ("mixtral-8x7b", "dgx-h100"), ("llama-3.1-70b", "dgx-h100"), ("llama-3.1-8b", "tpu-v5p-pod"), ("resnet-50", "dgx-2"), ("vgg-16", "ac922-4gpu"),
    ("bert-large", "dgx-1-v100"), ("lstm-wikitext2", "dgx-2"),
]  # fmt: skip


@st.composite
def jobs(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    """Jobs of several families on several machines, with what each allows."""
    workload, machine = draw(st.sampled_from(MODELS))
    dp, microbatch = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2]))
    job: dict[str, Any] = {"dp": dp, "microbatch": microbatch, "batch": 32 * dp * microbatch}
    if workload == "mixtral-8x7b":
        job["ep"] = draw(st.sampled_from([d for d in (1, 2, 4) if d <= dp]))
    elif (workload, machine) != GPT:
        job["sync"] = draw(st.sampled_from(["all-reduce", "peer-to-peer", "parameter-server"]))
    if (workload, machine) != GPT:
        return workload, machine, job
    schedule = draw(st.sampled_from(list(SCHEDULES)))
    job |= {"tp": draw(st.sampled_from([1, 2, 8])), "cp": draw(st.sampled_from([1, 2])), "schedule": schedule}
    job |= {"pp": draw(st.sampled_from([2, 4, 8])), "vpp": 2 if schedule == "zero-bubble-v" else 1}
    job |= {"recompute": draw(st.sampled_from(["none", "selective", "full"])), "zero": draw(st.sampled_from([0, 1]))}
    job |= {"strategy": draw(st.sampled_from([None, "megatron-deepspeed", "megatron-core"]))}
    ring = job["cp"] > 1 and job["strategy"] == "megatron-core"  # joins blocks of fused attention alone
    job |= {"attention": "flash" if ring else draw(st.sampled_from(["unfused", "flash"]))}
    return workload, machine, job


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_losses_add_up_to_the_step(job: tuple[str, str, dict[str, Any]]) -> None:
    workload, machine, options = job
    made = api.predict(workload, machine, **options)
    assert sum(made.losses.values()) == pytest.approx(made.step_time, rel=1e-9, abs=0)
    assert made.losses[IDEAL] / made.step_time == pytest.approx(made.mfu(), rel=1e-12)
    assert made.losses.keys() <= LADDER.keys(), "a loss without a name"
    assert list(made.losses) == [name for name in LADDER if name in made.losses]
    signed = {"uncounted arithmetic", "imbalance", "kernel efficiency"}
    assert all(time > 0 for name, time in made.losses.items() if name not in signed)


def lost(**options: Any) -> dict[str, float]:
    base: dict[str, Any] = {
        "devices": 64,
        "tp": 8,
        "pp": 8,
        "batch": 32,
        "attention": "unfused",
        "strategy": "megatron-2022",
    }
    return dict.fromkeys(LADDER, 0.0) | api.predict(*GPT, **{**base, **options}).losses


class TestEachGoesWhereItsCauseIs:
    def test_recomputation(self) -> None:
        plain, again = lost(), lost(recompute="full")
        assert plain["recomputation"] == 0 < again["recomputation"]
        same = (
            "ideal",
            "uncounted arithmetic",
            "imbalance",
            "kernel efficiency",
            "memory-bound operations",
            "optimizer",
        )
        assert [plain[name] for name in same] == pytest.approx([again[name] for name in same])

    def test_bubble(self) -> None:
        assert lost()["pipeline bubble"] > lost(schedule="zero-bubble-h1")["pipeline bubble"]
        assert lost(pp=1, devices=8)["pipeline bubble"] == 0

    def test_messages(self) -> None:
        assert lost()["exposed tensor parallel"] > 0 == lost(tp=1, devices=8)["exposed tensor parallel"]
        assert lost()["exposed pipeline parallel"] > 0 == lost(pp=1, devices=8)["exposed pipeline parallel"]
        assert lost(cp=2, devices=128)["exposed context parallel"] > 0

    def test_imbalance_is_what_only_the_ends_have(self) -> None:
        """The head of the last stage, beyond the share of it that is every stage's; none without a pipeline."""
        made = api.predict(*GPT, devices=64, tp=8, pp=8, batch=32, attention="unfused")
        products = 3 * 2 * 2048 * 12288 * 51200 / 8  # forward and backward of one sequence on one of 8 devices
        expected = 32 * products * (1 - 1 / 8) / made.peak
        assert made.losses["imbalance"] == pytest.approx(expected, rel=1e-6)
        assert "imbalance" not in api.predict(*GPT, devices=8, tp=8, batch=4).losses

    def test_causal_kernels_leave_out_what_full_attention_counts(self) -> None:
        assert lost(attention="flash")["uncounted arithmetic"] < 0 == lost()["uncounted arithmetic"]

    def test_servers(self) -> None:
        made = api.predict("vgg-16", "ac922-4gpu", dp=16, microbatch=32, batch=512, sync="parameter-server")
        assert made.losses["exposed parameter servers"] > 0

    def test_stragglers(self, capsys: pytest.CaptureFixture[str]) -> None:
        job = ("predict", "gpt2-1.5b", "dgx-a100-80gb", "--devices", "64", "--batch", "512", "--format", "json")
        told = []
        for more in ((), ("--stragglers", "jitter-assumed")):
            assert main([*job, *more]) == 0
            told.append(json.loads(capsys.readouterr().out))
            assert sum(told[-1]["losses"].values()) == pytest.approx(told[-1]["step_time"], rel=1e-9, abs=0)
        delay = told[1]["step_time"] - told[0]["step_time"]
        assert told[1]["losses"]["stragglers"] == pytest.approx(delay, rel=1e-6)

    def test_the_host(self) -> None:
        made = api.predict("gpt2-124m", "dgx-a100-80gb", dp=1, batch=1, strategy="megatron-deepspeed")
        assert made.losses["host"] > 0.1 * made.step_time


class TestReport:
    COMMAND = ("predict", "gpt2-124m", "dgx-a100-80gb", "--pp", "4", "--devices", "8", "--batch", "16")

    def test_table_ends_at_the_mfu(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*self.COMMAND, "--losses", "--format", "markdown"]) == 0
        told = capsys.readouterr().out
        assert "### Why it is not faster" in told
        mfu = next(line for line in told.splitlines() if line.startswith("| MFU")).split("|")[2].split("(")[0].strip()
        *_, last, step = [line for line in told.partition("Why it is")[2].splitlines() if line.startswith("| ")]
        assert [last.split("|")[4].strip(), step.split("|")[4].strip()] == [mfu, mfu]
        assert all(f"- {name}: " in told for name in CONVENTIONS)

    def test_two_jobs_differ_by_the_same_names(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        files = [str(tmp_path / name) for name in ("a.json", "b.json")]
        for file, schedule in zip(files, ("1f1b", "zero-bubble-h1"), strict=True):
            assert main([*self.COMMAND, "--schedule", schedule, "--format", "json", "--output", file]) == 0
        assert main(["compare", *files, "--format", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        step = told["step_time"][1] - told["step_time"][0]
        assert sum(row["b.difference"] for row in told["losses"]) == pytest.approx(step, rel=1e-9)
        bubble = next(row for row in told["losses"] if row["name"] == "pipeline bubble")
        assert bubble["b.difference"] == pytest.approx(step, rel=1e-6)

    def test_reports_of_older_versions_are_compared_without(self, tmp_path: Path) -> None:
        files = [tmp_path / name for name in ("a.json", "b.json")]
        for file in files:
            assert main([*self.COMMAND, "--format", "json", "--output", str(file)]) == 0
        old = json.loads(files[0].read_text())
        del old["losses"]
        files[0].write_text(json.dumps(old))
        assert "losses" not in api.compare_reports(files).record


class TestConventions:
    def test_each_has_both_utilisations(self) -> None:
        made = api.predict(*GPT, devices=64, tp=8, pp=8, batch=32, recompute="full")
        record = api.report(made).record
        assert record["mfu_by_convention"].keys() == record["hfu_by_convention"].keys() == CONVENTIONS.keys()
        assert record["flops_by_convention"].keys() == {*CONVENTIONS, "hardware"}
        assert record["hfu_by_convention"]["full-attention"] == record["hfu"]
        body = 96 * (12 * 12288**2 + 13 * 12288)
        again = 2 * body * 2048 * 32 / (made.step_time * 64 * made.peak)
        assert record["hfu_by_convention"]["6nd"] - record["mfu_by_convention"]["6nd"] == pytest.approx(again, rel=1e-3)

    @pytest.mark.parametrize("convention", CONVENTIONS)
    def test_without_recomputation_they_are_the_same(self, convention: Any) -> None:
        made = api.predict(*GPT, devices=64, tp=8, pp=8, batch=32)
        assert made.hfu_by(convention) == made.mfu(convention)
