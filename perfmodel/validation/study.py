"""Studies: folders of measured cases with citation and error budget."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from perfmodel.csvfile import read_csv
from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import validation_folder
from perfmodel.specs.measurement import HEADER, Row, read_measurements
from perfmodel.validation.cases import unknown_names
from perfmodel.yamlfile import Spec, load, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CASES, SKIPPED, BUDGET = "cases.csv", "skipped.csv", "budget.yaml"
"""Files of a study."""
OF_ONE_FIGURE = {
    "id",
    "source",
    "address",
    "table",
    "date",
    "metric",
    "value",
    "unit",
    "spread",
    "notes",
    "convention",
    "memory_figure",
    "memory_stage",
}
"""Columns in which rows of one configuration may differ."""


class Errors(Spec):
    """Absolute relative errors over some rows."""

    median: float = Field(ge=0)
    p90: float = Field(ge=0)


class Budget(Spec):
    """Errors that a study may not exceed; they only ever fall."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    rows: Literal["test", "calibration"]
    """The split that it judges; calibration where a study has no test rows."""
    limit: Errors
    reached: Errors | None = None
    """When the limit was last lowered."""
    date: dt.date
    """Of the last tightening."""


@dataclass(frozen=True, slots=True)
class Study:
    """Measured rows by configuration, and what the source holds that no row can say."""

    name: str
    folder: Path
    configurations: tuple[tuple[Row, ...], ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Rows of the source that cannot be written as a measurement: id and reason."""
    budget: Budget | None = None
    has_folder: bool = True
    """Whether it is a folder that a budget can stand in, and not a CSV of any name."""


def study_names() -> list[str]:
    """The studies of the library."""
    return sorted(path.parent.name for path in validation_folder().glob(f"*/{CASES}"))


def load_studies(names: Sequence[str] = ()) -> list[Study]:
    """All studies of the library, or those named; a name may also be a measurement CSV.

    Raises InputError with every fault of every file.
    """
    found: list[Study] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(names or study_names()):
        try:
            found.append(_load(name))
        except InputError as error:
            problems.extend(error.problems)
    if not (found or problems):
        problems.append(
            Problem(Place(str(validation_folder())), "", "holds no studies; name a measurement CSV of your own")
        )
    if problems:
        raise InputError(problems)
    return found


def _load(name: str) -> Study:
    if name in study_names():
        return _study(name, validation_folder() / name / CASES, f"validation/{name}")
    path = Path(name)
    if not path.is_file():
        hint = nearest(name, study_names()) or "; `perfmodel validate` without a name runs all"
        raise InputError([Problem(Place(name), "", f"no study of this name, and no such CSV file{hint}")])
    made = _study(path.resolve().parent.name if path.name == CASES else path.stem, path, str(path.parent))
    if not made.configurations:
        raise InputError([Problem(Place(name), "", "holds a header, but no rows")])
    return made


def _study(name: str, cases: Path, shown: str) -> Study:
    rows = read_measurements(cases, str(Path(shown) / cases.name))
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.measurement.configuration, []).append(row)
    problems = [*unknown_names(rows, cases.parent), *_mixed(groups.values())]
    if problems:
        raise InputError(sorted(problems, key=lambda p: p.place.line))
    beside = cases.name == CASES
    skipped, budget = cases.with_name(SKIPPED), cases.with_name(BUDGET)
    return Study(
        name,
        cases.parent,
        tuple(map(tuple, groups.values())),
        _skipped(skipped, str(Path(shown) / SKIPPED)) if beside and skipped.is_file() else (),
        load(budget, Budget, str(Path(shown) / BUDGET)) if beside and budget.is_file() else None,
        beside,
    )


def _mixed(configurations: Iterable[Sequence[Row]]) -> Iterator[Problem]:
    """Rows that claim to be of one configuration and are not: only the first would be predicted."""
    for first, *others in configurations:
        for row in others:
            for column in (name for name in HEADER if name not in OF_ONE_FIGURE):
                if getattr(row.measurement, column) != getattr(first.measurement, column):
                    line, name = first.place.line, row.measurement.configuration
                    message = (
                        f"differs from line {line}, which is of the same configuration {name!r}; give it another id"
                    )
                    yield Problem(row.place, column, message)


def _skipped(path: Path, shown: str) -> tuple[tuple[str, str], ...]:
    sheet = read_csv(path, shown)
    missing = [
        Problem(Place(shown, 1, 1), name, "this column is required")
        for name in ("id", "reason")
        if name not in sheet.header
    ]
    if missing or sheet.problems:
        raise InputError([*missing, *sheet.problems])
    return tuple((cells["id"], cells["reason"]) for _, cells in sheet.rows)
