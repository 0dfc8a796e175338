"""Several ranks of one job: how uneven they are, and what of their collectives is waiting."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.traces.classes import classify
from perfmodel.traces.summary import COLLECTIVE, Summary

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from perfmodel.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Waiting:
    """Time in collectives of one rank, split."""

    transfer: float
    """What the same collectives took on the rank that took least: nobody waited for it."""
    waiting: float
    """The rest: the rank was there before others."""
    matched: int
    """Collectives found on every rank."""


@dataclass(frozen=True)
class TracedJob:
    """The traces of some ranks, one job."""

    ranks: tuple[Summary, ...]

    @cached_property
    def waiting(self) -> tuple[Waiting, ...] | None:
        """Of each rank; None where fewer than two ranks have collectives.

        Kernels of a collective run until the last rank has come, so the shortest of a collective is its
        transfer, and what the others take beyond it is waiting.
        """
        own = [_collectives(one) for one in self.ranks]
        if sum(bool(one) for one in own) < 2:
            return None
        common = [key for key in own[0] if all(key in one for one in own)]
        least = sum(min(one[key] for one in own) for key in common)
        return tuple(Waiting(least, sum(one[key] for key in common) - least, len(common)) for one in own)

    @property
    def spread(self) -> dict[str, tuple[float, float, float]]:
        """Least, mean and most over the ranks: of computing, communicating, exposed, idle, step."""
        found = {}
        for name in ("step_time", "computing", "communicating", "exposed", "idle"):
            values = [value for one in self.ranks if (value := getattr(one, name)) is not None]
            if values:
                found[name] = float(np.min(values)), float(np.mean(values)), float(np.max(values))
        return found

    @property
    def imbalance(self) -> float:
        """Most over mean computing time: 1 where all ranks compute alike."""
        _, mean, most = self.spread["computing"]
        return most / mean if mean else 1.0


def job(traces: Sequence[Trace]) -> TracedJob:
    """Traces as one job, by rank; those that do not tell theirs keep their order."""
    order = sorted(range(len(traces)), key=lambda i: (i if (rank := traces[i].rank) is None else rank, i))
    return TracedJob(tuple(Summary(traces[i]) for i in order))


def _collectives(summary: Summary) -> dict[Hashable, float]:
    """Durations by which collective it is: kernel, group, and how many of the same came before."""
    kernels = summary.trace.kernels
    found: dict[Hashable, float] = {}
    seen: Counter[Hashable] = Counter()
    rows = np.flatnonzero(summary.group == COLLECTIVE)
    for row in rows[np.argsort(kernels.start[rows], kind="stable")]:
        message = summary.trace.messages[kernels.message[row]] if kernels.message[row] >= 0 else None
        key = (message.collective, message.group) if message else (summary.trace.names[kernels.name[row]], "")
        found[(*key, seen[key])] = float(kernels.duration[row])
        seen[key] += 1
    return found


def by_kernel(summaries: Sequence[Summary]) -> list[tuple[str, str, int, float]]:
    """Kernels of all ranks by name: class, calls and time, longest first."""
    merged: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    for one in summaries:
        names, kernels = one.trace.names, one.trace.kernels
        count = np.bincount(kernels.name, minlength=len(names))
        total = np.bincount(kernels.name, weights=kernels.duration, minlength=len(names))
        for name, calls, time in zip(names, count, total, strict=True):
            if calls:
                row = merged[classify(name), name]
                row[0] += int(calls)
                row[1] += float(time)
    return sorted(((kind, name, int(n), t) for (kind, name), (n, t) in merged.items()), key=lambda row: -row[3])
