"""The largest batch without accumulation: it fits, and the next one does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfmodel import api
from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.planner.axes import axes_of
from perfmodel.planner.largest import with_batch, with_largest_batch
from perfmodel.planner.limits import limits_of
from perfmodel.planner.search import Question, search
from perfmodel.prediction import predict
from perfmodel.specs import Strategy

if TYPE_CHECKING:
    from perfmodel.specs import Hardware

FIXED: dict[str, Any] = {"zero": 1, "recompute": "none", "cp": 1, "sequence_parallel": False}


def question(hardware: Hardware, devices: int, room: str, **fixed: Any) -> Question:
    axes = axes_of(Strategy(), {**FIXED, **fixed})
    return Question(
        find("workloads", "gpt2-355m"), hardware, Strategy(), devices, axes, limits_of([f"memory.peak<={room}"])
    )


@pytest.mark.parametrize("fixed", [{}, {"pp": 1, "tp": 1}, {"pp": 4}])
def test_it_fits_and_the_next_does_not(machine: Hardware, fixed: dict[str, Any]) -> None:
    found = with_largest_batch(question(machine, 4, "20 GB", **fixed))
    batch = int(found.workload.training.batch)
    assert batch % 4 == 0
    best = search(found, "throughput", 50).best
    assert best
    assert all(row.strategy.microbatch * (row.strategy.dp or 0) * row.strategy.pp == batch for row in best)
    assert search(with_batch(found, batch + 4), "time", 1).feasible == 0


def test_of_data_parallel_it_is_the_largest_microbatch(machine: Hardware) -> None:
    found = with_largest_batch(question(machine, 4, "20 GB", pp=1, tp=1))
    each = int(found.workload.training.batch) // 4
    peaks = [
        predict(with_batch(found, 4 * size).workload, machine, Strategy(dp=4, zero=1, microbatch=size)).memory_peak
        for size in (each, each + 1)
    ]
    assert peaks[0] <= 20e9 < peaks[1]


def test_fewer_samples_than_devices(machine: Hardware) -> None:
    found = with_largest_batch(question(machine, 8, "3 GB", tp=8))
    batch = int(found.workload.training.batch)
    assert 1 <= batch < 8
    assert search(found, "time", 1).feasible


def test_nothing_fits(machine: Hardware) -> None:
    assert with_largest_batch(question(machine, 4, "1 GB")).workload.training.batch == 1


def test_it_finds_the_batch_itself() -> None:
    with pytest.raises(InputError, match="--max-batch: finds the batch itself; leave batch out"):
        api.plan("gpt2-355m", "dgx-h100", devices=8, max_batch=True, batch=8)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "gpt2-355m", "dgx-h100", "--devices", "8", "--max-batch", "--top", "1"]
    for name, value in {**FIXED, "pp": 1, "tp": 1, "sequence_parallel": "false"}.items():
        words += ["--fix", f"{name}={value}"]
    assert main([*words, "--constrain", "memory.peak<=20 GB"]) == 0
    assert "Ranked by throughput.samples_per_second" in capsys.readouterr().out
