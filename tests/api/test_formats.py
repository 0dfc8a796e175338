"""One prediction in four formats; the keys of its JSON are a contract with other tools."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from perfmodel.cli import main
from perfmodel.reporting.report import Report, Section

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [
    "schema", "workload", "hardware", "strategy", "step_time", "throughput.samples_per_second",
    "throughput.tokens_per_second", "throughput.tokens_per_second_per_device", "flops_per_device_per_second", "mfu", "hfu",
    "memory.peak", "memory.capacity", "memory.fits", "memory.stages", "bounds.lower", "bounds.upper", "interval.low",
    "interval.high", "breakdown", "warnings",
]  # fmt: skip
"""Of `predict`, as docs and DESIGN section 6 promise them; more may come, none may go."""
JOBS = {
    "gpt": ["gpt2-124m", "machine.yaml", "--tp", "2", "--pp", "2", "--dp", "2", "--microbatch", "2", "--zero", "1"],
    "resnet": ["resnet-50", "machine.yaml", "--dp", "16", "--microbatch", "16"],
    "large": ["gpt3-175b", "machine.yaml"],
}
OTHERS = [
    ["list"],
    ["list", "hardware"],
    ["show", "dgx-2"],
    ["show", "zero-1"],
    ["show", "machine.yaml"],
    ["check", "machine.yaml"],
    ["explain", *JOBS["gpt"]],
    ["explain", "resnet-50", "machine.yaml", "optimizer step"],
]
EVERY = [*(["predict", *job] for job in JOBS.values()), *OTHERS]
every_command = pytest.mark.parametrize("command", EVERY, ids=[" ".join(c[:3]) for c in EVERY])


@pytest.fixture
def run(fixtures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(fixtures)

    def call(*command: str) -> tuple[int, str]:
        code = main(list(command))
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return call


def at(record: Any, path: str) -> Any:
    for key in path.split("."):
        record = record[key]
    return record


class TestJson:
    @pytest.mark.parametrize("job", JOBS)
    def test_has_every_key(self, run: Any, job: str) -> None:
        record = json.loads(run("predict", *JOBS[job], "--format", "json")[1])
        for key in KEYS:
            at(record, key)
        assert all(row.keys() >= {"name", "time", "exposed", "formula"} for row in record["breakdown"])
        assert all(row.keys() >= {"stage", "total"} for row in record["memory"]["stages"])
        assert len(record["memory"]["stages"]) == record["strategy"]["pp"]

    @pytest.mark.parametrize("job", JOBS)
    def test_adds_up(self, run: Any, job: str) -> None:
        record = json.loads(run("predict", *JOBS[job], "--format", "json")[1])
        step, strategy = record["step_time"], record["strategy"]
        assert sum(row["exposed"] for row in record["breakdown"]) == pytest.approx(step, rel=1e-9)
        assert all(0 <= row["exposed"] <= row["time"] * (1 + 1e-12) for row in record["breakdown"])
        assert record["throughput"]["samples_per_second"] == pytest.approx(strategy["batch"] / step, rel=1e-12)
        assert max(stage["total"] for stage in record["memory"]["stages"]) == record["memory"]["peak"]
        for stage in record["memory"]["stages"]:
            classes = [size for name, size in stage.items() if name not in {"stage", "total"}]
            assert sum(classes) == pytest.approx(stage["total"], rel=1e-12)
        assert strategy["devices"] == strategy["tp"] * strategy["pp"] * strategy["cp"] * strategy["dp"]

    def test_what_has_no_tokens_says_null(self, run: Any) -> None:
        record = json.loads(run("predict", *JOBS["resnet"], "--format", "json")[1])
        assert record["throughput"]["tokens_per_second"] is None
        assert record["strategy"]["sequence"] is None

    @every_command
    def test_is_strict_json(self, run: Any, command: list[str]) -> None:
        def refuse(word: str) -> None:
            raise AssertionError(word)

        json.loads(run(*command, "--format", "json")[1], parse_constant=refuse)


@every_command
def test_csv_has_one_header_and_full_rows(run: Any, command: list[str]) -> None:
    rows = list(csv.reader(io.StringIO(run(*command, "--format", "csv")[1]), strict=True))
    header = rows[0]
    assert len(header) == len(set(header))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(header)}


def test_csv_of_a_prediction_holds_the_numbers_of_its_json(run: Any) -> None:
    (row,) = csv.DictReader(io.StringIO(run("predict", *JOBS["gpt"], "--format", "csv")[1]))
    record = json.loads(run("predict", *JOBS["gpt"], "--format", "json")[1])
    for key in KEYS:
        if isinstance(value := at(record, key), float):
            assert float(row[key]) == value


@every_command
def test_markdown_tables_are_well_formed(run: Any, command: list[str]) -> None:
    lines = run(*command, "--format", "markdown")[1].splitlines()
    rules = [number for number, line in enumerate(lines) if re.fullmatch(r"\|( (---|--:) \|)+", line)]
    assert rules
    for rule in rules:
        width = cells(lines[rule])
        assert lines[rule - 2] == ""
        table = [lines[rule - 1]]
        table += lines[rule : next((n for n in range(rule, len(lines)) if not lines[n].startswith("|")), len(lines))]
        assert {cells(row) for row in table} == {width}


def cells(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", row)) - 1


@every_command
def test_table_has_no_control_characters(run: Any, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the environment asks for colours: this is data on standard output."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    out = run(*command)[1]
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100


class TestReport:
    """Text that means something to a format is text."""

    CELLS = ("a|b", "[bold]c[/bold]", ":smile:", 'say "x, y"')

    @pytest.fixture
    def made(self) -> Report:
        header = ("one", "two", "three", "four")
        rows = [dict(zip(header, self.CELLS, strict=True))]
        section = Section("All | four", header, (self.CELLS,), right=frozenset({3}), lead="before", tail="after")
        return Report(rows, rows, (section,), ("a note",))

    def test_table(self, made: Report) -> None:
        lines = made.render("table").splitlines()
        assert lines[5].split() == " ".join(self.CELLS).split()
        assert (lines[0], lines[1], lines[-1]) == ("All | four", "before", "a note")

    def test_csv(self, made: Report) -> None:
        assert list(csv.reader(io.StringIO(made.render("csv"))))[1] == list(self.CELLS)

    def test_json(self, made: Report) -> None:
        assert tuple(json.loads(made.render("json"))[0].values()) == self.CELLS

    def test_markdown(self, made: Report) -> None:
        lines = made.render("markdown").splitlines()
        assert lines[0] == "### All | four"
        assert "| --- | --- | --- | --: |" in lines
        assert r'| a\|b | [bold]c[/bold] | :smile: | say "x, y" |' in lines
        assert lines[-1] == "- a note"


class TestOutput:
    def test_what_does_not_fit_exits_with_1_and_still_reports(self, run: Any) -> None:
        code, out = run("predict", *JOBS["large"])
        assert code == 1
        assert "DOES NOT FIT" in out
        assert re.search(
            r"^warning: does not fit: [\d.]+ [TG]iB more than tensors find room for; most is \w+", out, re.MULTILINE
        )
        code, out = run("predict", *JOBS["large"], "--format", "json")
        assert (code, json.loads(out)["memory"]["fits"]) == (1, False)

    def test_what_fits_exits_with_0(self, run: Any) -> None:
        assert run("predict", *JOBS["gpt"])[0] == 0

    def test_a_file_gets_what_standard_output_would(self, run: Any, tmp_path: Path) -> None:
        file = tmp_path / "report.json"
        assert run("predict", *JOBS["gpt"], "--format", "json", "--output", str(file)) == (0, "")
        assert file.read_text(encoding="utf-8") == run("predict", *JOBS["gpt"], "--format", "json")[1]

    def test_a_reader_that_leaves_early_is_no_failure(self, fixtures: Path) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            call = [sys.executable, "-m", "perfmodel", "list"]
            done = subprocess.run(call, stdout=pipe, stderr=subprocess.PIPE, cwd=fixtures, check=False, timeout=60)  # noqa: S603 - ourselves
        assert (done.returncode, done.stderr) == (0, b"")

    def test_a_narrow_encoding_is_no_failure(self, fixtures: Path) -> None:
        call = [sys.executable, "-m", "perfmodel", "explain", "gpt2-124m", "machine.yaml", "optimizer step"]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(call, env=environment, capture_output=True, cwd=fixtures, check=False, timeout=60)  # noqa: S603 - ourselves
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode("ascii").startswith("optimizer step: ")


class TestFigures:
    """Numbers without a bound, and tables wider than the terminal."""

    def test_what_has_no_bound_is_null(self) -> None:
        report = Report({"a": [1.0, float("inf")], "b": {"c": float("nan")}}, [{"a": float("inf")}], ())
        assert json.loads(report.render("json")) == {"a": [1.0, None], "b": {"c": None}}
        assert report.render("csv") == 'a\n""\n'

    def test_a_link_that_nobody_crosses(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = [
            "explain",
            "mixtral-8x7b",
            "dgx-h200",
            "expert gradient",
            "--devices",
            "16",
            "--ep",
            "8",
            "--batch",
            "64",
        ]
        assert main([*words, "--format", "json"]) == 0
        (term,) = json.loads(capsys.readouterr().out)
        assert {i["name"]: i["value"] for i in term["inputs"]}["inner_bandwidth"] is None
        assert main(words) == 0
        assert re.search(r"inner_bandwidth +unbounded ", capsys.readouterr().out)

    def test_figures_too_many_for_the_width_stand_on_end(self) -> None:
        table = Section("Memory", ("stage", "total", "activations"), (("0", "1 GiB", "2 GiB"),), frozenset(range(3)))
        wide, narrow = (Report(None, [], (table,)).render("table", width=width) for width in (40, 24))
        assert [line.split() for line in wide.splitlines()[2:3]] == [["stage", "total", "activations"]]
        assert [" ".join(line.split()) for line in narrow.splitlines() if "G" in line] == [
            "total 1 GiB",
            "activations 2 GiB",
        ]
