"""A trace beside the model: operators against the operator model, kinds of time against a saved prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import count, percent, quantity, share
from perfmodel.traces.classes import CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.specs import Hardware
    from perfmodel.traces.job import TracedJob
    from perfmodel.traces.operators import TracedOperator, TracedOperators
    from perfmodel.traces.tree import Compared, Predicted

MOST = 15
"""Operators and reasons that the table shows; JSON has all."""
LONG = 20e-6
"""Seconds from which the launch of a kernel no longer rules its time."""
OPERATORS = (
    "median, p90: absolute error of predicted over measured time of an operator with its shapes; bias: the median with its sign; predicted of "
    "measured: of all calls together. from 20 us: operators that take so long, which the launch does not rule."
)
KINDS = "exposed: what nothing hides; the differences are of exposed times and add up to that of the step. error: of predicted over measured time."


def operators_record(found: TracedOperators) -> dict[str, Any]:
    """The JSON of the operators, in SI units."""
    return {
        "covered": found.covered,
        "classes": [class_errors(kind, of_kind) for kind, of_kind in by_class(found)],
        "operators": [operator_row(one) for one in found.operators],
        "reasons": dict(found.reasons.most_common()),
    }


def by_class(found: TracedOperators) -> list[tuple[str, list[TracedOperator]]]:
    """Predicted operators of each class that occurs."""
    groups = [
        (kind, [one for one in found.operators if one.kind == kind and one.predicted is not None]) for kind in CLASSES
    ]
    return [(kind, given) for kind, given in groups if given]


def operator_row(one: TracedOperator) -> dict[str, Any]:
    """One distinct operator in plain values."""
    return {
        "operator": one.signature.op, "class": one.kind, "precision": one.measured.precision, "shapes": str(one.signature.dims),
        "calls": one.calls, "measured": one.time, "predicted": one.predicted, "error": one.error,
    }  # fmt: skip


def class_errors(kind: str, given: Sequence[TracedOperator]) -> dict[str, Any]:
    """Errors of one class."""
    errors = np.array([one.error for one in given])
    long = np.array([one.error for one in given if one.time >= LONG])
    total = sum(one.time * one.calls for one in given)
    return {
        "class": kind, "operators": len(given), "calls": sum(one.calls for one in given), "time": total,
        "median": float(np.median(np.abs(errors))), "p90": float(np.quantile(np.abs(errors), 0.9)), "bias": float(np.median(errors)),
        "long_operators": len(long), "long_median": float(np.median(np.abs(long))) if len(long) else None,
        "predicted_of_measured": sum((one.predicted or 0.0) * one.calls for one in given) / total if total else None,
    }  # fmt: skip


def operators_sections(found: TracedOperators, hardware: Hardware) -> tuple[Section, ...]:
    """Errors by class, the operators that take most, and what is not judged."""
    errors = tuple(
        (r["class"], count(r["operators"]), count(r["calls"]), percent(r["median"]), percent(r["p90"]), percent(r["bias"]),
         count(r["long_operators"]), percent(r["long_median"]), percent(r["predicted_of_measured"]))
        for r in (class_errors(kind, given) for kind, given in by_class(found))
    )  # fmt: skip
    header = ("class", "operators", "calls", "median", "p90", "bias", "from 20 us", "median", "predicted of measured")
    shown = tuple(
        (one.signature.op.removeprefix("aten::"), one.measured.precision, str(one.signature.dims)[:60], count(one.calls), quantity(one.time, "s"),
         "" if one.predicted is None else quantity(one.predicted, "s"), percent(one.error))
        for one in found.operators[:MOST]
    )  # fmt: skip
    left = tuple((quantity(time, "s"), reason) for reason, time in found.reasons.most_common(MOST))
    sections = (
        Section(f"Operators on {hardware.device.name}, in %", header, errors, frozenset(range(1, 9)),
                lead=f"{share(found.covered)} of the kernel time belongs to operators that the model has words for.", tail=OPERATORS),
        Section(f"Operators by time, {len(shown)} of {len(found.operators)}",
                ("operator", "precision", "shapes", "calls", "measured", "predicted", "error"), shown, frozenset({3, 4, 5, 6})),
        Section("Kernel time that is not judged", ("time", "reason"), left, frozenset({0})),
    )  # fmt: skip
    return tuple(section for section in sections if section.rows)


def comparison_report(predicted: Predicted, job: TracedJob, rows: Sequence[Compared]) -> Report:
    """Predicted and measured time by kind."""
    record = {
        "schema": 1, "prediction": predicted.name, "traces": [one.trace.file for one in job.ranks], "ranks": len(job.ranks),
        "kinds": [_row(one) for one in rows],
    }  # fmt: skip
    return Report(record, [_row(one) for one in rows], comparison_sections(predicted, rows), ())


def comparison_sections(predicted: Predicted, rows: Sequence[Compared]) -> tuple[Section, ...]:
    """The table of a comparison."""
    cells = tuple(
        (one.kind, *(quantity(v, "s") for v in (*one.predicted, *one.measured, one.difference)), percent(one.error))
        for one in rows
    )
    header = ("kind", "predicted", "exposed", "measured", "exposed", "difference", "error %")
    return (
        Section(
            f"A mean step beside the prediction of {predicted.name}", header, cells, frozenset(range(1, 7)), tail=KINDS
        ),
    )


def _row(one: Compared) -> dict[str, Any]:
    return {
        "kind": one.kind, "predicted": one.predicted[0], "predicted_exposed": one.predicted[1], "measured": one.measured[0],
        "measured_exposed": one.measured[1], "difference": one.difference, "error": one.error,
    }  # fmt: skip
