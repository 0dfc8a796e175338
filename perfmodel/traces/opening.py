"""Files of any kind as streams of bytes: plain, gzipped or in a tar; what they expand to is bounded."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InputError, Place, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

GZIP, SQLITE = b"\x1f\x8b", b"SQLite format 3\x00"
TAR, TAR_AT = b"ustar", 257
FREE = 64 * 2**20
"""Bytes that a compressed file may expand to, however small it is."""
RATIO = 200
"""What JSON may expand to beyond that, for each byte of the file: traces reach 40, a bomb 1,000."""


def fault(file: str, message: str, place: str = "") -> InputError:
    """One line about a file."""
    return InputError([Problem(Place(file), place, message)])


@dataclass(frozen=True, slots=True)
class Source:
    """One trace: a file, or a member of an archive."""

    name: str
    path: Path
    stream: BinaryIO


class _Bounded(io.RawIOBase):
    """A stream that stops where it has expanded too far."""

    def __init__(self, inner: BinaryIO, raw: BinaryIO, file: str) -> None:
        super().__init__()
        self._inner, self._raw, self._file, self._read = inner, raw, file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        piece = self._inner.read(len(view))
        self._read += len(piece)
        if self._read > FREE + RATIO * self._raw.tell():
            raise fault(
                self._file, f"expands more than {RATIO} times, which no trace does; refused as a decompression bomb"
            )
        view[: len(piece)] = piece
        return len(piece)


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one line about it."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, tarfile.TarError) as error:
        raise fault(file, "is compressed, but damaged") from error
    except EOFError as error:
        raise fault(file, "is compressed, but cut off") from error
    except OSError as error:
        raise fault(file, f"cannot be read: {error.strerror or error}") from error


def sources(path: Path) -> Iterator[Source]:
    """The traces that a file holds; each must be read before the next is asked for.

    Raises InputError where it cannot be read, or expands beyond all measure.
    """
    file = str(path)
    with readable(file):
        if path.is_dir():
            raise fault(file, "is a directory; give the files in it")
        with path.open("rb") as raw:
            stream = _decompressed(raw, file)
            if stream.peek(TAR_AT + len(TAR))[TAR_AT : TAR_AT + len(TAR)] == TAR:
                yield from _members(stream, path)
            else:
                yield Source(file, path, stream)


def _decompressed(raw: BinaryIO, file: str) -> io.BufferedReader:
    magic = raw.read(len(GZIP))
    raw.seek(0)
    if magic != GZIP:
        return io.BufferedReader(raw, 2**20)  # type: ignore[arg-type]
    return io.BufferedReader(_Bounded(gzip.GzipFile(fileobj=raw), raw, file), 2**20)  # type: ignore[arg-type]


def _members(stream: io.BufferedReader, path: Path) -> Iterator[Source]:
    """Regular files that may be traces; macOS adds files that begin so: ._name."""
    found = False
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            inner = archive.extractfile(member) if member.isfile() else None
            if inner is not None and name.endswith((".json", ".et", ".pb")) and not name.startswith("._"):
                found = True
                yield Source(f"{path}:{member.name}", path, inner)  # type: ignore[arg-type]
    if not found:
        raise fault(str(path), "is an archive without traces (.json, .et, .pb)")


HEAD = 4096
"""Bytes at the beginning of a JSON trace that tell it from a report of ours."""
MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"nodes"', b'"workload_graph"')


def is_trace(path: Path) -> bool:
    """Whether a file looks like a profiler trace: by its name, or what a JSON begins with."""
    if path.suffix != ".json":
        return True
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD)
    except OSError:
        return False
    return any(mark in head for mark in MARKS)
