"""What counts of a measured run, with which sign, and the statistics of it."""

from __future__ import annotations

import csv
import shutil
import time
from multiprocessing import get_start_method
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.reporting.validation import validation_report
from perfmodel.validation import run
from perfmodel.validation.cases import COUNTED, METRICS, Outcome
from perfmodel.validation.statistics import summarise, worst
from perfmodel.validation.study import load_studies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perfmodel.prediction import Prediction

JOB = {"workload": "gpt2-124m", "hardware": "machine.yaml", "devices": 16, "tp": 2, "global_batch": 64}
STRATEGY: dict[str, Any] = {"devices": 16, "tp": 2, "batch": 64}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    """A measurement CSV of rows that differ from JOB as they say."""
    header = list(dict.fromkeys(["id", "metric", "value", *JOB, *(column for row in rows for column in row)]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(JOB | row for row in rows)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, fixtures: Path) -> Path:
    """A folder with the machine of the tests, away from the working folder."""
    shutil.copy(fixtures / "machine.yaml", tmp_path / "machine.yaml")
    return tmp_path


@pytest.fixture
def judge(folder: Path) -> Callable[..., list[Outcome]]:
    def judged(*rows: dict[str, Any]) -> list[Outcome]:
        ((one),) = run.validate(load_studies([write(folder / "runs.csv", rows)]))
        return list(one.outcomes)

    return judged


@pytest.fixture
def model(fixtures: Path) -> Prediction:
    """What the model says of JOB, so that tests can measure something that agrees with it, or not."""
    return api.predict("gpt2-124m", fixtures / "machine.yaml", **STRATEGY)


def figure(model: Prediction, metric: str, factor: float = 1.0, run_id: str = "a") -> dict[str, Any]:
    """A row that says of one metric ``factor`` times what the model does."""
    predicted = METRICS[metric](model)
    assert predicted is not None
    return {"id": f"{run_id}#{metric}", "metric": metric, "value": factor * predicted}


def states(outcomes: list[Outcome]) -> dict[str, str]:
    return {o.metric: o.state for o in outcomes}


class TestWhatCounts:
    def test_the_most_direct_metric_of_time_whatever_the_order(self, judge: Any, model: Prediction) -> None:
        found = judge(
            *(
                figure(model, metric)
                for metric in ("hfu", "mfu", "tokens_per_second", "samples_per_second", "step_time")
            )
        )
        assert {metric for metric, state in states(found).items() if state == "counted"} == {"step_time"}
        assert {o.reason for o in found if o.state == "repeated"} == {"same run as a#step_time"}

    @pytest.mark.parametrize("metric", METRICS)
    def test_every_metric_alone(self, judge: Any, model: Prediction, metric: str) -> None:
        (found,) = judge(figure(model, metric))
        assert found.counts
        assert found.error == pytest.approx(0, abs=1e-9)

    def test_two_runs_both_count(self, judge: Any, model: Prediction) -> None:
        found = judge(figure(model, "step_time"), figure(model, "step_time", 1.1, "b"))
        assert [(o.id, o.counts) for o in found] == [("a#step_time", True), ("b#step_time", True)]

    def test_memory_counts_beside_time_and_apart_from_it(self, folder: Path, model: Prediction) -> None:
        rows = [figure(model, "step_time", 2), figure(model, "peak_memory", 4), figure(model, "mfu", 0.5)]
        (one,) = run.validate(load_studies([write(folder / "runs.csv", rows)]))
        assert one.time is not None
        assert one.memory is not None
        assert (one.time.cases, one.memory.cases) == (1, 1)
        assert one.time.median == pytest.approx(0.5)
        assert one.memory.median == pytest.approx(0.75)

    def test_a_contradiction_excludes_the_run_but_not_its_memory(self, judge: Any, model: Prediction) -> None:
        found = judge(
            figure(model, "step_time"), figure(model, "samples_per_second", 1.25), figure(model, "peak_memory")
        )
        assert states(found) == {
            "step_time": "inconsistent",
            "samples_per_second": "inconsistent",
            "peak_memory": "counted",
        }
        assert found[-1].reason == "samples_per_second implies a step -20 % off step_time (batch comes nearest)"

    def test_rounding_is_no_contradiction(self, judge: Any, model: Prediction) -> None:
        found = judge(figure(model, "step_time"), figure(model, "samples_per_second", 1.05))
        assert states(found) == {"step_time": "counted", "samples_per_second": "repeated"}

    def test_how_far_the_model_is_off_is_no_contradiction(self, judge: Any, model: Prediction) -> None:
        found = judge(
            figure(model, "step_time", 7), figure(model, "samples_per_second", 1 / 7), figure(model, "mfu", 1 / 7)
        )
        assert states(found) == {"step_time": "counted", "samples_per_second": "repeated", "mfu": "repeated"}

    def test_a_flop_rate_that_fits_no_convention_excludes_a_run(self, judge: Any, model: Prediction) -> None:
        found = judge(figure(model, "step_time"), figure(model, "mfu", 0.4))
        assert {o.state for o in found} == {"inconsistent"}
        assert found[0].reason.startswith("mfu implies a step +")

    def test_two_direct_metrics_that_agree_outvote_it(self, judge: Any, model: Prediction) -> None:
        found = judge(figure(model, "step_time"), figure(model, "tokens_per_second"), figure(model, "mfu", 0.4))
        assert states(found) == {"step_time": "counted", "tokens_per_second": "repeated", "mfu": "repeated"}

    @pytest.mark.parametrize("name", ["causal", "full-attention", "6nd"])
    def test_a_flop_rate_under_any_convention_agrees(self, judge: Any, model: Prediction, name: str) -> None:
        rate = model.flops(name) / (model.step_time * model.devices)  # type: ignore[arg-type]
        row = {"id": "a#rate", "metric": "model_flops_per_device_per_second", "value": rate}
        assert {o.state for o in judge(figure(model, "step_time"), row)} == {"counted", "repeated"}

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"tp": 5}, "devices: 16 is no multiple of tp x pp x cp = 5; nearest that are: 15 and 20"),
            ({"precision": "fp8"}, "precision: Testium has no peak for fp8; it has fp32, fp16, bf16"),
        ],
    )
    def test_what_the_model_cannot_express_is_told_with_the_reason(
        self, judge: Any, model: Prediction, change: dict[str, Any], reason: str
    ) -> None:
        found = judge({**figure(model, "step_time"), **change}, {**figure(model, "peak_memory"), **change})
        assert [(o.state, o.predicted, o.error) for o in found] == 2 * [("inexpressible", None, None)]
        assert {o.reason for o in found} == {reason}

    def test_an_override_that_no_spec_takes_is_a_fault_of_its_row(self, judge: Any, model: Prediction) -> None:
        with pytest.raises(InputError, match=r"runs.csv:2:1: --set strategy.tpp: tpp: unknown key; did you mean 'tp'"):
            judge({**figure(model, "step_time"), "overrides": "strategy.tpp=2"})

    def test_tokens_of_a_model_that_has_none(self, judge: Any) -> None:
        """The next metric counts in their stead."""
        job = {"workload": "resnet-50", "tp": 1, "global_batch": 512}
        (lone,) = judge({"id": "a#mfu", "metric": "mfu", "value": 0.01, **job})
        rows = [
            {"id": "a#tokens", "metric": "tokens_per_second", "value": 512 / lone.step_time, **job},
            {"id": "a#mfu", "metric": "mfu", "value": lone.predicted, **job},
        ]
        mfu, tokens = judge(*rows)
        assert (tokens.state, tokens.reason) == ("inexpressible", "ResNet-50 has no tokens/s")
        assert mfu.counts

    def test_names_are_relative_to_the_csv(
        self, folder: Path, model: Prediction, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inner = folder / "deep" / "down"
        inner.mkdir(parents=True)
        write(inner / "runs.csv", [{**figure(model, "step_time"), "hardware": "../../machine.yaml"}])
        monkeypatch.chdir(folder / "deep")
        (one,) = run.validate(load_studies(["down/runs.csv"]))
        assert [o.counts for o in one.outcomes] == [True]

    def test_overrides_reach_the_model(self, judge: Any, model: Prediction) -> None:
        plain, slow = judge(
            figure(model, "step_time"),
            {
                **figure(model, "step_time", run_id="b"),
                "overrides": "hardware.device.memory.bandwidth=200 GB/s; strategy.zero=1",
            },
        )
        assert slow.predicted > plain.predicted


class TestSign:
    @pytest.mark.parametrize("metric", [metric for metric in METRICS if metric not in {"step_time", "peak_memory"}])
    def test_of_a_rate_is_that_of_the_time_it_implies(self, judge: Any, model: Prediction, metric: str) -> None:
        """Measured twice as slow as predicted: the model is too fast, -50 %, whatever was measured."""
        (time,) = judge(figure(model, "step_time", 2))
        (rate,) = judge(figure(model, metric, 0.5))
        assert time.error == pytest.approx(-0.5)
        assert rate.error == pytest.approx(-0.5)

    def test_a_rate_is_that_of_the_convention_that_its_source_follows(self, judge: Any, model: Prediction) -> None:
        row = figure(model, "mfu") | {"convention": "causal"}
        (found,) = judge(row)
        assert found.predicted == pytest.approx(model.mfu("causal"))
        assert model.mfu("causal") < model.mfu()

    @pytest.mark.parametrize("metric", COUNTED)
    def test_full_attention_is_what_is_meant_where_a_row_says_nothing(self, model: Prediction, metric: str) -> None:
        assert COUNTED[metric](model, "full-attention") == pytest.approx(METRICS[metric](model))

    def test_too_little_memory_is_negative(self, judge: Any, model: Prediction) -> None:
        (found,) = judge(figure(model, "peak_memory", 4))
        assert found.error == pytest.approx(-0.75)

    @pytest.mark.parametrize("metric", ["step_time", "tokens_per_second", "mfu"])
    def test_the_interval_surrounds_the_prediction_and_is_that_of_the_time(
        self, judge: Any, model: Prediction, metric: str
    ) -> None:
        found: Any = judge(figure(model, metric))[0]
        assert found.low < found.predicted < found.high
        low, high = (end / model.step_time for end in model.interval)
        slow, fast = (found.high, found.low) if metric == "step_time" else (1 / found.low, 1 / found.high)
        middle = found.predicted if metric == "step_time" else 1 / found.predicted
        assert (fast, slow) == (pytest.approx(low * middle), pytest.approx(high * middle))


def outcome(measured: float, predicted: float, metric: str = "step_time", **more: Any) -> Outcome:
    about = {"id": "x", "study": "s", "workload": "w", "hardware": "h", "split": "test", "state": "counted"} | more
    return Outcome(metric=metric, measured=measured, predicted=predicted, **about)


class TestStatistics:
    MEASURED = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    PREDICTED = np.array([1.1, 1.6, 3.3, 3.9, 6.5, 6.4, 6.9])
    OUTCOMES = tuple(outcome(m, p, low=0.9 * p, high=1.1 * p) for m, p in zip(MEASURED, PREDICTED, strict=True))

    def test_by_hand(self) -> None:
        found = summarise(self.OUTCOMES)
        assert found is not None
        errors = self.PREDICTED / self.MEASURED - 1
        assert found.cases == 7
        assert found.median == pytest.approx(np.median(np.abs(errors)))
        assert found.p90 == pytest.approx(np.percentile(np.abs(errors), 90))
        assert found.mean == pytest.approx(np.mean(np.abs(errors)))
        assert found.bias == pytest.approx(np.median(errors))
        assert found.rank == pytest.approx(stats.spearmanr(self.MEASURED, self.PREDICTED).statistic)
        assert found.coverage == pytest.approx(np.mean(np.abs(self.MEASURED / self.PREDICTED - 1) <= 0.1))
        assert found.coverage not in {0.0, 1.0}

    def test_of_one(self) -> None:
        found = summarise([outcome(2.0, 1.0)])
        assert found is not None
        assert (found.median, found.p90, found.bias, found.rank, found.coverage, found.ranked) == (
            0.5,
            0.5,
            -0.5,
            None,
            None,
            0,
        )

    def test_of_none(self) -> None:
        assert summarise([]) is None
        assert summarise([outcome(1.0, 1.0, state="repeated")]) is None

    def test_what_does_not_count_changes_nothing(self) -> None:
        beside = [outcome(1.0, 100.0, state=state) for state in ("repeated", "inconsistent", "inexpressible")]
        assert summarise([*self.OUTCOMES, *beside]) == summarise(self.OUTCOMES)

    def test_ranks_are_of_one_workload_on_one_machine_weighed_by_their_number(self) -> None:
        right = [outcome(m, m, workload="a") for m in (1.0, 2.0, 3.0)]
        reverse = [outcome(m, 10 - m, workload="b", hardware="h") for m in (1.0, 2.0, 3.0, 4.0, 5.0)]
        few = [outcome(m, 10 - m, workload="a", hardware="other") for m in (1.0, 2.0)]
        alike = [outcome(m, 1.0, workload="c") for m in (1.0, 2.0, 3.0)]
        found = summarise([*right, *reverse, *few, *alike])
        assert found is not None
        assert found.rank == pytest.approx((3 * 1 + 5 * -1) / 8)
        assert found.ranked == 8

    def test_worst_are_the_largest_of_those_that_count(self) -> None:
        some = [outcome(1.0, p, id=str(p)) for p in (1.1, 0.2, 1.5)]
        assert [o.id for o in worst([*some, outcome(1.0, 9.0, state="repeated")], 2)] == ["0.2", "1.5"]


class TestManyStudies:
    @pytest.fixture
    def studies(self, folder: Path, model: Prediction) -> list[str]:
        """Three, of 5, 4 and 3 runs, with memory and with what cannot be expressed."""
        names = []
        for index, count in enumerate((5, 4, 3)):
            rows = [figure(model, "step_time", 1 + i / 10, f"run{i}") for i in range(count)]
            rows += [figure(model, "peak_memory", run_id="run0"), {**figure(model, "mfu", run_id="odd"), "tp": 7}]
            names.append(write(folder / f"study{index}.csv", rows))
        return names

    def test_in_parallel_is_the_same(self, studies: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        loaded = load_studies(studies)
        serial = run.validate(loaded)
        monkeypatch.setattr(run, "FEW", 0)
        monkeypatch.setattr(run, "CHUNK", 2)
        told: list[tuple[int, int]] = []
        assert run.validate(loaded, lambda done, total: told.append((done, total))) == serial
        assert told[-1] == (15, 15)
        assert [done for done, _ in told] == sorted({done for done, _ in told})

    @pytest.mark.parametrize("few", [0, 100])
    def test_ctrl_c_keeps_what_is_complete(self, studies: list[str], few: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run, "FEW", few)
        loaded = load_studies(studies)
        whole = run.validate(loaded)

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt(done, total)

        kept = run.validate(loaded, stop)
        assert len(kept) == 1
        assert kept[0] in whole

    @pytest.mark.skipif(get_start_method() != "fork", reason="other processes would not see what this test changes")
    def test_ctrl_c_leaves_the_rest_undone(
        self, folder: Path, model: Prediction, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What waits in the queue of the processes is dropped, not worked off in silence."""
        loaded = load_studies(
            [write(folder / "runs.csv", [figure(model, "step_time", run_id=f"run{i}") for i in range(200)])]
        )

        def slow(*_: Any) -> list[Outcome]:
            with (folder / "log").open("a") as log:
                log.write("x")
            time.sleep(0.01)
            return []

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt(done, total)

        monkeypatch.setattr(run, "CHUNK", 1)
        monkeypatch.setattr(run, "judge", slow)
        with pytest.raises(KeyboardInterrupt):
            run.validate(loaded, stop)
        assert 1 <= len((folder / "log").read_text()) < 100

    def test_ctrl_c_before_anything_is_complete(self, studies: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run, "CHUNK", 1)

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt(done, total)

        with pytest.raises(KeyboardInterrupt):
            run.validate(load_studies(studies), stop)

    def test_what_was_interrupted_has_not_passed_and_says_so(self, studies: list[str]) -> None:
        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt(done, total)

        result = api.validate(studies, progress=stop)
        assert not result.passed
        assert "interrupted: 2 of 3 studies are missing here" in result.report.notes

    def test_the_report_tells_every_row_and_why_some_do_not_count(self, studies: list[str]) -> None:
        report = validation_report(run.validate(load_studies(studies)))
        first = report.record["studies"][0]
        assert (first["name"], first["cases"], first["memory"]["count"], first["inexpressible"]) == ("study0", 5, 1, 1)
        assert len(report.rows) == len(report.record["cases"]) == 5 + 4 + 3 + 2 * 3
        assert all(row["reason"] for row in report.rows if row["skipped"])
        assert "tp x pp x cp = 7" in report.render("table").replace("\n", " ")
        assert {row["id"] for row in report.rows} >= set(first["worst"])
