"""A plan: the best of all candidates over machines and numbers of devices, those that nothing beats, and why others are out."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.outcome import step_cost
from perfmodel.errors import StoppedError
from perfmodel.planner.allrows import AllRows
from perfmodel.planner.engine import work
from perfmodel.planner.finalists import Finalist, differences, finalist, rescued
from perfmodel.planner.limits import OBJECTIVES, excesses
from perfmodel.planner.resume import Store
from perfmodel.planner.search import LEAD_ERROR, Outcome, Question, Row, is_near, search
from perfmodel.planner.sensitivity import Sensitivity, sensitivities
from perfmodel.planner.shortlist import unbeaten
from perfmodel.planner.work import chunks_of, joined
from perfmodel.prediction import Prediction, predict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfmodel.planner.engine import Engine
    from perfmodel.planner.limits import Limit, Objective
    from perfmodel.planner.work import Chunk


@dataclass(frozen=True, slots=True)
class Rejected:
    """A plan that breaks a bound."""

    prediction: Prediction
    broken: tuple[tuple[Limit, float, float], ...]
    """Each bound with the value of the plan, and by which share of the bound it is broken."""
    room: float
    """Bytes of a device that a plan may fill."""


@dataclass(frozen=True)
class Plan:
    """Answer to all questions."""

    objective: Objective
    outcomes: tuple[Outcome, ...]
    elapsed: float = field(compare=False)
    """Seconds of the search."""
    count: int = 10

    @property
    def evaluated(self) -> int:
        """Candidates that were priced."""
        return sum(outcome.evaluated for outcome in self.outcomes)

    @property
    def feasible(self) -> int:
        """Candidates that keep all bounds."""
        return sum(outcome.feasible for outcome in self.outcomes)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The best of all, best first."""
        found = chain.from_iterable(outcome.best for outcome in self.outcomes)
        return tuple(sorted(found, key=lambda row: (row.rank, row.memory))[: self.count])

    @cached_property
    def plans(self) -> tuple[Prediction, ...]:
        """The best, predicted in full."""
        return tuple(map(predicted, self.rows))

    @cached_property
    def finalists(self) -> tuple[Finalist, ...]:
        """The best, each played pass by pass."""
        return tuple(finalist(made, row.question.room) for made, row in zip(self.plans, self.rows, strict=True))

    @cached_property
    def differences(self) -> dict[str, float]:
        """Seconds that the simulation of the best plan takes longer than its closed form, by cause; none where it is not played."""
        played = self.finalists and self.finalists[0].simulated is not None
        return differences(self.plans[0]) if played else {}

    @cached_property
    def front(self) -> tuple[Row, ...]:
        """Candidates that no other beats in step time, cost and memory, by step time.

        Where a machine has no price, devices x time stands for the cost.
        """
        rows = tuple(chain.from_iterable(outcome.front for outcome in self.outcomes))
        priced = all(outcome.question.hardware.price for outcome in self.outcomes)
        points = [(row.step_time, cost(row) or 0.0 if priced else row.step_time * row.question.devices, row.memory)
                  for row in rows]  # fmt: skip
        return tuple(sorted((rows[index] for index in unbeaten(points)), key=lambda row: row.step_time))

    @cached_property
    def rejected(self) -> tuple[Rejected, ...]:
        """Those that break a bound by the least."""
        found = chain.from_iterable(outcome.nearest for outcome in self.outcomes)
        least = sorted(found, key=lambda row: (row.rank, row.step_time))[: self.count]
        return tuple(_rejected(row) for row in least)

    @cached_property
    def rescued(self) -> tuple[Finalist, ...]:
        """Of those that break nothing but the memory of a device, the ones that fit with unequal stages and beat the best, fastest first."""
        short = (one for one in self.rejected if all(limit.figure == "memory.peak" for limit, _, _ in one.broken))
        found = [made for one in short if (made := rescued(one.prediction, one.room)) is not None]
        least = min((one.seconds for one in self.finalists), default=np.inf)
        return tuple(sorted((one for one in found if one.seconds < least), key=lambda one: one.seconds))

    @cached_property
    def ties(self) -> int:
        """Candidates that the model cannot tell from the best by its own error, the best among them."""
        if not self.rows:
            return 0
        values = np.concatenate([outcome.near for outcome in self.outcomes])
        return int(np.count_nonzero(is_near(values, self.rows[0].rank)))

    @cached_property
    def frugal(self) -> Row | None:
        """Of the ties, the one that needs the least memory."""
        if not self.rows:
            return None
        near = [row for row in self.front if row.step_time <= self.rows[0].step_time * (1 + LEAD_ERROR)]
        return min(near, key=lambda row: row.memory, default=None)

    @cached_property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """Of the best plan."""
        if not self.rows:
            return ()
        question, strategy = self.rows[0].question, self.rows[0].strategy
        return sensitivities(question.workload, question.hardware, strategy)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where a plan is worked on, and what is kept of it."""

    engine: Engine = "local"
    workers: int = 1
    scheduler: str | None = None
    store: Store = field(default_factory=lambda: Store(None))
    rows_file: Path | None = None
    """For all candidates; then this process works alone."""

    @property
    def is_plain(self) -> bool:
        """Whether this process works alone, and nothing is to be kept but the answer."""
        return self.engine == "local" and self.workers == 1 and self.store.path is None


def plan(
    questions: Sequence[Question],
    objective: Objective,
    count: int,
    progress: Callable[[int, int], None] | None = None,
    workshop: Workshop | None = None,
) -> Plan:
    """Search all questions.

    Args:
        questions: machines and numbers of devices.
        objective: what is to be best.
        count: how many plans to keep of the best, and of those that break a bound.
        progress: told how much is done, of how much: chunks, or of a single question candidates.
        workshop: by default this process.

    Raises StoppedError, which names the file with the chunks that are done, on Ctrl-C.
    """
    begun, shop = time.perf_counter(), workshop or Workshop()
    if shop.rows_file is not None or (shop.is_plain and len(questions) == 1):
        outcomes = _alone(questions, objective, count, progress, shop.rows_file)
    else:
        outcomes = _in_chunks(chunks_of(questions, objective, count), progress, shop)
    return Plan(objective, outcomes, time.perf_counter() - begun, count)


def _alone(
    questions: Sequence[Question], objective: Objective, count: int, progress: Callable[[int, int], None] | None, rows_file: Path | None,
) -> tuple[Outcome, ...]:  # fmt: skip
    with AllRows(rows_file) if rows_file is not None else nullcontext() as rows:
        return tuple(search(question, objective, count, progress, rows_file=rows) for question in questions)


def _in_chunks(
    chunks: Sequence[Chunk], progress: Callable[[int, int], None] | None, shop: Workshop
) -> tuple[Outcome, ...]:
    known = {number: shop.store.find(chunk) for number, chunk in enumerate(chunks)}
    found = {number: outcome for number, outcome in known.items() if outcome is not None}
    left = {number: chunks[number] for number, outcome in known.items() if outcome is None}
    try:
        for number, outcome in work(left, shop.engine, workers=shop.workers, scheduler=shop.scheduler) if left else ():
            found[number] = outcome
            shop.store.keep(chunks[number], outcome)
            if progress is not None:
                progress(len(found), len(chunks))
    except KeyboardInterrupt:
        path = shop.store.save(Path.cwd(), chunks)
        message = f"{len(found)} of {len(chunks)} chunks are done; go on with --resume {path}"
        raise StoppedError(message) from None
    return joined(chunks, [found[number] for number in range(len(chunks))])


def predicted(row: Row) -> Prediction:
    """A candidate with its tree of time."""
    return predict(row.question.workload, row.question.hardware, row.strategy)


def cost(row: Row) -> float | None:
    """Price of a candidate's step, where its machine has one."""
    dollars = step_cost(row.question.hardware, row.question.devices, row.step_time)
    return None if dollars is None else float(dollars)


def value_of(prediction: Prediction, figure: str) -> float:
    """One of `perfmodel.planner.limits.FIGURES` of a prediction; not a number where it has none."""
    layout = prediction.layout
    known = {
        "step_time": prediction.step_time, "memory.peak": prediction.memory_peak, "mfu": prediction.mfu(),
        "throughput.samples_per_second": prediction.samples_per_second,
        "throughput.tokens_per_second": prediction.tokens_per_second,
        "cost_per_step": prediction.cost, "energy_per_step": prediction.energy,
    }  # fmt: skip
    value = known[figure] if figure in known else getattr(layout, figure)
    return np.nan if value is None else float(value)


def objective_of(plan: Plan, prediction: Prediction) -> float:
    """The figure that the plan makes best."""
    return value_of(prediction, OBJECTIVES[plan.objective][0])


def _rejected(row: Row) -> Rejected:
    made = predicted(row)
    broken = tuple(excesses(row.question.all_limits, lambda figure: value_of(made, figure)))
    return Rejected(made, broken, row.question.room)
