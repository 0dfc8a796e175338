"""A plan as chunks that can be worked on anywhere: one question and the choices that share its tables, each."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.planner.search import Outcome, Row, is_near, search
from perfmodel.planner.shortlist import EQUAL, unbeaten
from perfmodel.planner.space import choices, sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfmodel.planner.limits import Objective
    from perfmodel.planner.search import Question, Refusal
    from perfmodel.planner.space import Choice


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of one question's space."""

    question: Question
    objective: Objective
    count: int
    picked: tuple[Choice, ...]
    first: bool
    """Whether it is the one of its question that tells of factorisations that no layout may have."""

    def work(self) -> Outcome:
        """Price its candidates."""
        return search(self.question, self.objective, self.count, picked=self.picked, tells=self.first)

    @property
    def key(self) -> str:
        """The same for the same chunk of the same question, whatever process asks."""
        q = self.question
        specs = [each.model_dump_json() for each in (q.workload, q.hardware, q.strategy)]
        said = (q.devices, q.axes, q.limits, self.objective, self.count, self.picked)
        return hashlib.sha256(json.dumps([*specs, repr(said)]).encode()).hexdigest()[:32]


def chunks_of(questions: Sequence[Question], objective: Objective, count: int) -> tuple[Chunk, ...]:
    """The parts of all questions: machines, numbers of devices, and of each the choices that share tables."""
    return tuple(
        Chunk(question, objective, count, tuple(own), at == 0)
        for question in questions
        for at, (_, own) in enumerate(groupby(sorted(choices(question.axes), key=sharing), key=sharing))
    )


def joined(chunks: Sequence[Chunk], outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """One outcome for each question, as if it had been searched in one."""
    made: list[tuple[Chunk, list[Outcome]]] = []
    for chunk, outcome in zip(chunks, outcomes, strict=True):
        if chunk.first:
            made.append((chunk, []))
        made[-1][1].append(outcome)
    return tuple(_together(chunk, own) for chunk, own in made)


def _together(chunk: Chunk, parts: Sequence[Outcome]) -> Outcome:
    question = chunk.question
    best = _leading([row for part in parts for row in part.best], chunk.count)
    front = [row for part in parts for row in part.front]
    kept = unbeaten([(row.step_time, row.memory) for row in front])
    nearest = sorted((row for part in parts for row in part.nearest), key=lambda row: (row.rank, row.step_time))
    near = np.concatenate([part.near for part in parts])
    return Outcome(
        question, sum(part.evaluated for part in parts), sum(part.feasible for part in parts),
        tuple(_asked(best, question)), tuple(_asked(sorted((front[at] for at in kept), key=lambda row: row.step_time), question)),
        tuple(_asked(nearest[: chunk.count], question)), tuple(_refused(parts)),
        near[is_near(near, best[0].rank)] if best else near,
    )  # fmt: skip


def _leading(rows: list[Row], count: int) -> list[Row]:
    """The best; of those that are equal in rank the one with least memory."""
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: (row.rank, row.memory)):
        if kept and row.rank - kept[-1].rank <= EQUAL * abs(kept[-1].rank):
            kept[-1] = min(kept[-1], row, key=lambda one: one.memory)
        else:
            kept.append(row)
    return kept[:count]


def _asked(rows: Iterable[Row], question: Question) -> Iterator[Row]:
    """Rows of this very question, not of its copy in another process."""
    return (replace(row, question=question) for row in rows)


def _refused(parts: Sequence[Outcome]) -> Iterator[Refusal]:
    found: dict[str, Refusal] = {}
    for each in (refusal for part in parts for refusal in part.refused):
        before = found.get(each.path)
        found[each.path] = each if before is None else replace(before, layouts=before.layouts + each.layouts)
    return iter(sorted(found.values(), key=lambda refusal: -refusal.layouts))
