"""Predict how fast a distributed deep-learning job runs, what memory, money and energy it takes.

>>> import perfmodel
>>> sorted(perfmodel.__all__)[:3]
['InputError', 'PerfModelError', 'bubbles']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmodel.api import (
        bubbles,
        calibrate_collectives,
        calibrate_here,
        calibrate_jitter,
        calibrate_ops,
        calibrate_step,
        calibrate_trace,
        check,
        compare,
        compare_reports,
        compare_trace,
        explain,
        list_items,
        losses,
        operators,
        plan,
        plot_pipeline,
        plot_roofline,
        predict,
        report,
        show,
        solve,
        trace,
        validate,
        validate_systems,
        validate_tables,
        write_timeline,
    )
    from perfmodel.errors import InputError, PerfModelError

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "PerfModelError",
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


def __getattr__(name: str) -> Any:
    """Import on first use, so that the command line starts fast."""
    if name not in __all__:
        raise AttributeError(f"module 'perfmodel' has no attribute {name!r}")
    from perfmodel import api, errors

    return getattr(errors if name.endswith("Error") else api, name)
