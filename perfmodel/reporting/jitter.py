"""What traces tell of delays."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import share

if TYPE_CHECKING:
    from perfmodel.calibration.jitter import Jitter

READ = (
    "quantiles: mean difference of the quantiles of the fit from those found, relative to the mean; slowest: expected slowest rank over the mean "
    "of a step. Ranks that have more to do count as slow: one job cannot tell the two apart."
)


def jitter_report(found: Jitter) -> Report:
    """Deviations, and each distribution with its error."""
    rows = [asdict(one) for one in found.forms]
    record = {
        "schema": 1, "ranks": found.ranks, "steps": found.steps, "times": found.times, "deviation": found.deviation,
        "between_steps": found.between_steps, "slowest": found.slowest, "error": found.error, "forms": rows,
    }  # fmt: skip
    seen = (
        ("ranks", str(found.ranks)), ("steps of each", str(found.steps)), ("deviation of ranks in a step", share(found.deviation)),
        ("deviation of whole steps", share(found.between_steps)), ("slowest rank over the mean", f"{found.slowest:.4f}"),
    )  # fmt: skip
    fits = tuple(
        (one.kind, f"{one.parameter} {one.value:.3g}", share(one.shape), f"{one.slowest:.4f}") for one in found.forms
    )
    sections = (
        Section("Time that ranks compute", ("what", "value"), seen, frozenset({1})),
        Section(
            "Distributions, best first",
            ("kind", "parameter", "quantiles", "slowest"),
            fits,
            frozenset({2, 3}),
            tail=READ,
        ),
    )
    return Report(record, rows, sections)
