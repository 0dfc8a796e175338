"""What the library holds, and whether files are sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Problem
from perfmodel.job import guess_kind, kind_of
from perfmodel.library import SPECS, Kind
from perfmodel.reporting.items import check_report, list_report, show_report
from perfmodel.yamlfile import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.reporting.report import Report


def list_items(kind: Kind | None = None) -> Report:
    """What the library holds, of one kind or of all."""
    return list_report([kind] if kind else list(SPECS))


def show(name: str | Path) -> Report:
    """One item of the library, or a YAML file, with the source of each value."""
    return show_report(kind_of(name), name)


def check(files: Sequence[str | Path]) -> Report:
    """Lint YAML files; raises InputError with the faults of all."""
    problems: list[Problem] = []
    checked: list[tuple[str, Kind]] = []
    for file in files:
        try:
            source = read(Path(file))
            kind = guess_kind(source) or "strategies"
            source.validate(SPECS[kind])
            checked.append((str(file), kind))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return check_report(checked)
