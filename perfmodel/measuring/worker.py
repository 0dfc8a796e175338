"""One process that measures, and says each result as a line of JSON.

`python -m perfmodel.measuring.worker '{"rank": 0, …}'`; a process for itself, since a BLAS fixes its threads when it is loaded.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.measuring.cases import cases
from perfmodel.measuring.clock import time_of
from perfmodel.measuring.engines import engine
from perfmodel.measuring.machine import this_machine

if TYPE_CHECKING:
    from perfmodel.measuring.loopback import Loopback

MESSAGES = 0.2
"""Of the budget, for messages."""
ROUNDS = 3
"""Times that each case has its turn, so that what else the machine does for some seconds hits no case every time."""
FIRST = 16
"""Turns that are never skipped: levels of memory and small products, without which nothing can be said."""
LATEST = 1.5
"""Budgets after which what is left is skipped."""


def say(**what: Any) -> None:
    """One line of JSON, at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(rank: int, ranks: int, threads: int, library: str, budget: float, store: str) -> None:
    """Measure.

    Args:
        rank: of this process, among those that measure at once.
        ranks: of them.
        threads: that this one computes with.
        library: numpy or torch.
        budget: seconds.
        store: a file through which the processes meet.
    """
    library_used, machine = engine(library, threads), this_machine()
    planned = cases(machine.caches, machine.memory, torch=library == "torch", ranks=ranks)
    clock = time.process_time if threads == 1 else time.perf_counter
    say(engine=library_used.version, planned=ROUNDS * len(planned))
    group = _meet(rank, ranks, store) if library == "torch" and ranks > 1 else None
    each = budget * (1 - MESSAGES if group else 1) / len(planned) / ROUNDS
    ends = time.perf_counter() + LATEST * budget
    for turn, case in enumerate(planned * ROUNDS):
        if group:
            group.barrier()
        late = turn >= FIRST and time.perf_counter() > ends
        say(case=asdict(case), time=None if late else time_of(library_used.run_of(case), each, clock))
    if group:
        for size, seconds in group.all_reduces(0.7 * MESSAGES * budget):
            say(message=size, time=seconds)
        say(beside=asdict(group.beside(0.3 * MESSAGES * budget)))
        group.close()


def _meet(rank: int, ranks: int, store: str) -> Loopback:
    from perfmodel.measuring.loopback import Loopback

    return Loopback(rank, ranks, Path(store))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(**json.loads(sys.argv[1]))
