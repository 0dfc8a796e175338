"""Operators of a CPU as kernels: each without the operators that it called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.traces.table import Table
from perfmodel.traces.trace import Kernels

if TYPE_CHECKING:
    from perfmodel.traces.trace import Array, Index


def own_times(start: Array, duration: Array, name: Index, thread: Index) -> Kernels:
    """Stretches in which an operator itself runs, one after the other on each thread.

    Args:
        start: of each operator.
        duration: with the operators that it calls.
        name: index of its name.
        thread: that runs it.
    """
    pieces = Table("ddi")
    order = np.lexsort((-duration, start, thread))
    stack: list[int] = []
    now = 0.0

    def run(until: float) -> None:
        nonlocal now
        if stack and until > now:
            pieces.add(now, until - now, stack[-1])
        now = max(now, until)

    def finish(until: float) -> None:
        while stack and ends[stack[-1]] <= until:
            run(ends[stack[-1]])
            stack.pop()

    begins, ends, on = start.tolist(), (start + duration).tolist(), thread.tolist()
    last = None
    for row in order.tolist():
        if on[row] != last:
            finish(np.inf)
            last, now = on[row], begins[row]
        finish(begins[row])
        run(begins[row])
        now = max(now, begins[row]) if stack else begins[row]
        stack.append(row)
    finish(np.inf)
    begin, length, op = pieces.columns()
    none = np.full(len(begin), -1, np.int32)
    return Kernels(begin, length, name[op], thread[op], begin, op, none)
