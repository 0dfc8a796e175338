"""Hold the model against measurements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfmodel.reporting.report import Report


@dataclass(frozen=True, slots=True)
class Validation:
    """Outcome of a validation: the report, and whether every study was run and every budget kept."""

    report: Report
    passed: bool


def validate(
    studies: Sequence[str] = (),
    *,
    progress: Callable[[int, int], None] | None = None,
    update_budgets: bool = False,
    plot: str | Path | None = None,
    worst: int = 10,
) -> Validation:
    """Predict measured cases and compare.

    Args:
        studies: names of the library's studies, or measurement CSVs of your own; none is all of the library.
        progress: told how many configurations are done, of how many.
        update_budgets: write the errors reached as the new budgets, where they are lower.
        plot: a picture of measured against predicted times to write.
        worst: cases to list by name.

    Raises InputError with every fault of the files, by line and column name.
    """
    from perfmodel.reporting.plots import plot_validation, require_picture
    from perfmodel.reporting.validation import validation_report
    from perfmodel.validation.budgets import require_folders, tighten
    from perfmodel.validation.run import validate as judge
    from perfmodel.validation.study import load_studies

    loaded = load_studies(studies)
    if update_budgets:
        require_folders(loaded)
    if plot is not None:
        require_picture(Path(plot))
    judged = judge(loaded, progress)
    if update_budgets:
        tighten(judged)
    if plot is not None:
        plot_validation(judged, Path(plot))
    missing = len(loaded) - len(judged)
    passed = not missing and all(one.passed is not False for one in judged)
    return Validation(validation_report(judged, worst, missing=missing), passed)


def validate_systems(systems: Sequence[str] = (), *, progress: Callable[[int, int], None] | None = None) -> Validation:
    """Hold published systems to the figures, oracles and limits that they are checked against.

    Args:
        systems: names of folders of validation/systems; none is all.
        progress: told how many are done, of how many.

    Raises InputError with every fault of the files.
    """
    from perfmodel.reporting.systems import systems_report
    from perfmodel.validation.systems.judge import judge_systems
    from perfmodel.validation.systems.spec import load_systems

    judged = judge_systems(load_systems(systems), progress)
    return Validation(systems_report(judged), all(one.status != "failed" for one in judged))


def validate_tables(
    kind: Literal["ops", "collectives"], files: Sequence[str | Path], *, hardware: str | None = None
) -> Report:
    """Hold tables of kernels or of collectives against the model, per device and operation.

    Args:
        kind: of table.
        files: CSVs, plain or gzipped.
        hardware: the machine of all rows; default by the names of devices and systems in the tables.

    Raises InputError where a file is no such table.
    """
    from perfmodel.reporting.validation import tables_report
    from perfmodel.validation.collectives import COLLECTIVES
    from perfmodel.validation.ops import OPS
    from perfmodel.validation.tables import judge_tables

    kinds = OPS if kind == "ops" else COLLECTIVES
    return tables_report(judge_tables([Path(file) for file in files], kinds, hardware))
