"""Budgets: what exceeds one fails, and no run ever raises one."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from perfmodel import api
from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.formulas import collectives_library as collectives
from perfmodel.validation.budgets import tighten
from perfmodel.validation.run import Judged, validate
from perfmodel.validation.study import load_studies

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "id,workload,hardware,devices,tp,global_batch,split,metric,value\n"
TODAY = dt.date(2026, 1, 31)


@pytest.fixture(scope="module")
def predicted(fixtures: Path) -> float:
    return api.predict("gpt2-124m", fixtures / "machine.yaml", devices=16, tp=2, batch=64).step_time


class Workshop:
    """A study whose measurements are the model's own times, some factor off."""

    def __init__(self, folder: Path, predicted: float) -> None:
        self.folder, self.predicted = folder, predicted
        self.cases, self.budget = folder / "cases.csv", folder / "budget.yaml"

    def measure(self, *factors: float, split: str = "test", tp: int = 2) -> None:
        """Add rows whose prediction is ``factor`` times what was measured."""
        old = self.cases.read_text(encoding="utf-8") if self.cases.exists() else HEAD
        names = (f"{split}{i},gpt2-124m,../machine.yaml,16,{tp},64,{split}" for i in range(len(factors)))
        rows = (f"{name},step_time,{self.predicted / factor!r}\n" for name, factor in zip(names, factors, strict=True))
        self.cases.write_text(old + "".join(rows), encoding="utf-8")

    def limit(self, median: float, p90: float, rows: str = "test") -> None:
        text = f'schema: 1\nrows: {rows}\nlimit: {{median: {median}, p90: {p90}}}\ndate: "2025-01-31"\n'
        self.budget.write_text(text, encoding="utf-8")

    def judged(self) -> Judged:
        (one,) = validate(load_studies([str(self.cases)]))
        return one

    def limits(self) -> tuple[float, float]:
        budget = self.judged().study.budget
        assert budget is not None
        return budget.limit.median, budget.limit.p90


@pytest.fixture
def study(tmp_path: Path, fixtures: Path, predicted: float) -> Workshop:
    shutil.copy(fixtures / "machine.yaml", tmp_path / "machine.yaml")
    (tmp_path / "my-cluster").mkdir()
    return Workshop(tmp_path / "my-cluster", predicted)


class TestVerdict:
    def test_a_budget_that_is_kept(self, study: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
        study.measure(1.05, 0.96)
        study.limit(0.06, 0.06)
        assert main(["validate", str(study.cases)]) == 0
        out, err = capsys.readouterr()
        assert "6.0 / 6.0" in out
        assert err == ""

    @pytest.mark.parametrize("limit", [(0.03, 0.20), (0.20, 0.04)], ids=["median", "p90"])
    def test_exceeding_either_limit_fails_and_names_the_study(
        self, study: Workshop, limit: tuple[float, float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        study.measure(1.05, 0.96)
        study.limit(*limit)
        assert main(["validate", str(study.cases)]) == 1
        out, _ = capsys.readouterr()
        assert "over budget: my-cluster" in out.splitlines()
        assert "EXCEEDED" in out

    def test_json_says_it_too(self, study: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
        study.measure(1.5)
        study.limit(0.1, 0.1)
        assert main(["validate", str(study.cases), "--format", "json"]) == 1
        (record,) = json.loads(capsys.readouterr().out)["studies"]
        assert record["passed"] is False
        assert record["budget"] == {"rows": "test", "median": 0.1, "p90": 0.1, "date": "2025-01-31"}

    def test_without_a_budget_nothing_fails(self, study: Workshop) -> None:
        study.measure(3.0)
        assert study.judged().passed is None
        assert main(["validate", str(study.cases)]) == 0

    def test_a_study_of_which_no_row_counts_any_more_fails(self, study: Workshop) -> None:
        study.measure(1.0, tp=7)
        study.limit(0.5, 0.5)
        assert {o.state for o in study.judged().outcomes} == {"inexpressible"}
        assert main(["validate", str(study.cases)]) == 1

    def test_only_rows_of_its_split_are_judged(self, study: Workshop) -> None:
        study.measure(3.0, split="calibration")
        study.measure(1.01)
        study.limit(0.02, 0.02)
        assert study.judged().passed
        study.limit(0.02, 0.02, rows="calibration")
        assert study.judged().passed is False

    def test_one_failure_among_several_studies_fails_all(self, study: Workshop, tmp_path: Path) -> None:
        study.measure(1.5)
        study.limit(0.1, 0.1)
        other = Workshop(tmp_path / "other", study.predicted)
        other.folder.mkdir()
        other.measure(1.0)
        other.limit(0.1, 0.1)
        result = api.validate([str(other.cases), str(study.cases)])
        assert not result.passed
        assert result.report.notes[-1] == "over budget: my-cluster"


class TestWrongModel:
    """A budget is worth something only if mistakes exceed it."""

    @pytest.fixture(autouse=True)
    def _right(self, study: Workshop) -> None:
        study.measure(1.0, 1.01, 0.99)
        study.limit(0.02, 0.02)
        assert study.judged().passed

    @pytest.mark.parametrize(
        ("constant", "wrong"),
        [
            ("matmul: {fraction: 0.8", "matmul: {fraction: 0.5"), ("streaming: {fraction: 0.8", "streaming: {fraction: 0.3"),
            ("bandwidth: 300 GB/s", "bandwidth: 30 GB/s"), ("fp16: 300 TFLOP/s", "fp16: 900 TFLOP/s"),
        ],
    )  # fmt: skip
    def test_a_wrong_constant_fails(self, study: Workshop, tmp_path: Path, constant: str, wrong: str) -> None:
        file = tmp_path / "machine.yaml"
        text = file.read_text(encoding="utf-8")
        assert constant in text
        file.write_text(text.replace(constant, wrong), encoding="utf-8")
        assert main(["validate", str(study.cases)]) == 1

    def test_a_wrong_formula_fails(self, study: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its code is exchanged, since others hold the function itself."""
        wrong = (lambda *, size, ranks, bandwidth, **_: 10 * size * ranks / bandwidth).__code__
        monkeypatch.setattr(collectives.all_reduce, "__code__", wrong)
        assert main(["validate", str(study.cases)]) == 1

    def test_other_measurements_fail(self, study: Workshop) -> None:
        study.cases.unlink()
        study.measure(1.1, 1.11, 1.09)
        assert main(["validate", str(study.cases)]) == 1


class TestRatchet:
    def test_a_missing_budget_is_made_just_above_what_was_reached(self, study: Workshop) -> None:
        study.measure(*[1.05123, 0.96] * 4)
        assert tighten([study.judged()], TODAY) == ["my-cluster"]
        one = study.judged()
        assert one.passed
        assert one.time is not None
        median, p90 = study.limits()
        assert 0 <= median - one.time.median < 0.005
        assert 0 <= p90 - one.time.p90 < 0.005

    def test_a_few_rows_make_no_budget(self, study: Workshop) -> None:
        study.measure(*[1.05] * 7)
        assert tighten([study.judged()], TODAY) == []
        assert not study.budget.exists()

    def test_the_file_is_what_the_package_itself_reads(self, study: Workshop) -> None:
        study.measure(*[1.5] * 8)
        tighten([study.judged()], TODAY)
        assert study.budget.read_text(encoding="utf-8") == (
            "schema: 1\nrows: test\nlimit: {median: 0.5, p90: 0.5}\n"
            'reached: {median: 0.5000, p90: 0.5000}\ndate: "2026-01-31"\n'
        )
        budget = study.judged().study.budget
        assert budget is not None
        assert budget.date == TODAY

    def test_a_second_run_changes_nothing(self, study: Workshop) -> None:
        study.measure(*[1.05123, 0.96] * 4)
        tighten([study.judged()], TODAY)
        before = study.budget.read_bytes()
        assert tighten([study.judged()], TODAY + dt.timedelta(1)) == []
        assert study.budget.read_bytes() == before

    def test_a_worse_run_raises_nothing_and_fails(self, study: Workshop) -> None:
        study.measure(1.05)
        study.limit(0.01, 0.02)
        before = study.budget.read_bytes()
        assert main(["validate", str(study.cases), "--update-budgets"]) == 1
        assert study.budget.read_bytes() == before

    def test_a_better_run_lowers_it_through_the_command_line(self, study: Workshop) -> None:
        study.measure(1.05)
        study.limit(0.2, 0.3)
        assert main(["validate", str(study.cases), "--update-budgets"]) == 0
        assert max(study.limits()) == pytest.approx(0.05, abs=1e-4)

    def test_each_limit_falls_by_itself(self, study: Workshop) -> None:
        study.measure(1.5, 1.0, 1.0)
        study.limit(0.2, 0.1)
        assert tighten([study.judged()], TODAY) == ["my-cluster"]
        assert study.limits() == (0.0, 0.1)
        assert study.judged().passed is False

    def test_where_nothing_is_held_back_calibration_rows_are_judged(self, study: Workshop) -> None:
        study.measure(*[1.05] * 8, split="calibration")
        tighten([study.judged()], TODAY)
        assert "rows: calibration" in study.budget.read_text(encoding="utf-8")

    def test_nothing_counted_nothing_written(self, study: Workshop) -> None:
        study.measure(1.0, tp=7)
        assert tighten([study.judged()], TODAY) == []
        assert not study.budget.exists()

    def test_a_csv_of_another_name_has_none(self, study: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
        """A budget beside it would be read by nobody, or by a study that is not its own."""
        study.measure(1.05)
        runs = study.cases.rename(study.folder / "runs.csv")
        assert main(["validate", str(runs), "--update-budgets"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("--update-budgets: runs: has no budget; ")
        assert not study.budget.exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('rows: all\nlimit: {median: 0.1, p90: 0.1}\ndate: "2026-01-01"\n', "1:1: rows: must be 'test' or 'calibration'"),
        ('rows: test\nlimit: {median: -1, p90: 0.1}\ndate: "2026-01-01"\n', "2:9: limit.median: must be greater than or equal to 0"),
        ('rows: test\nlimit: {median: 1}\ndate: "2026-01-01"\n', "2:1: limit.p90: is missing; this key is required"),
        ('rows: test\nlimit: {median: 1, p90: 1, worst: 2}\ndate: "2026-01-01"\n', "2:28: limit.worst: unknown key"),
    ],
)  # fmt: skip
def test_a_bad_budget_is_told_by_its_line(study: Workshop, text: str, line: str) -> None:
    study.measure(1.0)
    study.budget.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        study.judged()
    assert str(caught.value) == f"{study.budget}:{line}"


def test_skipped_rows_are_read_and_their_faults_told(study: Workshop) -> None:
    study.measure(1.0)
    skipped = study.folder / "skipped.csv"
    skipped.write_text("id,reason\na,no batch\n", encoding="utf-8")
    assert study.judged().study.skipped == (("a", "no batch"),)
    skipped.write_text("id,why\na,no batch\nb\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        study.judged()
    assert [str(problem) for problem in caught.value.problems] == [
        f"{skipped}:1:1: reason: this column is required",
        f"{skipped}:3:1: csv: has 1 cell, but the header has 2",
    ]


def test_studies_hold_their_figures_as_one_report(study: Workshop) -> None:
    study.measure(1.05, 0.96)
    study.limit(0.06, 0.06)
    report: Any = api.validate([str(study.cases)]).report.record
    assert {"name", "cases", "median_absolute_error", "p90_absolute_error", "worst", "budget", "passed"} <= report[
        "studies"
    ][0].keys()
    assert {"id", "metric", "measured", "predicted", "error", "skipped", "reason"} <= report["cases"][0].keys()
