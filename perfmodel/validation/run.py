"""Predict all cases of some studies, in parallel, and hold them to their budgets."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Problem
from perfmodel.processes import deaf_to_interrupts
from perfmodel.validation.cases import Outcome, judge
from perfmodel.validation.statistics import Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from perfmodel.specs.measurement import Row
    from perfmodel.validation.study import Budget, Study

CHUNK = 40
"""Configurations of one task: long enough to outweigh its hand-over, short enough to show progress."""
FEW = 60
"""Configurations that are not worth starting processes for."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A study with its outcomes."""

    study: Study
    outcomes: tuple[Outcome, ...]

    @property
    def time(self) -> Summary | None:
        """Statistics of step times, and of rates turned into times."""
        return summarise([o for o in self.outcomes if o.metric != "peak_memory"])

    @property
    def memory(self) -> Summary | None:
        """Statistics of peak memory."""
        return summarise([o for o in self.outcomes if o.metric == "peak_memory"])

    @property
    def judged_rows(self) -> str:
        """The split that a budget judges: test, or calibration where nothing else counts."""
        times = [o for o in self.outcomes if o.counts and o.metric != "peak_memory"]
        return "test" if any(o.split == "test" for o in times) else "calibration"

    def errors(self, rows: str) -> Summary | None:
        """Statistics of the times of one split."""
        return summarise([o for o in self.outcomes if o.metric != "peak_memory" and o.split == rows])

    @property
    def passed(self) -> bool | None:
        """Whether the budget is kept; None where there is none."""
        budget = self.study.budget
        return None if budget is None else keeps(budget, self.errors(budget.rows))


def keeps(budget: Budget, reached: Summary | None) -> bool:
    """A study without a single counted row has lost its proof, and fails."""
    return reached is not None and reached.median <= budget.limit.median and reached.p90 <= budget.limit.p90


def validate(studies: Sequence[Study], progress: Callable[[int, int], None] | None = None) -> list[Judged]:
    """Judge every case; ``progress`` is told how many configurations are done, of how many.

    Ctrl-C stops the work and returns the studies that are complete. Raises InputError with the overrides of all rows
    that no spec takes; that a strategy cannot be laid out is an outcome.
    """
    tasks = [
        (index, study.name, study.folder, study.configurations[start : start + CHUNK])
        for index, study in enumerate(studies)
        for start in range(0, len(study.configurations), CHUNK)
    ]
    total = sum(len(task[3]) for task in tasks)
    found: list[list[Outcome]] = [[] for _ in studies]
    missing = [sum(1 for task in tasks if task[0] == index) for index in range(len(studies))]
    done = 0
    problems: list[Problem] = []
    try:
        for index, size, outcomes, wrong in _map(tasks, parallel=total > FEW):
            found[index].extend(outcomes)
            problems.extend(wrong)
            missing[index] -= 1
            done += size
            if progress:
                progress(done, total)
    except KeyboardInterrupt:
        if not any(left == 0 for left in missing):
            raise
    if problems:
        raise InputError(sorted(problems, key=lambda p: (p.place.file, p.place.line)))
    return [
        Judged(study, tuple(sorted(outcomes, key=lambda o: o.id)))
        for study, outcomes, left in zip(studies, found, missing, strict=True)
        if left == 0
    ]


_Task = tuple[int, str, "Path", tuple[tuple["Row", ...], ...]]
_Done = tuple[int, int, list[Outcome], list["Problem"]]


def _map(tasks: list[_Task], *, parallel: bool) -> Iterator[_Done]:
    if not parallel:
        yield from map(_work, tasks)
        return
    pool = ProcessPoolExecutor(max_workers=os.cpu_count())
    try:
        with deaf_to_interrupts():
            waiting: set[Future[_Done]] = {pool.submit(_work, task) for task in tasks}
        while waiting:
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)  # once: a second call, as of `with`, may take the cancelling back


def _work(task: _Task) -> _Done:
    index, name, folder, configurations = task
    outcomes: list[Outcome] = []
    problems: list[Problem] = []
    for rows in configurations:
        try:
            outcomes.extend(judge(rows, name, folder))
        except InputError as error:
            problems.extend(error.problems)
    return index, len(configurations), outcomes, problems
