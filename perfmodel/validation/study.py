"""Studies: folders of measured cases with citation and error budget."""

from __future__ import annotations

import csv
import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import validation_folder
from perfmodel.specs.measurement import Row, read_measurements
from perfmodel.validation.cases import unknown_names
from perfmodel.yamlfile import Spec, load, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def study_names() -> list[str]:
    """The studies of the library."""
    return sorted(path.parent.name for path in validation_folder().glob("*/cases.csv"))


def load_studies(names: Sequence[str] = ()) -> list[Study]:
    """All studies of the library, or those named; a name may also be a measurement CSV.

    Raises InputError with every fault of every file.
    """
    found: list[Study] = []
    problems: list[Problem] = []
    for name in names or study_names():
        try:
            found.append(_load(name))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return found


def _load(name: str) -> Study:
    if name in study_names():
        place = validation_folder() / name
        return _study(name, place / "cases.csv", f"validation/{name}/cases.csv")
    path = Path(name)
    if path.is_file():
        return _study(path.stem, path, name)
    hint = nearest(name, study_names()) or "; `perfmodel validate` without a name runs all"
    raise InputError([Problem(Place(name), "", f"no study of this name, and no such CSV file{hint}")])


def _study(name: str, cases: Path, shown: str) -> Study:
    rows = read_measurements(cases, shown)
    unknown = unknown_names(rows, cases.parent)
    if unknown:
        raise InputError(unknown)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.measurement.configuration, []).append(row)
    beside = cases.name == "cases.csv"
    skipped, budget = cases.parent / "skipped.csv", cases.parent / "budget.yaml"
    return Study(
        name,
        cases.parent,
        tuple(map(tuple, groups.values())),
        _skipped(skipped) if beside and skipped.is_file() else (),
        load(budget, Budget, f"validation/{name}/budget.yaml") if beside and budget.is_file() else None,
    )


def _skipped(path: Path) -> tuple[tuple[str, str], ...]:
    with path.open(encoding="utf-8", newline="") as stream:
        return tuple((row["id"], row["reason"]) for row in csv.DictReader(stream))
