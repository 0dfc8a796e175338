"""The text that nccl-tests (and rccl-tests) print, as rows of a table of collectives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Place, Problem
from perfmodel.textfile import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Row = dict[str, str]
MAX_BYTES = 50_000_000
PROGRAM = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv)_perf\b")
RANK = re.compile(r"#\s+Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device")
RANKS = re.compile(r"#.*\bnranks[:\s]+(\d+)", re.IGNORECASE)
HEADER = re.compile(r"#\s+size\s+count\b")
DATA = re.compile(r"\s*\d+\s+\d+\s")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv")


@dataclass
class _Run:
    """What the comments of a log have said so far."""

    collective: str
    ranks: int = 0
    hosts: set[str] = field(default_factory=set)
    columns: tuple[str, ...] = ()
    headed: bool = False
    """Whether rows of this run have begun: the next rank is then of another run."""


def is_log(text: str) -> bool:
    """Whether a text is the output of nccl-tests: it has the header of its table."""
    return any(HEADER.match(line) for line in text.splitlines())


def read_log(path: Path, collective: str = "") -> tuple[list[tuple[Place, Row]], list[Problem]]:
    """Rows of one log, out of place and in place, and its faults.

    Args:
        path: the log.
        collective: which it is, where neither the log nor its name says so.
    """
    text = read_text(path, str(path), "nccl-tests", MAX_BYTES)
    named = PROGRAM.search(path.name)
    run = _Run(collective or (named[1] if named else ""))
    rows: list[tuple[Place, Row]] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        place = Place(str(path), number, 1)
        try:
            rows.extend((place, row) for row in _rows(line, run, place, fixed=bool(collective)))
        except InputError as error:
            problems.extend(error.problems)
    if not rows and not problems:
        problems.append(Problem(Place(str(path)), "", "holds no line of times, as nccl-tests prints them"))
    return rows, problems


def _rows(line: str, run: _Run, place: Place, *, fixed: bool) -> Iterator[Row]:
    if program := PROGRAM.search(line):
        run.collective = run.collective if fixed else program[1]
    if rank := RANK.match(line):
        if run.headed:
            run.ranks, run.hosts, run.headed = 0, set(), False
        run.ranks = max(run.ranks, int(rank[1]) + 1)
        run.hosts.add(rank[2])
    elif ranks := RANKS.match(line):
        run.ranks = int(ranks[1])
    elif HEADER.match(line):
        run.columns, run.headed = tuple(line.lstrip("# ").split()), True
    elif run.columns and DATA.match(line):
        yield from _times(line.split(), run, place)


def _times(cells: list[str], run: _Run, place: Place) -> Iterator[Row]:
    """The two times of one size: out of place, in place."""
    if not run.collective:
        message = "does not say which collective it is; name it with --collective: " + ", ".join(COLLECTIVES)
        raise InputError([Problem(place, "", message)])
    if not run.ranks:
        raise InputError([Problem(place, "", "comes before any line '#  Rank  0 ... on HOST device ...' of its run")])
    if len(cells) != len(run.columns):
        message = f"has {len(cells)} columns, but the header above it {len(run.columns)}: {' '.join(run.columns)}"
        raise InputError([Problem(place, "", message)])
    for column in (i for i, name in enumerate(run.columns) if name == "time"):
        if cells[column] == "N/A":
            continue
        yield {
            "collective": run.collective, "devices": str(run.ranks), "nodes": str(max(len(run.hosts), 1)),
            "bytes": cells[0], "time_us": _positive(cells[column], place), "library": "nccl-tests",
        }  # fmt: skip


def _positive(cell: str, place: Place) -> str:
    try:
        time = float(cell)
    except ValueError:
        time = 0.0
    if not 0 < time < float("inf"):
        raise InputError([Problem(place, "time", f"must be a number above 0, not {cell!r}")])
    return cell
