"""Processes that measure at once, each on its share of the cores, and what the first of them found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from perfmodel.errors import InputError, Place, Problem
from perfmodel.measuring.cases import Case
from perfmodel.measuring.machine import Machine, load, this_machine

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "17179869184"}
"""Settings of glibc under which it keeps freed memory, as the allocators do that PyTorch's tuning guide advises: else every tensor of some
MiB is made of new pages in each step, at a few GB/s."""
BUSY = 0.25
"""Load for each core from which a measurement is no longer that of the machine alone."""
ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Found:
    """What was measured on one share of the machine while the others were busy too."""

    machine: Machine
    processes: int
    threads: int
    engine: str = ""
    times: dict[Case, float] = field(default_factory=dict)
    """The median over the rounds: a step is a sum of kernels, which are never all at their best."""
    turns: dict[Case, list[float]] = field(default_factory=dict)
    """Seconds of each round."""
    messages: list[tuple[float, float]] = field(default_factory=list)
    """Bytes and seconds of all-reduces over all processes."""
    beside: tuple[float, float, float] | None = None
    """Seconds of computing, of communicating, and of both at once."""
    skipped: int = 0
    """Turns that the time did not suffice for."""
    load: float = 0.0
    """Average load of the machine just before: what others ran beside the measurement."""

    @property
    def is_loaded(self) -> bool:
        """Others kept a good part of the cores that the measurement needed."""
        return self.load > BUSY * self.machine.cores

    def take(self, said: dict[str, Any]) -> None:
        """Add one line of a worker."""
        if "engine" in said:
            self.engine = said["engine"]
        elif "case" in said and said["time"] is None:
            self.skipped += 1
        elif "case" in said:
            case = Case(said["case"]["kind"], tuple(said["case"]["sizes"]))
            self.turns.setdefault(case, []).append(said["time"])
            self.times[case] = median(self.turns[case])
        elif "message" in said:
            self.messages.append((float(said["message"]), said["time"]))
        elif "beside" in said:
            self.beside = (said["beside"]["computing"], said["beside"]["communicating"], said["beside"]["both"])


def has_torch() -> bool:
    """Whether PyTorch is installed."""
    return find_spec("torch") is not None


def library_of(wanted: Literal["auto", "numpy", "torch"]) -> str:
    """The library to measure with; raises InputError where PyTorch is asked for but not installed."""
    if wanted == "torch" and not has_torch():
        raise InputError(
            [
                Problem(
                    Place("--library"),
                    wanted,
                    "is not installed; pip install 'perfmodel[torch]', or measure with numpy",
                )
            ]
        )
    return ("torch" if has_torch() else "numpy") if wanted == "auto" else wanted


def measure(processes: int, budget: float, library: str, progress: Callable[[int, int], None] | None = None) -> Found:
    """Measure this machine.

    Args:
        processes: that share it; each gets as many cores, and all measure at once.
        budget: seconds.
        library: numpy or torch.
        progress: told how many cases are done, of how many.

    Raises InputError where there are fewer cores than processes, or where a process fails.
    """
    machine = this_machine()
    if processes > machine.cores:
        raise InputError([Problem(Place("--processes"), str(processes), f"must be at most the {machine.cores} cores")])
    threads = machine.cores // processes
    found = Found(machine, processes, threads, load=load())
    with tempfile.TemporaryDirectory() as folder:
        started = [_start(rank, processes, threads, library, budget, f"{folder}/store") for rank in range(processes)]
        try:
            _listen(started[0], found, progress)
            for worker in started:
                _finish(worker)
        finally:
            for worker in started:
                worker.kill()
                worker.wait()
                if worker.stdout:
                    worker.stdout.close()
                if worker.stderr:
                    worker.stderr.close()
    return found


def _start(rank: int, ranks: int, threads: int, library: str, budget: float, store: str) -> subprocess.Popen[str]:
    asked = {"rank": rank, "ranks": ranks, "threads": threads, "library": library, "budget": budget, "store": store}
    environment = os.environ | ALLOCATOR | dict.fromkeys(THREADS, str(threads))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(  # noqa: S603 - this very interpreter, and numbers
        [sys.executable, "-P", "-m", "perfmodel.measuring.worker", json.dumps(asked)],
        stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def _listen(worker: subprocess.Popen[str], found: Found, progress: Callable[[int, int], None] | None) -> None:
    planned = done = 0
    for line in worker.stdout or ():
        said = json.loads(line)
        planned = said.get("planned", planned)
        done += "case" in said
        found.take(said)
        if progress and planned:
            progress(done, planned)


def _finish(worker: subprocess.Popen[str]) -> None:
    if worker.wait():
        last = (worker.stderr.read() if worker.stderr else "").strip().rpartition("\n")[2]
        raise InputError([Problem(Place("calibrate here"), "", f"a measuring process failed: {last}")])
