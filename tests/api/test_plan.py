"""`plan` by command line and from Python: its JSON, its tables, its refusals and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import perfmodel
from perfmodel import api
from perfmodel.cli import main

MACHINE = str(Path(__file__).parents[1] / "fixtures" / "machine.yaml")
JOB = ("gpt2-355m", MACHINE)
SMALL = {"devices": 8, "batch": 32, "fix": {"zero": [0, 1], "recompute": "none"}, "top": 4}
WORDS = ["--devices", "8", "--batch", "32", "--fix", "zero=0,1", "--fix", "recompute=none", "--top", "4"]
RANGE = "must be a whole number above 0, or a range: 8..1024 doubles, 64..256:64 goes by steps"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["plan", *words])
    out, err = capsys.readouterr()
    return code, out, err


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "elapsed"}


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    made: dict[str, Any] = api.report(api.plan(*JOB, **SMALL)).record  # type: ignore[arg-type]
    return made


class TestJson:
    def test_the_command_is_the_function(self, record: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, *JOB, *WORDS, "--format", "json")
        assert (code, err) == (0, "")
        assert timeless(json.loads(out)) == timeless(json.loads(json.dumps(record)))

    def test_keys(self, record: dict[str, Any]) -> None:
        assert record.keys() == {"schema", "objective", "evaluated", "feasible", "elapsed", "ties", "lead_error", "plans",
                                 "differences", "pareto", "unequal", "rejected", "refused", "sensitivities"}  # fmt: skip
        assert record["pareto"][0].keys() == {"hardware", "devices", "strategy", "step_time", "memory", "cost_per_step"}

    def test_plans_are_predictions(self, record: dict[str, Any]) -> None:
        best = record["plans"][0]
        names = ("tp", "cp", "pp", "dp", "vpp", "microbatch", "sequence_parallel", "zero", "recompute", "schedule")
        alone = api.predict(*JOB, batch=32, devices=8, **{name: best["strategy"][name] for name in names})
        assert best["step_time"] == pytest.approx(alone.step_time, rel=1e-12)
        assert best["memory"]["peak"] == pytest.approx(alone.memory_peak, rel=1e-12)

    def test_the_best_come_first_and_differ(self, record: dict[str, Any]) -> None:
        times = [plan["step_time"] for plan in record["plans"]]
        assert len(times) == 4
        assert times == sorted(set(times))

    def test_the_front_begins_with_the_best(self, record: dict[str, Any]) -> None:
        front = record["pareto"]
        assert front[0]["step_time"] == pytest.approx(record["plans"][0]["step_time"])
        sizes = [point["memory"]["peak"] for point in front]
        assert sizes == sorted(sizes, reverse=True)


class TestNothingFits:
    WORDS = ("llama-3.1-70b", MACHINE, "--devices", "2", "--batch", "4", "--top", "2")

    def test_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, *self.WORDS)
        assert (code, err) == (1, "")
        assert out.startswith("Nothing keeps all bounds; the nearest plans")
        assert "memory.peak" in out
        assert "To mend it: the nearest plan lacks" in out
        shares = re.findall(r"([\d.e+,]+) % over", out)
        assert len(shares) == 2
        assert all(re.fullmatch(r"\d+", share) and int(share) > 100 for share in shares)

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, *self.WORDS, "--format", "json")
        made = json.loads(out)
        assert code == 1
        assert (made["plans"], made["feasible"], made["ties"], len(made["rejected"])) == ([], 0, 0, 2)
        first, second = made["rejected"]
        assert first["reason"] == "memory.peak"
        assert first["broken"][0]["value"] - first["broken"][0]["bound"] == pytest.approx(first["shortfall"])
        assert 0 < first["excess"] < second["excess"]

    def test_no_layout_at_all(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, *JOB, "--devices", "7", "--batch", "10", "--fix", "dp=7")
        assert code == 1
        assert "10 is not divisible by 7 data-parallel replicas; nearest that are: 7 and 14" in out.replace("\n", " ")

    def test_an_axis_that_no_factorisation_has(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, *JOB, "--devices", "8", "--fix", "tp=3")
        assert code == 1
        assert "8 devices have no factorisation with tp 3" in out


class TestSeveral:
    def test_numbers_of_devices_and_machines(self) -> None:
        made = api.plan(
            "gpt2-355m", [MACHINE, "dgx-h100"], devices="4..8", batch=32, objective="cost", top=3,
            fix={"zero": 0, "recompute": "none"},
        )  # fmt: skip
        assert len(made.outcomes) == 4
        assert {row.question.devices for row in made.front} == {4, 8}
        costs = [plan.cost for plan in made.plans]
        assert costs == sorted(costs)  # type: ignore[type-var]

    def test_csv(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, *JOB, *WORDS, "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(out)))
        assert (code, len(rows)) == (0, 4)
        assert [row["rank"] for row in rows] == ["1", "2", "3", "4"]
        assert float(rows[0]["step_time"]) < float(rows[1]["step_time"])

    def test_markdown(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, *JOB, *WORDS, "--format", "markdown")
        assert code == 0
        assert out.startswith("### Best plans for")

    def test_a_degree_by_name_is_a_fixed_axis(self) -> None:
        made = api.plan(*JOB, devices=8, batch=32, tp=4, zero=0, top=2)
        assert {plan.strategy.tp for plan in made.plans} == {4}

    @pytest.mark.parametrize("name", ["front.png", "front.svg"])
    def test_plot(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
        code, _, _ = run(capsys, *JOB, *WORDS, "--plot", str(tmp_path / name))
        assert code == 0
        assert (tmp_path / name).stat().st_size > 10_000

    def test_plot_of_nothing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, _ = run(capsys, *TestNothingFits.WORDS, "--plot", str(tmp_path / "none.png"))
        assert code == 1

    def test_progress_is_told(self) -> None:
        told: list[tuple[int, int]] = []
        made = api.plan(*JOB, **SMALL, progress=lambda done, total: told.append((done, total)))  # type: ignore[arg-type]
        assert told[-1] == (made.evaluated, made.evaluated)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--devices", "8x"], [f"--devices: '8x' {RANGE}"]),
        (["--devices", "8", "--top", "1001"], ["--top: shows at most 1,000 plans; --all-rows FILE writes every candidate"]),
        (["--devices", "64..8"], ["--devices: '64..8' goes down; write the smaller number first"]),
        (["--devices", "1000000000000"], ["--devices: '1000000000000' is more than 10,000,000 devices"]),
        (["--devices", "1..999999999:1"], ["--devices: '1..999999999:1' is more than 10,000,000 devices"]),
        (
            ["--devices", "1..999999:1"],
            ["--devices: '1..999999:1' has 999,999 numbers; at most 1,000 are planned at once, so take larger steps"],
        ),
        (["--devices", "256"], ["--devices: 256 are more than the 128 that Test machine joins"]),
        (["--devices", "8", "--fix", "tp"], ["--fix: tp: must be axis=value, as in tp=4,8"]),
        (["--devices", "8", "--plot", "a.txt"], ["--plot: a.txt: a picture ends in .png, .svg or .pdf"]),
        (["--devices", "8", "--objective", "tme"], ["--objective: 'tme' is no objective; did you mean 'time'?"]),
        (
            ["--devices", "0,x", "--constrain", "mfuu>=1", "--batch", "0"],
            [
                f"--devices: '0' {RANGE}",
                f"--devices: 'x' {RANGE}",
                "--constrain: mfuu>=1: 'mfuu' is no figure of a plan; did you mean 'mfu'?",
                "--batch: must be greater than 0",
            ],
        ),
        (["--devices", "8", "--strategy", "parameter-server", "--fix", "zero=1"],
         ["--fix zero: parameter-server keeps whole replicas; leave zero at 0"]),
    ],
)  # fmt: skip
def test_bad_requests(capsys: pytest.CaptureFixture[str], words: list[str], lines: list[str]) -> None:
    code, out, err = run(capsys, *JOB, *words)
    assert (code, out) == (2, "")
    assert err.splitlines() == lines


def test_a_machine_without_a_price_has_no_cheapest_plan(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "gpt2-124m", "dgx-a100-80gb", "--devices", "8", "--batch", "8", "--objective", "cost")
    assert (code, out) == (2, "")
    assert "states no price" in err


def test_the_package_has_it() -> None:
    assert perfmodel.plan is api.plan
