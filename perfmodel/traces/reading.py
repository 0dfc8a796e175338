"""Files of any known format -> traces, one for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel.errors import InputError, Problem
from perfmodel.traces.chakra import ExecutionTraceReader, read_chakra
from perfmodel.traces.jsonstream import JsonStream
from perfmodel.traces.kineto import KinetoReader
from perfmodel.traces.memorylog import MemoryReader
from perfmodel.traces.nsight import read_nsight
from perfmodel.traces.opening import SQLITE, Source, fault, readable, sources
from perfmodel.traces.xplane import read_xplane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from perfmodel.traces.trace import Trace

READERS = {"traceEvents": KinetoReader, "nodes": ExecutionTraceReader, "workload_graph": ExecutionTraceReader}
"""By the list that a JSON file holds."""


def read_traces(paths: Sequence[Path], progress: Callable[[int, int], None] | None = None) -> list[Trace]:
    """The traces of some files, one for each rank.

    Args:
        paths: Kineto JSON (plain, gzipped or in a tar), PyTorch or Chakra execution traces, Nsight Systems SQLite, XLA xplane.
        progress: told how many files are done, of how many.

    Raises InputError with the faults of all files.
    """
    traces: list[Trace] = []
    problems: list[Problem] = []
    for done, path in enumerate(paths):
        try:
            traces.extend(read_file(path))
        except InputError as error:
            problems.extend(error.problems)
        if progress:
            progress(done + 1, len(paths))
    if problems:
        raise InputError(problems)
    return traces


def read_file(path: Path) -> Iterator[Trace]:
    """The traces of one file; raises InputError where it is none."""
    for source in sources(path):
        with readable(source.name):
            yield from _read(source)


def _read(source: Source) -> list[Trace]:
    head = source.stream.read(64)
    if head.startswith(SQLITE):
        if source.name != str(source.path):
            raise fault(source.name, "is an SQLite file in an archive; extract it first")
        return read_nsight(source.path)
    rest = Source(source.name, source.path, _Begun(head, source.stream))  # type: ignore[arg-type]
    if source.name.removesuffix(".gz").endswith(".et"):
        return [read_chakra(rest)]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["} or not head.strip():
        return [_read_json(rest)]
    return read_xplane(rest)


def _read_json(source: Source) -> Trace:
    """Members before the events (header of the profiler) wait until the events tell what they belong to."""
    reader: Any = None
    waiting: list[tuple[str, Any]] = []
    for key, value in JsonStream(source.stream, source.name).members(READERS):
        if reader is None:
            waiting.append((key, value))
            kind = READERS.get(key) or (
                (MemoryReader if isinstance(value, list) else KinetoReader) if not key else None
            )
            if kind is None:
                continue
            reader = kind(source.name)
            for early in waiting:
                reader.take(*early)
        else:
            reader.take(key, value)
    if reader is None:
        held = ", ".join(key for key, _ in waiting[:5]) or "nothing"
        raise fault(source.name, f"is no trace: it has none of {', '.join(READERS)}, but {held}")
    trace: Trace = reader.trace()
    if not (len(trace.kernels) or len(trace.calls) or trace.memory):
        message = "holds no kernels, operators or memory; was it saved after the profiler's active steps, with on_trace_ready?"
        raise fault(source.name, message)
    return trace


class _Begun:
    """A stream of which the beginning was looked at."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int) -> bytes:
        """What was looked at, then the rest."""
        if not self._head:
            return bytes(self._stream.read(size))
        piece, self._head = self._head[:size], self._head[size:]
        return piece + bytes(self._stream.read(size - len(piece)))
