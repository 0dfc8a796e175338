"""What traces determined of a device, and what they left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.calibration.traces import determined
from perfmodel.reporting.calibration import calibration_report
from perfmodel.reporting.report import Section

if TYPE_CHECKING:
    from perfmodel.calibration.ops import Calibration
    from perfmodel.reporting.report import Report


def calibration_trace_report(calibration: Calibration) -> Report:
    """Fits with their errors, and which constants keep their old value and status."""
    report = calibration_report(calibration)
    rows = tuple(determined(calibration))
    section = Section("What the traces determine", ("operation", "precision", "constants"), rows)
    record = report.record | {
        "determined": [dict(zip(("op", "precision", "constants"), row, strict=True)) for row in rows]
    }
    return replace(report, record=record, sections=(section, *report.sections))
