"""What the library holds, and whether files are sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Problem
from perfmodel.job import kind_of
from perfmodel.library import SPECS, Kind, document
from perfmodel.reporting.items import check_report, list_report, show_report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfmodel.reporting.report import Report


def list_items(kind: Kind | None = None) -> Report:
    """What the library holds, of one kind or of all."""
    return list_report([kind] if kind else list(SPECS))


def show(name: str | Path) -> Report:
    """One item of the library, or a YAML file, with the source of each value."""
    return show_report(kind_of(name), name)


def check(files: Sequence[str | Path]) -> Report:
    """Lint YAML files, or items of the library by name; raises InputError with the faults of all."""
    problems: list[Problem] = []
    checked: list[tuple[str, Kind]] = []
    for file in files:
        try:
            kind = kind_of(file)
            document(kind, file).validate(SPECS[kind])
            checked.append((str(file), kind))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return check_report(checked)
