"""The public functions, by kind of question; the command line has one command for each.

What only one of them needs is imported when it is called, so that the command line starts fast.
"""

from __future__ import annotations

from perfmodel.api.calibration import (
    calibrate_collectives,
    calibrate_here,
    calibrate_jitter,
    calibrate_ops,
    calibrate_step,
    calibrate_trace,
)
from perfmodel.api.comparison import compare, compare_reports, compare_trace
from perfmodel.api.library import check, list_items, show
from perfmodel.api.planning import plan, solve
from perfmodel.api.prediction import (
    bubbles,
    explain,
    losses,
    operators,
    plot_pipeline,
    plot_roofline,
    predict,
    report,
    write_timeline,
)
from perfmodel.api.tracing import trace
from perfmodel.api.validation import validate, validate_systems, validate_tables

__all__ = [
    "bubbles",
    "calibrate_collectives",
    "calibrate_here",
    "calibrate_jitter",
    "calibrate_ops",
    "calibrate_step",
    "calibrate_trace",
    "check",
    "compare",
    "compare_reports",
    "compare_trace",
    "explain",
    "list_items",
    "losses",
    "operators",
    "plan",
    "plot_pipeline",
    "plot_roofline",
    "predict",
    "report",
    "show",
    "solve",
    "trace",
    "validate",
    "validate_systems",
    "validate_tables",
    "write_timeline",
]
