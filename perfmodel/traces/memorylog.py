"""The raw memory timeline of the PyTorch profiler: a list of [nanoseconds, action, bytes, category]."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.traces.opening import fault
from perfmodel.traces.table import Table, time
from perfmodel.traces.trace import Memory, Trace

NANO = 1e-9


class MemoryReader:
    """Takes the rows one by one."""

    def __init__(self, file: str) -> None:
        """Begin without rows."""
        self.file, self._rows = file, Table("dd")
        self._origin: float | None = None

    def take(self, _: str, value: Any) -> None:
        """One row; what was there before the recording is dated -1."""
        place = f"row {len(self._rows) + 1:,}"
        if not isinstance(value, list) or len(value) != 4 or any(type(one) is not int for one in value):
            raise fault(self.file, "must be four whole numbers: nanoseconds, action, bytes, category", place)
        moment, _, size, _ = value
        if self._origin is None and moment >= 0:
            self._origin = moment
        began = time(moment - (self._origin or 0) if moment >= 0 else 0, NANO, "time", self.file, place)
        self._rows.add(began, max(min(size, 10**18), -(10**18)))

    def trace(self) -> Trace:
        """Bytes in use over time."""
        if not len(self._rows):
            raise fault(self.file, "has no rows")
        moment, size = self._rows.columns()
        order = np.argsort(moment, kind="stable")
        memory = Memory(moment[order], np.cumsum(size[order]), np.full(len(moment), np.nan))
        return Trace(self.file, "memory timeline", memory=memory, events=len(moment))
