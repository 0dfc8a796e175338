"""Traces as one report: what they hold, and what the model says of it where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.reporting.trace import trace_report
from perfmodel.reporting.trace_model import comparison_report, comparison_sections, operators_record, operators_sections
from perfmodel.traces.operators import traced_operators
from perfmodel.traces.tree import compared

if TYPE_CHECKING:
    from perfmodel.reporting.report import Report
    from perfmodel.specs import Hardware
    from perfmodel.traces.job import TracedJob
    from perfmodel.traces.tree import Predicted


def traces_report(job: TracedJob, hardware: Hardware | None, predicted: Predicted | None, top: int = 10) -> Report:
    """The report of `perfmodel trace`.

    Args:
        job: the traces of one job.
        hardware: whose operator model is held against operators with shapes.
        predicted: a prediction to stand beside the mean step.
        top: kernels to list.
    """
    report = trace_report(job, top)
    if hardware is not None:
        found = traced_operators([one.trace for one in job.ranks], hardware.device)
        made = operators_record(found)
        report = replace(
            report, record=report.record | {"hardware": str(hardware.name), "operators": made}, rows=made["operators"] or report.rows,
            sections=(*report.sections, *operators_sections(found, hardware)),
        )  # fmt: skip
    if predicted is not None:
        rows = compared(predicted, job.ranks)
        beside = comparison_report(predicted, job, rows)
        report = replace(
            report, record=report.record | {"comparison": beside.record}, rows=beside.rows,
            sections=(*report.sections, *comparison_sections(predicted, rows)),
        )  # fmt: skip
    return report
