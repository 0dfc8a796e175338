"""Constants of a machine's tiers that were fitted to collectives, and how well they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel.calibration.document import TIMES
from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import percent, quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.calibration.tiers import FabricCalibration, TierFit

LEGEND = (
    "median, p90: absolute error in % on held-out measurements of 16 KiB to 4 GiB, which no constant was fitted to. "
    "A constant that the data do not determine keeps its value."
)


def fabric_report(calibration: FabricCalibration) -> Report:
    """Tiers with their errors, their constants, what the data did not tell, and the rows that do not count."""
    rows = [row for fit in calibration.fits for row in tier_rows(fit)]
    errors = tuple(
        (
            r["tier"],
            r["collective"],
            f"{r['points']:,}",
            f"{r['held_out']:,}",
            percent(r["median"]),
            percent(r["p90"]),
        )
        for r in rows
    )
    constants = tuple(
        (str(fit.name), key, _shown(key, value)) for fit in calibration.fits for key, value in fit.constants.items()
    )
    kept = tuple((str(fit.name), key, why) for fit in calibration.fits for key, why in fit.undetermined.items())
    left = tuple((str(n), reason) for reason, n in calibration.reasons.most_common())
    header = ("tier", "collective", "fitted", "held out", "median", "p90")
    sections = (
        Section(f"Fits to collectives on {calibration.hardware.name}", header, errors, frozenset(range(2, 6))),
        Section("Constants", ("tier", "constant", "value"), constants, frozenset({2})),
        Section("Not determined", ("tier", "constant", "why"), kept),
        Section("Rows that do not count", ("rows", "reason"), left, frozenset({0})),
    )
    record = {
        "schema": 1, "hardware": calibration.hardware.name, "reasons": dict(calibration.reasons),
        "tiers": [
            {"tier": str(fit.name), "points": fit.points, "held_out": fit.held_out, "constants": dict(fit.constants),
             "undetermined": dict(fit.undetermined), "errors": list(tier_rows(fit))}
            for fit in calibration.fits
        ],
    }  # fmt: skip
    return Report(record, rows, tuple(s for s in sections if s.rows), (LEGEND,))


def tier_rows(fit: TierFit) -> Iterator[dict[str, Any]]:
    """Errors of one tier in plain values, relative: of all collectives together, then of each."""
    about = {"tier": str(fit.name), "points": fit.points}
    if not fit.errors:
        yield about | {"collective": "all", "held_out": 0, "median": None, "p90": None}
    for name, (count, errors) in fit.errors.items():
        yield about | {"collective": name, "held_out": count, "median": errors.median, "p90": errors.p90}


def _shown(name: str, value: float) -> str:
    unit = TIMES.get(name, ("", 0.0))[0]
    return quantity(value, "B" if unit == "kB" else "s") if unit else f"{value:g}"
