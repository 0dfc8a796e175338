"""Systems with their checks, as a table and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import quantity

PRINTED = 1e-4
"""A tolerance below this is that of the printed digits, which the value shows."""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.validation.systems.judge import JudgedSystem, Result


def systems_report(judged: Sequence[JudgedSystem]) -> Report:
    """One line for each system; in JSON each is a study with its checks as cases."""
    header = ("entry", "system", "how it is expressed", "published", "ours", "status")
    rows = tuple(
        (one.system.entry, one.system.name, one.system.expressed, *_figures(one), one.status) for one in judged
    )
    sections = [Section("Systems", header, rows, frozenset(), frozenset({0}))]
    failed = [(one, result) for one in judged for result in one.results if not result.passed]
    if failed:
        lines = tuple(
            (one.name, result.check.what, _expected(result), _numbers(result.ours, result.check.unit)) for one, result in failed
        )  # fmt: skip
        sections.append(Section("Checks that fail", ("system", "check", "published", "ours"), lines))
    counts = {
        status: sum(one.status == status for one in judged) for status in ("passed", "no figure readable", "failed")
    }
    note = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    limits = sum(result.check.kind == "limit" for one in judged for result in one.results)
    studies = [_study(one) for one in judged]
    return Report(
        {"studies": studies},
        [case | {"system": study["name"]} for study in studies for case in study["cases"]],
        tuple(sections),
        (f"{len(judged)} systems: {note}; {limits} limits and orderings among their checks",),
    )


def _figures(one: JudgedSystem) -> tuple[str, str]:
    head, limits = one.headline, [r for r in one.results if r.check.kind == "limit"]
    if head.check.kind != "limit":
        return f"{head.check.what}: {_expected(head)}", _numbers(head.ours, head.check.unit)
    held = sum(result.passed for result in limits)
    return one.system.figure or "none", f"{held} of {len(limits)} limits hold"


def _expected(result: Result) -> str:
    check = result.check
    if check.value is not None:
        value = check.value if isinstance(check.value, tuple) else (check.value,)
        within = f" (within {100 * check.tolerance:.3g} %)" if check.tolerance > PRINTED else ""
        return _numbers(value, check.unit) + within
    ends = [
        f"{word} {end:.4g}"
        for word, end in (("at least", check.at_least), ("at most", check.at_most))
        if end is not None
    ]
    return " and ".join(ends) + (f" {check.unit}" if check.unit else "")


def _numbers(values: Sequence[float], unit: str) -> str:
    if unit in {"B/s", "FLOP/s", "B", "s"}:
        return " ".join(quantity(value, unit) for value in values)
    shown = " ".join(f"{value:.6g}" for value in values)
    return f"{shown} {unit}".strip()


def _study(one: JudgedSystem) -> dict[str, Any]:
    errors = sorted(result.error for result in one.results if result.error is not None and math.isfinite(result.error))
    return {
        "name": one.name, "entry": one.system.entry, "title": one.system.name, "expressed": one.system.expressed,
        "files": list(one.system.files), "figure": one.system.figure, "status": one.status, "passed": one.status != "failed",
        "worst": errors[-1] if errors else None, "sources": dict(one.system.sources), "cases": [_case(r) for r in one.results],
    }  # fmt: skip


def _case(result: Result) -> dict[str, Any]:
    check = result.check
    return {
        "id": check.what, "kind": check.kind, "quantity": check.quantity,
        "published": list(check.value) if isinstance(check.value, tuple) else check.value, "at_least": check.at_least,
        "at_most": check.at_most, "ours": list(result.ours) if len(result.ours) > 1 else result.ours[0], "unit": check.unit,
        "error": result.error, "tolerance": check.tolerance, "passed": result.passed, "source": check.source,
    }  # fmt: skip
