"""What was fitted, and how well it does beside simple forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel.calibration.fit import RIVALS
from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import percent, quantity

if TYPE_CHECKING:
    from perfmodel.calibration.fit import Errors, Fit
    from perfmodel.calibration.ops import Calibration

LEGEND = (
    "median, p90: absolute error in % on held-out timings, which no constant was fitted to; then the medians of two simple "
    "forms on the same timings. The launch time of products is that of the device, that of other kernels is the harness's."
)


def calibration_report(calibration: Calibration) -> Report:
    """Fits with their errors, their constants, and the rows that do not count."""
    rows = [fit_row(fit) for fit in calibration.fits]
    header = ("operation", "precision", "fitted", "held out", "median", "p90", *RIVALS)
    errors = tuple(
        (r["op"], r["precision"], f"{r['points']:,}", f"{r['held_out']:,}", *(percent(r[k]) for k in ("median", "p90", *RIVALS)))
        for r in rows
    )  # fmt: skip
    constants = tuple(
        (fit.op, fit.precision, name, quantity(value, "s") if name.endswith("time") else f"{value:g}")
        for fit in calibration.fits
        for name, value in {**fit.constants, "launch time": fit.launch}.items()
    )
    left = tuple((str(n), reason) for reason, n in calibration.reasons.most_common())
    right = frozenset(range(2, len(header)))
    sections = (
        Section(f"Fits to timings of {calibration.device.name}", header, errors, right),
        Section("Constants", ("operation", "precision", "constant", "value"), constants, frozenset({3})),
        Section("Rows that do not count", ("rows", "reason"), left, frozenset({0})),
    )
    record = {"schema": 1, "device": calibration.device.name, "fits": rows, "reasons": dict(calibration.reasons)}
    csv_rows = [{k: v for k, v in row.items() if k != "constants"} for row in rows]
    return Report(record, csv_rows, tuple(s for s in sections if s.rows), (LEGEND,))


def fit_row(fit: Fit) -> dict[str, Any]:
    """One fit in plain values; errors are relative."""
    return {
        "op": fit.op, "precision": fit.precision, "points": fit.points, "held_out": fit.held_out,
        "median": _number(fit.errors, "median"), "p90": _number(fit.errors, "p90"),
        **{name: _number(fit.rivals.get(name), "median") for name in RIVALS},
        "launch": fit.launch, "constants": dict(fit.constants),
    }  # fmt: skip


def _number(errors: Errors | None, name: str) -> float | None:
    return None if errors is None else getattr(errors, name)
