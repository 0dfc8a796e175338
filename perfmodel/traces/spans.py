"""Stretches of time: unions, what several share, steps in order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.traces.opening import fault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfmodel.traces.trace import Array, Span

SLACK = 1e-6
"""Seconds by which a step may reach into the next: the clocks of traces count microseconds."""


def covered(start: Array, end: Array) -> float:
    """Time that at least one stretch covers.

    >>> covered(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0]))
    4.0
    """
    return float(exclusive(start, end, np.zeros(len(start), np.int64), 1)[0])


def exclusive(start: Array, end: Array, group: NDArray[np.int64], groups: int) -> Array:
    """Time of each group that no earlier group covers too; the times add up to the union of all.

    Args:
        start: of the stretches.
        end: likewise.
        group: of each stretch, numbered from 0; earlier ones come first.
        groups: how many there are.

    >>> exclusive(np.array([0.0, 1.0]), np.array([2.0, 4.0]), np.array([0, 1]), 2)
    array([2., 2.])
    """
    moments = np.concatenate([start, end])
    order = np.argsort(moments, kind="stable")
    between = np.diff(moments[order])
    left = np.ones(len(between), dtype=bool)
    times = np.zeros(groups)
    for one in range(groups):
        opened = np.concatenate([group == one, -(group == one).astype(np.int64)]) if len(group) else np.zeros(0)
        running = np.cumsum(opened[order])[:-1] > 0
        times[one] = float(between[running & left].sum())
        left &= ~running
    return times


def shared(start: Array, end: Array) -> Array:
    """Time, or more, that each stretch runs beside those before and after it.

    >>> shared(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0]))
    array([1., 1., 0.])
    """
    if not len(start):
        return np.zeros(0)
    order = np.argsort(start, kind="stable")
    begins, ends = start[order], end[order]
    before = np.maximum.accumulate(ends)[:-1] - begins[1:]
    beside = np.zeros(len(start))
    beside[order[1:]] += np.maximum(before, 0.0)
    beside[order[:-1]] += np.maximum(ends[:-1] - begins[1:], 0.0)
    return beside


def in_order(steps: Iterable[Span], file: str) -> tuple[Span, ...]:
    """Steps by time, each once; raises InputError where two of them overlap."""
    longest: dict[str, Span] = {}
    for step in steps:
        known = longest.get(step.name)
        if known is None or step.end - step.start > known.end - known.start:
            longest[step.name] = step
    ordered = tuple(sorted(longest.values(), key=lambda step: step.start))
    for before, after in pairwise(ordered):
        if after.start < before.end - SLACK:
            raise fault(file, f"{after.name} begins before {before.name} ends; steps must not overlap", "steps")
    return ordered


def callers(start: Array, end: Array, thread: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the innermost stretch of the same thread that each stretch lies in; -1 where none does.

    Args:
        start: of the stretches.
        end: likewise.
        thread: that each is on; a negative one is unknown, and lies in nothing.

    >>> callers(np.array([0.0, 1.0, 1.5]), np.array([4.0, 3.0, 2.0]), np.array([0, 0, 0]))
    array([-1,  0,  1])
    """
    found = np.full(len(start), -1)
    ends, on = end.tolist(), thread.tolist()
    stack: list[int] = []
    last = -1
    for row, begins in ((row, start[row]) for row in np.lexsort((-(end - start), start, thread)).tolist()):
        if on[row] != last:
            stack.clear()
            last = on[row]
        while stack and (ends[stack[-1]] <= begins or ends[stack[-1]] < ends[row]):
            stack.pop()
        found[row] = stack[-1] if stack and last >= 0 else -1
        stack.append(row)
    return found
