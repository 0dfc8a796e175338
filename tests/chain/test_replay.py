"""A predicted step played pass by pass, as a trace and as a picture."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from perfmodel import api
from perfmodel.cli import main
from perfmodel.schedule import SCHEDULES
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from pathlib import Path

JOB: dict[str, Any] = {
    "strategy": "megatron-2022", "devices": 256, "tp": 8, "pp": 8, "batch": 64, "recompute": "selective", "sequence_parallel": True,
}  # fmt: skip
CHUNKS = {"zero-bubble-v": 2, "breadth-first": 3}
COMMAND = (
    "predict", "gpt2-124m", "dgx-a100-80gb", "--pp", "4", "--devices", "8", "--batch", "16", "--format", "json",
)  # fmt: skip


def predicted(schedule: str, **more: Any) -> Any:
    chunks = {"vpp": CHUNKS[schedule]} if schedule in CHUNKS else {}
    return api.predict("gpt3-175b", "dgx-a100-80gb", **{**JOB, "schedule": schedule, **chunks, **more})


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_closed_form_is_near(schedule: str) -> None:
    """They differ by what only the ends have, and by the sends that the last pass forward and backward do not do."""
    made = predicted(schedule)
    assert made.replay.step_time == pytest.approx(made.step_time, rel=0.03)


def test_an_interleaved_step_too() -> None:
    made = predicted("1f1b", vpp=3)
    assert made.replay.step_time == pytest.approx(made.step_time, rel=0.01)


def test_without_a_pipeline_both_are_the_same() -> None:
    made = api.predict("gpt2-124m", "dgx-a100-80gb", dp=1, microbatch=2, batch=16)
    assert made.replay.step_time == pytest.approx(made.step_time, rel=1e-9)


def test_data_parallel_differs_by_what_the_embedding_hides() -> None:
    """The last backward pass of the one stage is that of the layers, the head and the embedding."""
    made = api.predict("gpt2-1.5b", "dgx-a100-80gb", dp=64, microbatch=1, batch=512)
    assert made.replay.step_time == pytest.approx(made.step_time, rel=0.02)
    assert made.replay.step_time < made.step_time


def test_the_exchange_hides_under_the_last_backward_pass_or_follows_it() -> None:
    for overlap in ("backward", "none"):
        made = predicted("1f1b", sets={"strategy.gradient_overlap": overlap})
        last = made.replay.simulation.devices[0][-1]
        exchange = next(event for event in made.replay.events if event.kind == "exchange" and event.device == 0)
        assert exchange.start == pytest.approx(last.start if overlap == "backward" else last.sent)
        alone = float(sum(duration(p) for p in made.sync.gradients))
        beside = min(alone, last.sent - last.start) if overlap == "backward" else 0.0
        assert exchange.end - exchange.start == pytest.approx(alone + 0.126 * beside), "both slow one another down"


def test_updates_wait_for_all_stages_unless_steps_end_apart() -> None:
    for schedule, together in (("1f1b", True), ("zero-bubble-h2", False)):
        begins = {e.start for e in predicted(schedule).replay.events if e.name == "optimizer step"}
        assert (len(begins) == 1) == together


def test_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What Perfetto needs: every pass once, in the right process, slices of a track one after the other, microseconds."""
    path = tmp_path / "step.json"
    assert main([*COMMAND, "--timeline", str(path)]) == 0
    report = json.loads(capsys.readouterr().out)
    step = report["step_time"]
    told = json.loads(path.read_text())
    slices = [event for event in told["traceEvents"] if event["ph"] == "X"]
    passes = [event for event in slices if event["cat"] in {"forward", "backward+weight"}]
    assert len(passes) == 4 * 2 * 8
    assert {event["pid"] for event in slices} == set(range(4))
    assert {event["cat"] for event in slices} == {"forward", "backward+weight", "send", "exchange", "update"}
    assert max(event["ts"] + event["dur"] for event in slices) / 1e6 == pytest.approx(step, rel=0.15)
    assert told["otherData"]["step_time"] == step
    for stage in range(4):
        own = sorted((e["ts"], e["dur"]) for e in slices if (e["pid"], e["tid"]) == (stage, 0))
        assert all(start + length <= after + 1e-6 for (start, length), (after, _) in pairwise(own))
    counters = [e for e in told["traceEvents"] if e["ph"] == "C" and e["pid"] == 0]
    assert max(e["args"]["microbatches"] for e in counters if e["name"] == "microbatches in flight") == 4
    memory = max(sum(e["args"].values()) for e in counters if e["name"] == "memory [B]")
    assert memory == pytest.approx(report["memory"]["stages"][0]["total"])


def test_picture(tmp_path: Path) -> None:
    path = tmp_path / "step.png"
    assert main([*COMMAND, "--plot-pipeline", str(path), "--output", str(tmp_path / "out.json")]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--timeline", "missing/step.json", "--timeline: {path}: cannot be written: no such directory"),
        ("--timeline", "", "--timeline: {path}: cannot be written: is a directory"),
        ("--plot-pipeline", "step.txt", "--plot-pipeline: {path}: a picture ends in .png, .svg or .pdf"),
    ],
)
def test_a_file_that_cannot_be_written(
    option: str, name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main([*COMMAND, option, str(path)]) == 2
    assert capsys.readouterr().err.strip() == message.format(path=path)


@pytest.mark.parametrize("chunks", [2, 3, 4, 6])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_sends_beside_the_passes_of_several_chunks(chunks: int, groups: int) -> None:
    """All but 2 (p v - 1) of them are hidden, by the closed form and by the exact simulation."""
    sets = {"strategy.pipeline_overlap": "chunks", "workload.model.vocabulary": 8, "workload.model.positions": "none"}
    job: dict[str, Any] = {"vpp": chunks, "batch": 32 * groups, "sets": sets}
    made = predicted("1f1b", **job)
    waiting = predicted("1f1b", **(job | {"sets": sets | {"strategy.pipeline_overlap": "none"}}))
    assert made.replay.step_time == pytest.approx(made.step_time, rel=2e-3)
    assert made.replay.step_time < waiting.replay.step_time


def test_one_chunk_hides_no_send() -> None:
    made, waiting = (predicted("1f1b", sets={"strategy.pipeline_overlap": overlap}) for overlap in ("chunks", "none"))
    assert made.step_time == waiting.step_time
