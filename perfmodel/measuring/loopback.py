"""Messages between processes of one machine, through gloo as data-parallel jobs on CPUs use it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING, Any

from perfmodel.measuring.clock import time_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZES = (2**4, 2**10, 2**12, 2**14, 2**16, 2**17, 2**18, 2**19, 2**20, 2**21, 2**22)
"""Elements of four bytes."""
CALLS = 5
"""All-reduces in one timing."""
BESIDE = 2**21
"""Elements of the all-reduce that runs beside a product."""
PATIENCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Beside:
    """A product and an all-reduce, alone and at the same time."""

    computing: float
    communicating: float
    both: float


class Loopback:
    """A group of processes of this machine; raises ImportError without PyTorch."""

    def __init__(self, rank: int, ranks: int, store: Path) -> None:
        """Meet the others.

        Args:
            rank: of this process.
            ranks: processes.
            store: a file that all of them reach.
        """
        self._torch: Any = import_module("torch")
        self._dist: Any = import_module("torch.distributed")
        self._dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=PATIENCE
        )

    def close(self) -> None:
        """Leave the group."""
        self._dist.destroy_process_group()

    def barrier(self) -> None:
        """Wait for the others, so that all measure at once."""
        self._dist.barrier()

    def all_reduces(self, budget: float) -> Iterator[tuple[int, float]]:
        """Bytes and seconds of an all-reduce, from the smallest on."""
        for elements in SIZES:
            yield 4 * elements, self._time(self._sum(elements), budget / len(SIZES))

    def beside(self, budget: float) -> Beside:
        """What computing and communicating cost each other."""
        message = self._sum(BESIDE)
        alone = self._time(message, budget / 3)
        a = self._torch.randn(512, 512)
        product = self._time(lambda: self._torch.mm(a, a), budget / 6)
        calls = max(1, round(alone / product))

        def compute() -> None:
            for _ in range(calls):
                self._torch.mm(a, a)

        def both() -> None:
            work = self._dist.all_reduce(self._torch.ones(BESIDE), async_op=True)
            compute()
            work.wait()

        return Beside(self._time(compute, budget / 4), alone, self._time(both, budget / 4))

    def _sum(self, elements: int) -> Any:
        tensor = self._torch.zeros(elements)
        return lambda: self._dist.all_reduce(tensor)

    def _time(self, run: Any, budget: float) -> float:
        """As `time_of`, but all ranks make the same number of calls."""
        once = self._torch.tensor([time_of(run, 0.0)])
        self._dist.all_reduce(once, self._dist.ReduceOp.MAX)
        times = [_seconds(run) for _ in range(max(CALLS, min(500, int(budget / float(once)))))]
        return median(times)


def _seconds(run: Any) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
