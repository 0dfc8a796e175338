"""Nsight Systems, exported to SQLite (`nsys export --type sqlite`)."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.traces.kineto import STEP
from perfmodel.traces.opening import fault
from perfmodel.traces.spans import in_order
from perfmodel.traces.table import Numbered, Table, time
from perfmodel.traces.trace import Kernels, Span, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NANO = 1e-9
KERNEL, COPY, SET = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
RUNTIME, RANGES, STRINGS, DEVICES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds", "TARGET_INFO_GPU"
LONGEST_QUERY = 200_000_000
"""Steps of SQLite's machine in one query: a trace of hours takes fewer, an endless view does not end."""


def read_nsight(path: Path) -> list[Trace]:
    """One trace for each device; raises InputError where the file is no such export."""
    file = str(path)
    try:
        base = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            base.text_factory = lambda raw: raw.decode("utf-8", "replace")
            return _Export(base, file).traces()
        finally:
            base.close()
    except sqlite3.Error as error:
        raise fault(file, f"is no SQLite export of Nsight Systems, or is damaged: {error}") from error


class _Export:
    """The tables of one file."""

    def __init__(self, base: sqlite3.Connection, file: str) -> None:
        self.base, self.file = base, file
        # views and triggers of a stranger are code: only plain tables are read
        self.tables = {str(name) for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        base.set_progress_handler(lambda: 1, LONGEST_QUERY)
        self.strings = dict(self._rows(STRINGS, "id", "value"))
        self.names, self.streams = Numbered[str](), Numbered[Any]()
        self.launches = {row[0]: row[1] for row in self._rows(RUNTIME, "correlationId", "start")}
        self.origin: int | None = None

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a table, None for a column that it lacks; none where there is no such table."""
        if table not in self.tables:
            return iter(())
        has = {str(row[1]) for row in self.base.execute(f"PRAGMA table_info({table})")}
        chosen = ", ".join(column if column in has else "NULL" for column in columns)
        return self.base.execute(f"SELECT {chosen} FROM {table}")  # noqa: S608 - names of ours

    def traces(self) -> list[Trace]:
        if not self.tables & {KERNEL, COPY, SET}:
            raise fault(self.file, "holds no kernels: it is no export of Nsight Systems, or nothing ran on a GPU")
        columns = {device: table.columns() for device, table in self._by_device().items()}
        steps = in_order(self._steps(), self.file)
        titles = {row[0]: str(row[1]) for row in self._rows(DEVICES, "id", "name")}
        return [
            self._trace(device, given, rank, len(columns), steps, titles)
            for rank, (device, given) in enumerate(columns.items())
        ]

    def _by_device(self) -> dict[Any, Table]:
        found: dict[Any, Table] = {}
        for name, start, end, device, stream, correlation in self._activities():
            began, ended = self._time(start, "start"), self._time(end, "end")
            if ended < began:
                raise fault(self.file, f"a row ends before it starts: {name[:60]}", KERNEL)
            launch = self.launches.get(correlation)
            launched = np.nan if launch is None else self._time(launch, "start")
            found.setdefault(device, Table("ddiid")).add(
                began, ended - began, self.names[name], self.streams[device, stream], launched
            )
        return dict(sorted(found.items(), key=lambda item: str(item[0])))

    def _activities(self) -> Iterable[tuple[Any, ...]]:
        own = ("start", "end", "deviceId", "streamId", "correlationId")
        for demangled, short, *row in self._rows(KERNEL, "demangledName", "shortName", *own):
            name = self.strings.get(demangled, self.strings.get(short, f"kernel {short}"))
            yield (str(name), *row)
        for title, table in (("Memcpy", COPY), ("Memset", SET)):
            for given in self._rows(table, *own):
                yield (title, *given)

    def _time(self, value: Any, what: str) -> float:
        time(value, NANO, what, self.file, "row")
        if self.origin is None:
            self.origin = value
        return float((value - self.origin) * NANO)

    def _steps(self) -> Iterable[Span]:
        for text, number, start, end in self._rows(RANGES, "text", "textId", "start", "end"):
            name = str(text if text is not None else self.strings.get(number, ""))
            if end is not None and STEP.match(name):
                yield Span(name, self._time(start, "start"), self._time(end, "end"))

    def _trace(
        self, device: Any, given: list[Any], rank: int, ranks: int, steps: tuple[Span, ...], titles: dict[Any, str]
    ) -> Trace:
        start, duration, name, stream, launched = given
        none = np.full(len(start), -1, np.int32)
        kernels = Kernels(start, duration, name, stream, launched, none, none)
        return Trace(
            f"{self.file}:device {device}" if ranks > 1 else self.file, "Nsight Systems", tuple(self.names), kernels,
            titles.get(device, ""), rank if ranks > 1 else None, ranks if ranks > 1 else None, steps=steps, events=len(start),
        )  # fmt: skip
