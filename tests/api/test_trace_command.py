"""`perfmodel trace` in its formats, beside a machine and a prediction, as a picture."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from perfmodel import api
from perfmodel.cli import main

TRACES = [str(Path(__file__).parents[1] / "fixtures" / "traces" / f"synthetic-rank{rank}.json.gz") for rank in range(2)]


def test_json_has_ranks_classes_steps_memory_and_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", *TRACES, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    first = record["ranks"][0]
    assert [one["rank"] for one in record["ranks"]] == [0, 1]
    assert sum(row["exposed"] for row in first["classes"]) == pytest.approx(first["span"])
    assert len(first["steps"]) == 3
    assert first["memory"]["peak_allocated"] == max(size for _, size in first["memory"]["timeline"])
    assert [set(row) for row in record["waiting"]] == [{"rank", "transfer", "waiting", "collectives"}] * 2
    assert record == api.trace(TRACES).record


def test_csv_has_a_row_for_each_rank_and_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", *TRACES, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["rank"], row["class"]) for row in rows} >= {("0", "GEMM"), ("1", "collective"), ("1", "idle")}


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_tables_have_all_sections(capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert main(["trace", *TRACES, "--format", form, "--hardware", "dgx-a100-80gb"]) == 0
    out = capsys.readouterr().out
    titles = ["Kineto trace of NVIDIA A100-SXM4-80GB", "Kernels by class, mean of 2 ranks", "Steps of rank 0", "Across ranks", "Collectives",
              "Kernels by time", "Memory of the device", "Operators on", "Operators by time", "Kernel time that is not judged"]  # fmt: skip
    assert [title for title in titles if title not in out] == []


def test_csv_beside_a_machine_has_a_row_for_each_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", TRACES[0], "--hardware", "dgx-a100-80gb", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["operator"] for row in rows} == {"aten::addmm", "aten::gelu"}
    assert all(
        float(row["error"]) == pytest.approx(float(row["predicted"]) / float(row["measured"]) - 1) for row in rows
    )


def test_beside_a_prediction_the_step_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "p.json"
    assert main(["predict", "bert-base", "dgx-a100-80gb", "--dp", "2", "--format", "json", "--output", str(saved)]) == 0
    assert main(["trace", *TRACES, "--against", str(saved)]) == 0
    assert "A mean step beside the prediction of BERT-base on dgx-a100-80gb" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "begins"), [("t.png", b"\x89PNG"), ("t.svg", b"<?xml")])
def test_draws(tmp_path: Path, name: str, begins: bytes) -> None:
    assert main(["trace", *TRACES, "--plot", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_faults_of_options_come_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", TRACES[0], "--plot", str(tmp_path / "t.txt")]) == 2
    assert main(["trace", TRACES[0], "--hardware", "dgx--2h"]) == 2
    assert main(["trace", TRACES[0], "--against", str(tmp_path / "none.json")]) == 2
    assert main(["trace", str(tmp_path / "none.json")]) == 2
    err = capsys.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in err] == [
        "a picture ends in .png, .svg or .pdf",
        "no hardware of this name in the library, and no such YAML file; did you mean 'dgx-2h' or 'dgx-2' or 'dgx-h200'?",
        "No such file or directory", "No such file or directory",
    ]  # fmt: skip


def test_compare_takes_a_report_and_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, plain = tmp_path / "p.json", tmp_path / "plain.json"
    assert main(["predict", "bert-base", "dgx-a100-80gb", "--dp", "2", "--format", "json", "--output", str(saved)]) == 0
    plain.write_bytes(gzip.decompress(Path(TRACES[0]).read_bytes()))
    for traces in (TRACES, [str(plain)]):
        assert main(["compare", str(saved), *traces]) == 0
        assert "A mean step beside the prediction of BERT-base" in capsys.readouterr().out
    assert main(["compare", str(saved), str(saved)]) == 0
    assert "A mean step" not in capsys.readouterr().out
