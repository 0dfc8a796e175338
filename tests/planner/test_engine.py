"""Chunks of a plan: worked on anywhere, by processes that die, and after an interruption, they give what one search gives."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel import api
from perfmodel.cli import main
from perfmodel.errors import InputError, StoppedError
from perfmodel.library import find
from perfmodel.planner.axes import axes_of
from perfmodel.planner.engine import work
from perfmodel.planner.plan import Plan, Workshop, plan
from perfmodel.planner.resume import Store, require_store
from perfmodel.planner.search import Question, search
from perfmodel.planner.work import Chunk, chunks_of, joined
from perfmodel.processes import deaf_to_interrupts
from perfmodel.specs import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfmodel.planner.search import Outcome
    from perfmodel.specs import Hardware

COUNT = 6


@pytest.fixture
def questions(machine: Hardware) -> list[Question]:
    axes = axes_of(Strategy(), {"recompute": ["none", "full"], "zero": [0, 1], "schedule": ["1f1b", "gpipe"]})
    workload = find("workloads", "gpt2-355m")
    workload = workload.model_copy(update={"training": workload.training.model_copy(update={"batch": 32})})
    return [Question(workload, machine, Strategy(), devices, axes) for devices in (4, 6, 8)]


def figures(outcome: Outcome) -> Any:
    kept = {
        name: [(row.strategy, row.rank, row.step_time, row.memory) for row in getattr(outcome, name)]
        for name in ("best", "front", "nearest")
    }
    refused = {refusal.path: refusal.layouts for refusal in outcome.refused}
    return outcome.evaluated, outcome.feasible, sorted(outcome.near.tolist()), refused, kept


def answers(made: Plan) -> list[Any]:
    return [figures(outcome) for outcome in made.outcomes]


def test_chunks_join_to_the_whole_search(questions: list[Question]) -> None:
    chunks = chunks_of(questions, "time", COUNT)
    assert len(chunks) == len(questions) * 8
    together = joined(chunks, [chunk.work() for chunk in chunks])
    for outcome, question in zip(together, questions, strict=True):
        whole = search(question, "time", COUNT)
        assert figures(outcome)[:4] == figures(whole)[:4]
        for name in ("best", "front", "nearest"):
            own, all_of = (
                [(row.rank, row.step_time, row.memory) for row in getattr(each, name)] for each in (outcome, whole)
            )
            np.testing.assert_allclose(own, all_of, rtol=1e-9)


def test_keys_tell_chunks_apart(questions: list[Question]) -> None:
    keys = [chunk.key for goal in ("time", "cost") for chunk in chunks_of(questions, goal, COUNT)]
    assert len(set(keys)) == len(keys)
    assert [chunk.key for chunk in chunks_of(questions, "time", COUNT)] == keys[: len(keys) // 2]


def killed_after_the_first(results: Iterator[tuple[int, Outcome]], workers: Any) -> dict[int, Outcome]:
    """All results; after the first, a worker dies without a word."""
    found = dict([next(results)])
    os.kill(workers()[0], signal.SIGKILL)
    for number, outcome in results:
        assert number not in found, "no chunk twice"
        found[number] = outcome
    return found


def test_a_process_that_dies_takes_nothing_along(questions: list[Question]) -> None:
    chunks = dict(enumerate(chunks_of(questions, "time", COUNT)))
    results = work(chunks, "local", workers=2, scheduler=None)
    found = killed_after_the_first(results, lambda: [child.pid for child in multiprocessing.active_children()])
    assert sorted(found) == sorted(chunks)
    alone = {number: chunk.work() for number, chunk in chunks.items()}
    assert {n: figures(o) for n, o in found.items()} == {n: figures(o) for n, o in alone.items()}


def test_a_dask_worker_that_dies_takes_nothing_along(questions: list[Question]) -> None:
    """A real scheduler with workers of its own, on loopback."""
    from distributed import Client, LocalCluster

    chunks = dict(enumerate(chunks_of(questions[:1], "time", COUNT)))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster:
        address = cluster.scheduler_address
        with Client(address) as client:
            pids = list(client.run(os.getpid).values())
        found = killed_after_the_first(work(chunks, "dask", workers=1, scheduler=address), lambda: pids)
    assert sorted(found) == sorted(chunks)
    assert figures(found[3]) == figures(chunks[3].work())


def test_no_scheduler_answers() -> None:
    with pytest.raises(InputError, match=r"--scheduler: .*: no scheduler answers there"):
        api.plan("gpt2-355m", "dgx-h100", devices=8, engine="dask", scheduler="tcp://127.0.0.1:9")


class TestResume:
    def interrupted(self, questions: list[Question], store: Store, after: int) -> str:
        def progress(done: int, _: int) -> None:
            if done == after:
                raise KeyboardInterrupt

        with pytest.raises(StoppedError) as caught:
            plan(questions, "time", COUNT, progress, Workshop(store=store))
        return str(caught.value)

    def worked(self, monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
        seen: list[Chunk] = []
        real = Chunk.work
        monkeypatch.setattr(Chunk, "work", lambda chunk: seen.append(chunk) or real(chunk))  # type: ignore[func-returns-value]
        return seen

    def test_goes_on_where_it_stopped(
        self, questions: list[Question], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        said = self.interrupted(questions, Store(None), 9)
        (file,) = tmp_path.iterdir()
        assert said == f"9 of 24 chunks are done; go on with --resume {file}"
        seen = self.worked(monkeypatch)
        made = plan(questions, "time", COUNT, None, Workshop(store=require_store(file)))
        assert len(seen) == 15
        assert answers(made) == answers(plan(questions, "time", COUNT))
        seen.clear()
        plan(questions, "time", COUNT, None, Workshop(store=require_store(file)))
        assert seen == [], "all are in the file now"

    def test_a_line_that_was_cut_off_is_done_again(self, questions: list[Question], tmp_path: Path) -> None:
        file = tmp_path / "plan.jsonl"
        self.interrupted(questions, require_store(file), 5)
        text = file.read_text()
        file.write_text(text[:-40])
        assert len(require_store(file).lines) == 4

    def test_no_file_of_a_plan(self, tmp_path: Path) -> None:
        file = tmp_path / "other.txt"
        file.write_text("hello\n{}\n")
        with pytest.raises(InputError, match=r"other.txt:1:1: is no line that a plan wrote"):
            require_store(file)
        with pytest.raises(InputError, match="is a folder"):
            require_store(tmp_path)

    def test_a_damaged_outcome_is_done_again(self, questions: list[Question], tmp_path: Path) -> None:
        chunk = chunks_of(questions, "time", COUNT)[0]
        file = tmp_path / "plan.jsonl"
        file.write_text(json.dumps({"version": 1, "key": chunk.key, "evaluated": "many"}) + "\n")
        assert require_store(file).find(chunk) is None


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_rows(questions: list[Question], tmp_path: Path, kind: str) -> None:
    import pandas as pd

    path = tmp_path / f"rows.{kind}"
    made = plan(questions, "time", COUNT, None, Workshop(rows_file=path))
    rows = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
    assert len(rows) == made.evaluated
    assert rows.fits.sum() == made.feasible
    assert rows[rows.fits].step_time.min() == pytest.approx(made.rows[0].step_time, rel=1e-9)
    assert set(rows.devices) == {4, 6, 8}
    keys = ["devices", "tp", "cp", "pp", "dp", "vpp", "microbatch", "sequence_parallel", "zero", "shard_group", "recompute", "schedule", "order"]  # fmt: skip
    assert not rows.duplicated(keys).any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--all-rows", "rows.txt"], "--all-rows: rows.txt: ends in none of .csv, .parquet"),
        (["--scheduler", "tcp://host:1"], "--scheduler: is of a Dask cluster; take --engine dask"),
        (["--resume", "missing/plan.jsonl"], "--resume: missing/plan.jsonl: there is no folder missing"),
    ],
)
def test_options_that_do_not_go(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "gpt2-355m", "dgx-h100", "--devices", "8", *words]) == 2
    assert capsys.readouterr().err.strip() == message


def test_interrupted_command_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    real = Chunk.work
    seen: list[Chunk] = []

    def some(chunk: Chunk) -> Outcome:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(chunk)
        return real(chunk)

    monkeypatch.setattr(Chunk, "work", some)
    words = ["plan", "gpt2-355m", "dgx-h100", "--devices", "4..8", "--batch", "32", "--fix", "zero=0", "--workers", "1"]
    assert main(words) == 130
    (file,) = tmp_path.iterdir()
    error = capsys.readouterr().err.strip()
    assert error.startswith("perfmodel: interrupted; 2 of ")
    assert error.endswith(f"chunks are done; go on with --resume {file}")


def test_processes_started_within_never_hear_an_interruption() -> None:
    shown = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"

    def deaf() -> str:
        return subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own words

    with deaf_to_interrupts():
        inside = deaf()
    assert (inside, deaf()) == ("True\n", "False\n")


def test_a_file_that_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.jsonl"
    file.write_bytes(b"\xff\x00")
    assert main(["plan", "gpt2-355m", "dgx-h100", "--devices", "8", "--resume", str(file)]) == 2
    assert capsys.readouterr().err == f"--resume: {file}: is no UTF-8 text (byte 0)\n"
