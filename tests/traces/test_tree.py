"""A trace as a tree of time, beside a prediction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from events import FIXTURES, GEMM, NCCL, RELU, kernel, read, step

import perfmodel
from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.timeline import duration, leaves
from perfmodel.traces.reading import read_traces
from perfmodel.traces.summary import Summary
from perfmodel.traces.tree import ORDER, compared, kinds, read_prediction, tree

if TYPE_CHECKING:
    from pathlib import Path

TRACES = [FIXTURES / f"synthetic-rank{rank}.json.gz" for rank in range(2)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real prediction with all kinds of terms: recomputation, tensor and data parallel, a bubble."""
    made = perfmodel.predict(
        "gpt2-124m", "dgx-a100-80gb", devices=8, tp=2, pp=2, recompute="full", batch=32, microbatch=2
    )
    path = tmp_path_factory.mktemp("saved") / "prediction.json"
    path.write_text(perfmodel.report(made).render("json"))
    return path


def test_lasts_as_long_as_the_mean_step_and_exposes_what_the_summary_does() -> None:
    for trace in read_traces(TRACES):
        summary = Summary(trace)
        step_time, classes = summary.per_step
        part = tree(summary)
        assert duration(part) == pytest.approx(step_time)
        assert sum(float(exposed) for _, _, exposed in leaves(part)) == pytest.approx(step_time)
        found = kinds(part)
        assert found["communication"] == pytest.approx((classes["collective"].total, classes["collective"].exposed))
        assert found["matmul"] == pytest.approx((classes["GEMM"].total, classes["GEMM"].exposed))
        assert set(found) <= set(ORDER)


def test_hidden_time_on_many_streams_does_not_lengthen_the_step(tmp_path: Path) -> None:
    """Three messages under one product, together longer than it."""
    s = Summary(
        read(tmp_path, [step(1, 0, 12), kernel(GEMM, 0, 10), *(kernel(NCCL, 0, 9, stream=i) for i in range(3))])
    )
    assert duration(tree(s)) == pytest.approx(12e-6)
    assert kinds(tree(s))["communication"] == pytest.approx((27e-6, 0))


def test_a_saved_prediction_keeps_its_step_and_its_exposed_times(saved: Path) -> None:
    predicted = read_prediction(saved)
    record = json.loads(saved.read_text())
    assert predicted.step == record["step_time"]
    assert sum(exposed for _, exposed in predicted.kinds.values()) == pytest.approx(predicted.step)
    assert set(predicted.kinds) == {"matmul", "attention", "memory-bound", "communication", "idle"}


def test_differences_add_up_to_that_of_the_step(saved: Path) -> None:
    predicted = read_prediction(saved)
    rows = compared(predicted, tuple(Summary(trace) for trace in read_traces(TRACES)))
    assert rows[-1].kind == "step"
    assert sum(row.difference for row in rows[:-1]) == pytest.approx(rows[-1].difference)
    by_kind = {row.kind: row for row in rows}
    assert by_kind["matmul"].error == pytest.approx(by_kind["matmul"].predicted[0] / by_kind["matmul"].measured[0] - 1)
    assert by_kind["copies"].predicted == (0.0, 0.0)


def test_a_perfect_prediction_has_no_error(tmp_path: Path) -> None:
    trace = read(tmp_path, [step(1, 0, 20), kernel(GEMM, 0, 10), kernel(RELU, 10, 4), kernel(NCCL, 12, 6, stream=9)])
    breakdown = [
        {"name": "mm", "kind": "matmul", "time": 10e-6, "exposed": 10e-6, "formula": "tiled_matmul"},
        {"name": "add", "kind": "memory-bound", "time": 1e-6, "exposed": 1e-6, "formula": "streaming"},
        {"name": "recompute add", "kind": "recompute", "time": 3e-6, "exposed": 3e-6, "formula": "streaming"},
        {"name": "gradients", "kind": "data parallel", "time": 6e-6, "exposed": 4e-6, "formula": "ring"},
        {"name": "dispatch", "kind": "host", "time": 2e-6, "exposed": 2e-6, "formula": "dispatch"},
    ]
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"workload": "w", "hardware": "h", "step_time": 20e-6, "breakdown": breakdown}))
    rows = compared(read_prediction(path), (Summary(trace),))
    assert [row.kind for row in rows] == ["matmul", "memory-bound", "communication", "idle", "step"]
    assert all(
        row.error == pytest.approx(0, abs=1e-9) and row.difference == pytest.approx(0, abs=1e-12) for row in rows
    )


def test_the_function_gives_the_rows_as_a_report(saved: Path) -> None:
    report = api.compare_trace(saved, TRACES)
    assert [row["kind"] for row in report.rows][-2:] == ["idle", "step"]
    assert "difference" in report.render("table")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("no", "is no JSON; save a prediction with perfmodel predict --format json"),
        ("[" * 100_000, "is no JSON; save a prediction with perfmodel predict --format json"),
        ("[]", "is no prediction: it lacks step_time or breakdown; save one with perfmodel predict --format json"),
        (
            '{"step_time": -1, "breakdown": []}',
            "is no prediction: it lacks step_time or breakdown; save one with perfmodel predict --format json",
        ),
        (
            '{"step_time": 1, "breakdown": [5]}',
            "is no prediction: it lacks step_time or breakdown; save one with perfmodel predict --format json",
        ),
        (
            '{"step_time": true, "breakdown": []}',
            "is no prediction: it lacks step_time or breakdown; save one with perfmodel predict --format json",
        ),
    ],
    ids=range(6),
)
def test_what_is_no_prediction_is_one_line(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_prediction(path)
    assert str(caught.value) == f"{path}: {fault}"
