"""All candidates of one machine and one number of devices, in chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.chain import work_of
from perfmodel.errors import InputError
from perfmodel.graph.flops import model_flops
from perfmodel.parallel import Layout, arrange
from perfmodel.planner.limits import OBJECTIVES, Figures, Limit, broken, capacity, host_room
from perfmodel.planner.pricing import Pricing
from perfmodel.planner.refusals import Refusals
from perfmodel.planner.shortlist import Front, Shortlist
from perfmodel.planner.space import allowed, choices, space_of, strategy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfmodel.planner.allrows import AllRows
    from perfmodel.planner.axes import Axes
    from perfmodel.planner.limits import Objective
    from perfmodel.planner.space import Choice, Space
    from perfmodel.specs import Hardware, Strategy, Workload

CHUNK = 32768
"""Candidates at a time: their columns stay in the caches."""
LEAD_ERROR = 0.09
"""Relative error of the ratio of two layouts' times: the median over measured groups of layouts (`tools/regret.py`)."""


@dataclass(frozen=True, slots=True)
class Question:
    """One machine and one number of devices."""

    workload: Workload
    hardware: Hardware
    strategy: Strategy
    """What is no axis of the search: software, attention kernel, overlap …"""
    devices: int
    axes: Axes
    limits: tuple[Limit, ...] = ()
    """Besides the memory of a device."""

    @property
    def all_limits(self) -> tuple[Limit, ...]:
        """With the memory of a device, and that of hosts where something may leave for it."""
        leaving = self.axes.choices["offload"] != (None,) or any(
            one and one.memory != "device" for one in self.axes.choices["tables"]
        )
        hosts = host_room(self.hardware) if leaving else ()
        return (capacity(self.hardware), *hosts, *self.limits)

    @property
    def room(self) -> float:
        """Bytes of a device that a plan may fill."""
        return min(limit.bound for limit in self.all_limits if (limit.figure, limit.relation) == ("memory.peak", "<="))


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate that was kept."""

    question: Question
    strategy: Strategy
    rank: float
    """The figure by which it was kept."""
    step_time: float
    memory: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """Layouts that one rule refuses."""

    path: str
    layouts: int
    example: str
    """What the rule says of one of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search of one question found."""

    question: Question
    evaluated: int
    """Candidates that were priced."""
    feasible: int
    """Of them, those that keep all bounds."""
    best: tuple[Row, ...]
    front: tuple[Row, ...]
    """That no other beats in both time and memory."""
    nearest: tuple[Row, ...]
    """Of those that break a bound, the ones that break it least."""
    refused: tuple[Refusal, ...]
    near: NDArray[np.float64]
    """Of the objective, values that the model cannot tell from the best."""


def is_near(values: NDArray[np.float64], best: float) -> NDArray[np.bool_]:
    """Which values the model cannot tell from the best by its own error."""
    near: NDArray[np.bool_] = np.abs(np.log(values / best)) <= np.log1p(LEAD_ERROR)
    return near


@dataclass
class _Search:
    question: Question
    objective: Objective
    count: int
    picked: tuple[Choice, ...]
    tells: bool
    rows_file: AllRows | None = None
    space: Space = field(init=False)
    refusals: Refusals = field(init=False)
    pricing: Pricing = field(init=False)
    best: Shortlist = field(init=False)
    nearest: Shortlist = field(init=False)
    front: Front = field(default_factory=Front)
    near: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    evaluated: int = 0
    feasible: int = 0
    _common: tuple[float, float | None, float] = (0.0, None, 0.0)

    def __post_init__(self) -> None:
        q = self.question
        self.refusals = Refusals(q.workload, q.hardware, q.strategy, q.devices, tells=self.tells)
        self.space = space_of(q.workload, q.axes, self.refusals)
        self.best, self.nearest = Shortlist(self.count), Shortlist(self.count)

    def figures(self) -> tuple[float, float | None, float]:
        """Samples, tokens and FLOP of one step, which all candidates have in common."""
        q = self.question
        ones = Layout(tp=1, pp=1, vpp=1, cp=1, dp=1, microbatch=1, batch=1, shard_group=1)
        graph, batch = work_of(q.workload, q.strategy, ones).graph, float(q.workload.training.batch)
        tokens = None if graph.tokens is None else float(graph.tokens) * batch
        return batch, tokens, float(model_flops(graph, "full-attention")) * batch

    def chunk(self, index: int, choice: Choice, rows: NDArray[np.int64], groups: NDArray[np.int64]) -> None:
        q = self.question
        made = self.pricing.candidates(choice, rows, groups)
        peak = float(q.hardware.device.compute.peak[q.workload.training.precision])
        figures = Figures(q.hardware, made, *self._common, peak)
        name, sign = OBJECTIVES[self.objective]
        value = sign * np.asarray(figures[name])
        excess = broken(q.all_limits, figures)
        keeps = excess <= 0
        fits, others = np.flatnonzero(keeps), np.flatnonzero(~keeps)

        def named(which: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.stack([np.full(len(which), index), rows[which], groups[which]], axis=1)

        time, memory = made.step_time, made.memory
        second = time if self.objective == "memory" else memory
        self.evaluated += len(rows)
        self.feasible += len(fits)
        self.best.offer(value[fits], second[fits], lambda which: named(fits[which]))
        if len(fits):
            values = np.concatenate([self.near, value[fits]])
            self.near = values[is_near(values, float(self.best.first[0]))]
        if self.rows_file is not None:
            self.rows_file.write(q, choice, made, keeps)
        self.front.offer(time[fits], memory[fits], lambda which: named(fits[which]))
        self.nearest.offer(excess[others], time[others], lambda which: named(others[which]))

    def run(self, progress: Callable[[int, int], None] | None) -> Outcome:
        q, picked = self.question, self.picked
        self._common = self.figures()
        open_rows = [allowed(self.space, choice, q.axes, self.refusals) for choice in picked]
        used = np.unique(np.concatenate(open_rows))
        self.space, open_rows = self.space.only(used), [np.searchsorted(used, rows) for rows in open_rows]
        self.pricing = Pricing(q.workload, q.hardware, q.strategy, self.space)
        total = sum(self.space.count(rows, c.zero) for rows, c in zip(open_rows, picked, strict=True))
        for index, (choice, rows) in enumerate(zip(picked, open_rows, strict=True)):
            for part, groups in self.space.candidates(rows, choice.zero, CHUNK):
                self.chunk(index, choice, part, groups)
                if progress is not None:
                    progress(self.evaluated, total)
        best, front, near = (tuple(self.rows(each, picked)) for each in (self.best, self.front, self.nearest))
        return Outcome(q, self.evaluated, self.feasible, best, front, near, tuple(self.refused()), self.near)

    def rows(self, kept: Shortlist | Front, picked: Sequence[Choice]) -> Iterator[Row]:
        """Kept candidates as strategies, with their figures."""
        columns, named = self.space.columns, kept.identity
        times, memories = np.empty(len(named)), np.empty(len(named))
        for index in np.unique(named[:, 0]):
            which = np.flatnonzero(named[:, 0] == index)
            made = self.pricing.candidates(picked[index], named[which, 1], named[which, 2])
            times[which], memories[which] = made.step_time, made.memory
        figures = zip(kept.first.tolist(), times.tolist(), memories.tolist(), strict=True)
        for (index, row, group), (rank, time, memory) in zip(named.tolist(), figures, strict=True):
            degrees = {name: int(column[row]) for name, column in columns.items()}
            size, whole = int(self.space.groups.size[group]), degrees["dp"] * degrees["cp"]
            sharded = size if picked[index].zero and size < whole else None
            strategy = strategy_of(self.question.strategy, picked[index], degrees, sharded)
            yield Row(self.question, strategy, rank, time, memory)

    def refused(self) -> Iterator[Refusal]:
        """What each rule refused, with the words that `predict` has for it."""
        q = self.question
        if not self.refusals.seen and self.tells:
            fixed = ", ".join(f"{name} {' or '.join(map(str, values))}" for name, values in q.axes.degrees.items())
            yield Refusal("devices", 0, f"{q.devices} devices have no factorisation with {fixed}")
        for path, layouts in sorted(self.refusals.counts.items(), key=lambda item: -item[1]):
            degrees, choice = self.refusals.examples[path]
            example = strategy_of(q.strategy, choice, degrees, None)
            try:
                arrange(q.workload, q.hardware, example)
            except InputError as error:
                said = next(problem.message for problem in error.problems if problem.path == path)
                yield Refusal(path, layouts, said)


def search(
    question: Question,
    objective: Objective,
    count: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    picked: tuple[Choice, ...] | None = None,
    tells: bool = True,
    rows_file: AllRows | None = None,
) -> Outcome:
    """Price every candidate, and keep the best, the unbeaten and the nearest that break a bound.

    Args:
        question: machine, devices, axes and bounds.
        objective: what is to be best.
        count: how many to keep of the best, and of the nearest.
        progress: told how many candidates are priced, of how many.
        picked: the structural choices to search; None is all.
        tells: whether to tell of factorisations that no layout may have.
        rows_file: takes all candidates.

    Raises InputError where the objective or a bound needs what the machine does not state.
    """
    chosen = choices(question.axes) if picked is None else picked
    return _Search(question, objective, count, chosen, tells, rows_file).run(progress)
