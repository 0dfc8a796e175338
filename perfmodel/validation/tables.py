"""Tables of kernels and of collectives: columns of sizes and times, by device and by system.

A table is read by its header; `validation/machines.yaml` says which hardware file a device's or a
system's name means. Rows that no kernel of ours expresses are counted with their reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import Field

from perfmodel.csvfile import Sheet, read_csv
from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import find, validation_folder
from perfmodel.units import Seconds
from perfmodel.validation.cases import Outcome
from perfmodel.yamlfile import Spec, load, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perfmodel.specs import Hardware

Row = dict[str, str]
LARGEST = 1e18
MOST_FAULTS = 20
"""Lines of one file that are shown."""


class Machines(Spec):
    """Which hardware file a name in a table means."""

    devices: dict[str, str]
    """Of kernel tables: exact names of devices."""
    systems: dict[str, str]
    """Of collective tables: how the name of a system begins."""
    harness: dict[str, Seconds] = Field(default_factory=dict)
    """What timing adds to a kernel, by how the name of a source begins: events around an eager launch."""

    libraries: dict[str, str] = Field(default_factory=dict)
    """Of collective tables: under which name the tiers keep the constants of a library that is not the usual one, by how
    the name of the source or of the library begins."""
    parts: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Collectives of which a table's bytes are one rank's part, by how the name of the source begins."""

    foreign: tuple[str, ...] = ()
    """Of collective tables: libraries whose constants no tier keeps, by how their names begin."""
    unlike: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Collectives whose times hold more than the collective, by how the name of the source begins."""

    def library_of(self, row: Row) -> str:
        """The name of a row's library in the tiers; empty where it is the usual one."""
        names = (row.get("source", ""), row.get("library", ""))
        return next((kept for prefix, kept in self.libraries.items() if any(n.startswith(prefix) for n in names)), "")

    def parts_of(self, row: Row) -> tuple[str, ...]:
        """Collectives of which a row's bytes are one rank's part."""
        return _of_source(self.parts, row)

    def unlike_of(self, row: Row) -> tuple[str, ...]:
        """Collectives whose times hold more than the collective."""
        return _of_source(self.unlike, row)

    def harness_of(self, row: Row) -> float:
        """What the harness of a row's source adds to each of its times."""
        source = row.get("source", "")
        return next((float(time) for prefix, time in self.harness.items() if source.startswith(prefix)), 0.0)


def _of_source(named: dict[str, tuple[str, ...]], row: Row) -> tuple[str, ...]:
    source = row.get("source", "")
    return next((names for prefix, names in named.items() if source.startswith(prefix)), ())


class InexpressibleError(Exception):
    """A row that the model has no words for."""


class CellError(Exception):
    """A cell that holds no such value."""

    def __init__(self, column: str, message: str) -> None:
        """Keep both for the line that the author reads."""
        super().__init__(column, message)
        self.column, self.message = column, message


@dataclass(frozen=True, slots=True)
class Table:
    """How rows of one kind of table are judged."""

    header: frozenset[str]
    """Columns that tell it from others."""
    group: Callable[[Row], str]
    """The line of the report that a row belongs to."""
    machine: Callable[[Row], str | None]
    predict: Callable[[Row, Hardware], float]
    seconds: Callable[[Row], float]
    """The measured time of a row; 0 where none is given."""


def number(row: Row, column: str, default: float | None = None) -> float:
    """A cell as a number; raises InexpressibleError where it is empty and has no default, CellError where it is none."""
    text = row.get(column) or ""
    if not text:
        if default is None:
            raise InexpressibleError(f"no {column} given")
        return default
    try:
        value = float(text)
    except ValueError:
        raise CellError(column, f"must be a number, not {text!r}") from None
    if not 0 <= value <= LARGEST:
        raise CellError(
            column, "must not be negative" if value < 0 else f"must be a number up to {LARGEST:g}, not {text!r}"
        )
    return value


def size(row: Row, column: str, default: float | None = None) -> float:
    """How much of something there is: a number of at least 1; raises InexpressibleError where it is 0."""
    value = number(row, column, default)
    if not value:
        raise InexpressibleError(f"{column} is 0")
    if value < 1:
        raise CellError(column, f"must be at least 1, not {row[column]!r}")
    return value


def judge_tables(paths: Sequence[Path], kinds: Sequence[Table], hardware: str | None = None) -> list[Outcome]:
    """Every row of some CSVs (plain or gzipped), predicted where the model can.

    Args:
        paths: the files.
        kinds: of table that they may be.
        hardware: the machine of all rows, whatever they say; default by `validation/machines.yaml`.

    Raises InputError with the faults of all files: a header that fits no kind, a number that is no number.
    """
    if not paths:
        raise InputError([Problem(Place("FILE"), "", "is missing: a table, as CSV or CSV.gz")])
    outcomes: list[Outcome] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            outcomes.extend(_table(path, kinds, hardware))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return outcomes


def read_table(path: Path, kinds: Sequence[Table]) -> tuple[Sheet, Table]:
    """A file and the kind of table that it is; raises InputError where it is none of them."""
    sheet = read_csv(path)
    header = set(sheet.header)
    kind = next((t for t in kinds if t.header <= header), None)
    if kind is None:
        lacks = min((t.header - header for t in kinds), key=len)
        message = (
            f"is no table of a kind that is known here; the nearest also has the columns {', '.join(sorted(lacks))}"
        )
        raise InputError([Problem(Place(str(path), 1, 1), "", message)])
    return sheet, kind


def _table(path: Path, kinds: Sequence[Table], hardware: str | None) -> list[Outcome]:
    sheet, kind = read_table(path, kinds)
    outcomes: list[Outcome] = []
    problems = list(sheet.problems)
    for place, row in sheet.rows:
        try:
            outcomes.append(_judge(kind, row, f"{path.name}:{place.line}", hardware))
        except CellError as error:
            problems.append(Problem(place, error.column, error.message))
    if problems:
        raise InputError(sorted(problems, key=lambda p: p.place.line)[:MOST_FAULTS])
    return outcomes


def _judge(kind: Table, row: Row, name: str, hardware: str | None) -> Outcome:
    machine = hardware or kind.machine(row)
    measured, predicted, reason = 0.0, None, ""
    try:
        measured = kind.seconds(row)
        predicted = _predict(kind, row, machine, measured)
    except InexpressibleError as error:
        reason = str(error)
    return Outcome(
        name, kind.group(row), kind.group(row), machine or "", "step_time", row.get("split") or "calibration",
        measured, predicted, "inexpressible" if predicted is None else "counted", reason,
    )  # fmt: skip


def _predict(kind: Table, row: Row, machine: str | None, measured: float) -> float:
    if not measured:
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


def machine_of(device: str | None) -> str:
    """The hardware file of a device's name in tables; raises InputError where none is known."""
    known = machines().devices
    if device in known:
        return known[device]
    if not device:
        raise InputError([Problem(Place("--hardware"), "", "name the machine, or by --device a device of the tables")])
    hint = nearest(device, known)
    message = f"no hardware file is known for this device{hint}; name one with --hardware"
    raise InputError([Problem(Place("--device"), device or "", message)])
