"""A plan: the best of all candidates over machines and numbers of devices, those that nothing beats, and why others are out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.outcome import step_cost
from perfmodel.planner.finalists import Finalist, differences, finalist
from perfmodel.planner.limits import OBJECTIVES, excesses
from perfmodel.planner.search import LEAD_ERROR, Outcome, Question, Row, is_near, search
from perfmodel.planner.sensitivity import Sensitivity, sensitivities
from perfmodel.planner.shortlist import unbeaten
from perfmodel.prediction import Prediction, predict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfmodel.planner.limits import Limit, Objective


@dataclass(frozen=True, slots=True)
class Rejected:
    """A plan that breaks a bound."""

    prediction: Prediction
    broken: tuple[tuple[Limit, float, float], ...]
    """Each bound with the value of the plan, and by which share of the bound it is broken."""


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


def plan(
    questions: Sequence[Question],
    objective: Objective,
    count: int,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Search all questions.

    Args:
        questions: machines and numbers of devices.
        objective: what is to be best.
        count: how many plans to keep of the best, and of those that break a bound.
        progress: told how many questions are done, of how many; of a single one, candidates.
    """
    begun, outcomes = time.perf_counter(), []
    for done, question in enumerate(questions, start=1):
        outcomes.append(search(question, objective, count, progress if len(questions) == 1 else None))
        if progress is not None and len(questions) > 1:
            progress(done, len(questions))
    return Plan(objective, tuple(outcomes), time.perf_counter() - begun, count)


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
    return Rejected(made, tuple(excesses(row.question.all_limits, lambda figure: value_of(made, figure))))
