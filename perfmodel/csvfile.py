"""CSV -> rows of text, each with its place; every fault at once.

The files are untrusted input: what a compressed one expands to is bounded.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Place, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 200_000_000
"""After decompression."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A file whose header is still to be judged."""

    header: tuple[str, ...]
    rows: tuple[tuple[Place, dict[str, str]], ...]
    """Without blank lines; a row stands where its first line does."""
    problems: tuple[Problem, ...]
    """Rows that are not as long as the header, and quotes that never end."""


def read_csv(path: Path, shown: str = "") -> Sheet:
    """Read a CSV, plain or gzipped; raises InputError where it is no text at all.

    Args:
        path: the file.
        shown: what faults call it; by default its path.
    """
    file = shown or str(path)
    rows: list[tuple[Place, dict[str, str]]] = []
    problems: list[Problem] = []
    header: tuple[str, ...] = ()
    for place, cells in _lines(_text(path, file), file, problems):
        if not header:
            header = tuple(cells)
        elif len(cells) == len(header):
            rows.append((place, dict(zip(header, cells, strict=True))))
        else:
            problems.append(Problem(place, "csv", f"has {_cells(len(cells))}, but the header has {len(header)}"))
    if not header and not problems:
        raise InputError([Problem(Place(file), "", "is empty")])
    return Sheet(header, tuple(rows), tuple(problems))


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"


def _lines(text: str, file: str, problems: list[Problem]) -> Iterator[tuple[Place, list[str]]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    first = 1
    try:
        for cells in reader:
            if cells:
                yield Place(file, first, 1), cells
            first = reader.line_num + 1
    except csv.Error as error:
        unended = str(error) == "unexpected end of data"
        problems.append(
            Problem(Place(file, first, 1), "csv", "a quote is opened and never closed" if unended else str(error))
        )


def _text(path: Path, file: str) -> str:
    def refuse(message: str) -> InputError:
        return InputError([Problem(Place(file), "", message)])

    try:
        if path.is_dir():
            raise refuse("is a directory, not a CSV file")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise refuse(f"holds more than {MAX_BYTES / 1e6:.0f} MB, too large for a table")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(f"is no UTF-8 text (byte {error.start})") from error
    except gzip.BadGzipFile as error:
        raise refuse("is not compressed by gzip, as its name says") from error
    except (EOFError, zlib.error) as error:
        raise refuse("is compressed, but damaged or cut off") from error
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror or error}") from error
