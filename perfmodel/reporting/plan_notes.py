"""What is to be said of a plan beside its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.planner.search import LEAD_ERROR
from perfmodel.reporting.layout_text import choices_text, layout_text
from perfmodel.reporting.text import count, quantity, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.planner.plan import Plan

SEEN = 0.005
"""Share of a step from which a difference to its simulation is told."""


def plan_notes(plan: Plan) -> Iterator[str]:
    """How many there were, how sure the first place is, and what to do where nothing fits."""
    yield f"{count(plan.evaluated)} candidates priced, of which {count(plan.feasible)} keep all bounds."
    if plan.rows and plan.objective in {"time", "throughput"}:
        yield from _ties(plan)
    yield from _simulated(plan)
    if plan.rows:
        assumed = [path for path, group in plan.plans[0].sourced.items() if group.status == "assumed"]
        if assumed:
            yield f"warning: groups of the hardware file that are assumed: {', '.join(assumed)}"
    elif plan.rescued:
        yield "With equal stages nothing keeps all bounds."
    elif plan.rejected:
        yield f"To mend it: {_mend(plan)}"
    elif plan.outcomes:
        yield "No layout keeps the rules; each example above says what would."


def _ties(plan: Plan) -> Iterator[str]:
    """How sure the first place is."""
    yield (
        f"{count(plan.ties)} of them are ties with the best: the model errs by {share(LEAD_ERROR)} in the ratio of two layouts' times."
    )
    row = plan.frugal
    if row is not None and row.memory < plan.rows[0].memory:
        named = ", ".join(filter(None, (layout_text(row.strategy), choices_text(row.strategy))))
        yield f"Of the ties, {named} needs least memory: {quantity(row.memory, 'B')} at {quantity(row.step_time, 's')}."


def _simulated(plan: Plan) -> Iterator[str]:
    """Where playing the passes changes the figures."""
    least = plan.plans[0].step_time if plan.plans else 0.0
    causes = {cause: time / least for cause, time in plan.differences.items()}
    whole = sum(causes.values())
    if abs(whole) >= SEEN:
        named = ", ".join(f"{cause} {100 * part:+.1f} %" for cause, part in causes.items() if abs(part) >= SEEN / 10)
        yield f"Simulated pass by pass, the step of the best plan differs from its closed form by {100 * whole:+.1f} %: {named}."
    times = [one.simulated for one in plan.finalists if one.simulated is not None]
    if len(times) > 1 and plan.objective in {"time", "throughput"} and len(times) == len(plan.finalists):
        first = int(np.argmin(times))
        if times[first] < times[0] * (1 - SEEN):
            yield f"Simulated, plan {first + 1} is the fastest: {quantity(times[first], 's')}."


def _mend(plan: Plan) -> str:
    """What the nearest plan lacks."""
    limit, value, _ = max(plan.rejected[0].broken, key=lambda each: each[2])
    if limit.figure == "memory.peak":
        missing = quantity(value - limit.bound, "B")
        return f"the nearest plan lacks {missing} on its fullest device; take more devices, a smaller sequence, or devices with more memory."
    if limit.figure.startswith("memory."):
        missing, tier = quantity(value - limit.bound, "B"), limit.figure.split(".")[1]
        what = "memory" if tier == "host" else "drives"
        return f"the nearest plan lacks {missing} of {what} on each host; offload less, take more hosts, or hosts with more."
    return f"relax {limit.text}, take another number of devices, or another machine."
