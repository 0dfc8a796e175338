"""What whole steps determined of a machine, and what they left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import share

if TYPE_CHECKING:
    from perfmodel.calibration.steps import StepCalibration

READ = (
    "error: relative standard error of the constant, from the scatter of the rows; hangs on it: the mean relative change of a step for a "
    "relative change of the constant."
)


def calibration_step_report(made: StepCalibration) -> Report:
    """Constants with their errors, those that were kept with the reason, and the errors of steps before and after."""
    rows = [
        {"constant": one.knob.name, "before": one.before, "after": one.after, "error": one.error, "share": one.share}
        for one in made.turned
    ]
    record = {
        "schema": 1,
        "rows": made.points,
        "constants": rows,
        "kept": dict(made.kept),
        "errors": {split: {"rows": e.rows, "before": e.before, "after": e.after} for split, e in made.errors.items()},
        "reasons": dict(made.reasons),
    }
    fitted = tuple(
        (one.knob.name, f"{one.before:.4g}", f"{one.after:.4g}", share(one.error), share(one.share))
        for one in made.turned
    )
    errors = tuple((split, str(e.rows), share(e.before), share(e.after)) for split, e in made.errors.items())
    sections = (
        Section(f"Constants that {made.points} rows determine", ("constant", "before", "after", "error", "hangs on it"), fitted,
                frozenset({1, 2, 3, 4}), tail=READ),
        Section("Constants that keep their value and their status", ("constant", "why"), tuple(made.kept.items()), whole=frozenset({0})),
        Section("Median absolute error of the step", ("rows of the split", "rows", "before", "after"), errors, frozenset({1, 2, 3})),
        Section("Rows that do not count", ("rows", "why"), tuple((str(n), why) for why, n in made.reasons.most_common()), frozenset({0})),
    )  # fmt: skip
    return Report(record, rows, tuple(section for section in sections if section.rows))
