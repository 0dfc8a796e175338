"""Tables of kernels and of collectives: columns of sizes and times, by device and by system.

A table is read by its header; `validation/machines.yaml` says which hardware file a device's or a
system's name means. Rows that no kernel of ours expresses are counted with their reason.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import find, validation_folder
from perfmodel.validation.cases import Outcome
from perfmodel.yamlfile import Spec, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfmodel.specs import Hardware

Row = dict[str, str]


class Machines(Spec):
    """Which hardware file a name in a table means."""

    devices: dict[str, str]
    """Of kernel tables: exact names of devices."""
    systems: dict[str, str]
    """Of collective tables: how the name of a system begins."""


class InexpressibleError(Exception):
    """A row that the model has no words for."""


@dataclass(frozen=True, slots=True)
class Table:
    """How rows of one kind of table are judged."""

    header: frozenset[str]
    """Columns that tell it from others."""
    group: Callable[[Row], str]
    """The line of the report that a row belongs to."""
    machine: Callable[[Row], str | None]
    predict: Callable[[Row, Hardware], float]


def judge_table(path: Path, table: Sequence[Table], hardware: str | None = None) -> list[Outcome]:
    """Every row of a CSV (plain or gzipped), predicted where the model can.

    Args:
        path: the file.
        table: the kinds of table that it may be.
        hardware: the machine of all rows, whatever they say; default by `validation/machines.yaml`.

    Raises InputError where the header fits no kind, or a number is no number.
    """
    header, rows = _read(path)
    kind = next((t for t in table if t.header <= set(header)), None)
    if kind is None:
        wanted = " or ".join(", ".join(sorted(t.header)) for t in table)
        raise InputError([Problem(Place(str(path), 1, 1), "csv", f"needs the columns {wanted}")])
    outcomes: list[Outcome] = []
    problems: list[Problem] = []
    for line, row in rows:
        try:
            outcomes.append(_judge(kind, row, f"{path.name}:{line}", hardware))
        except ValueError as error:
            problems.append(Problem(Place(str(path), line, 1), "csv", str(error)))
    if problems:
        raise InputError(problems[:20])
    return outcomes


def _judge(kind: Table, row: Row, name: str, hardware: str | None) -> Outcome:
    machine = hardware or kind.machine(row)
    measured = float(row["time_us"] or 0) * 1e-6
    predicted, reason = None, ""
    try:
        predicted = _predict(kind, row, machine, measured)
    except InexpressibleError as error:
        reason = str(error)
    return Outcome(
        name, kind.group(row), kind.group(row), machine or "", "step_time", row.get("split") or "calibration",
        measured, predicted, "inexpressible" if predicted is None else "counted", reason,
    )  # fmt: skip


def _predict(kind: Table, row: Row, machine: str | None, measured: float) -> float:
    if measured <= 0:
        raise InexpressibleError("no time given")
    if machine is None:
        raise InexpressibleError(f"no hardware file for {row.get('hardware') or row.get('device')}")
    return float(kind.predict(row, _hardware(machine)))


@lru_cache
def _hardware(name: str) -> Any:
    return find("hardware", name)


@lru_cache
def machines() -> Machines:
    """The names that tables use."""
    return load(validation_folder() / "machines.yaml", Machines, "validation/machines.yaml")


def _read(path: Path) -> tuple[list[str], Iterator[tuple[int, Row]]]:
    opener: Any = gzip.open if path.suffix == ".gz" else Path.open
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            rows = [(reader.line_num, row) for row in reader]
            return list(reader.fieldnames or ()), iter(rows)
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        raise InputError([Problem(Place(str(path)), "", f"cannot be read: {error}")]) from error
