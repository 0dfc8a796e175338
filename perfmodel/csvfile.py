"""CSV -> rows of text, each with its place; every fault at once."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Place, Problem
from perfmodel.textfile import read_text

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
    for place, cells in _lines(read_text(path, file, "CSV", MAX_BYTES), file, problems):
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
