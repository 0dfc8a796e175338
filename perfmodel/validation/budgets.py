"""Budgets that only ever fall."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Place, Problem
from perfmodel.validation.study import BUDGET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.validation.run import Judged
    from perfmodel.validation.study import Study

STEPS = 200
"""A limit is the error that was reached, rounded up to half a percent: room for a change that helps elsewhere."""
LEAST_ROWS = 8
"""A new budget needs as many judged rows: the median of fewer is an accident."""


def require_folders(studies: Sequence[Study]) -> None:
    """Raise InputError where a study is a CSV that no budget belongs to."""
    message = "has no budget; a measurement CSV has one where it is called cases.csv and stands in a folder of its own"
    problems = [Problem(Place("--update-budgets"), study.name, message) for study in studies if not study.has_folder]
    if problems:
        raise InputError(problems)


def tighten(judged: Sequence[Judged], today: dt.date | None = None) -> list[str]:
    """Write budget.yaml for studies that have none, or did better than theirs; the names of those.

    A limit that was missed stays as it is: it never rises.
    """
    return [one.study.name for one in judged if _tighten(one, today or dt.datetime.now(dt.UTC).date())]


def _tighten(one: Judged, today: dt.date) -> bool:
    old = one.study.budget
    rows = old.rows if old else one.judged_rows
    reached = one.errors(rows)
    if reached is None or (old is None and reached.cases < LEAST_ROWS):
        return False
    median, p90 = _up(reached.median), _up(reached.p90)
    if old:
        median, p90 = min(median, old.limit.median), min(p90, old.limit.p90)
        if (median, p90) == (old.limit.median, old.limit.p90):
            return False
    lines = (
        "schema: 1", f"rows: {rows}", f"limit: {{median: {median:g}, p90: {p90:g}}}",
        f"reached: {{median: {reached.median:.4f}, p90: {reached.p90:.4f}}}", f'date: "{today.isoformat()}"',
    )  # fmt: skip
    path = one.study.folder / BUDGET
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            [Problem(Place("--update-budgets"), str(path), f"cannot be written: {error.strerror}")]
        ) from error
    return True


def _up(value: float) -> float:
    """Rounded up, so that the run that set a limit keeps it."""
    return math.ceil(value * STEPS - 1e-9) / STEPS
