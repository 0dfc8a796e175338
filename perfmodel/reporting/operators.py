"""The kernels of a step by time, and where each stands under the roofline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmodel.cost.position import position
from perfmodel.reporting.prediction import prediction_report
from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import quantity, share

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

HEADER = ("kernel", "kind", "times", "time", "of step", "FLOP/B", "of peak", "of bandwidth", "bound by")
MOST = 40
"""Kernels that the table shows; JSON and CSV have all."""
LEGEND = (
    "times: how often it runs in a step. FLOP/B: floating-point operations for each byte of memory traffic. of peak, of bandwidth: "
    "what the kernel reaches. bound by: the longest of computing, moving bytes, handling elements one at a time, and the launch."
)


def operators_report(prediction: Prediction) -> Report:
    """A prediction with its kernels, longest first."""
    rows = operators(prediction)
    shown = tuple(_cells(row) for row in rows[:MOST])
    title = "Kernels by time" if len(rows) <= MOST else f"Kernels by time, {MOST} of {len(rows)}"
    section = Section(title, HEADER, shown, frozenset(range(2, 8)), frozenset({3}))
    base = prediction_report(prediction)
    return replace(
        base, record=base.record | {"operators": rows}, rows=rows, sections=(*base.sections, section),
        notes=(LEGEND, *base.notes),
    )  # fmt: skip


def operators(prediction: Prediction) -> list[dict[str, Any]]:
    """Each kernel with its total time and its position; messages and the host have none and are left out."""
    rows = []
    for term, time, exposed in prediction.terms:
        found = position(term)
        if found is not None:
            rows.append({
                "name": term.name, "kind": term.kind, "times": time / found.time, "time": time, "exposed": exposed,
                "share": exposed / prediction.step_time, "flops": found.flops, "traffic": found.traffic,
                "intensity": found.intensity if found.traffic else None, "flops_per_second": found.flops / found.time,
                "of_peak": found.of_peak if found.peak else None, "of_bandwidth": found.of_bandwidth,
                "bound": found.bound, **{f"factor_{name}": value for name, value in found.factors.items()},
            })  # fmt: skip
    return sorted(rows, key=lambda row: -row["time"])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    multiplies = row["of_peak"] is not None
    return (
        row["name"], row["kind"], f"{row['times']:,.0f}", quantity(row["time"], "s"), share(row["share"]),
        f"{row['intensity']:.0f}" if multiplies else "", share(row["of_peak"]) if multiplies else "",
        share(row["of_bandwidth"]), row["bound"],
    )  # fmt: skip
