"""A plan as a report; the keys of its JSON are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.planner.plan import Plan, Rejected, cost, objective_of
from perfmodel.planner.search import LEAD_ERROR, is_near
from perfmodel.reporting.plan_notes import plan_notes
from perfmodel.reporting.plan_sections import plan_sections
from perfmodel.reporting.prediction import record
from perfmodel.reporting.report import Report, flat

if TYPE_CHECKING:
    from perfmodel.planner.finalists import Finalist
    from perfmodel.planner.search import Row
    from perfmodel.prediction import Prediction
    from perfmodel.specs import Strategy

SCHEMA = 1
DEGREES = ("tp", "cp", "pp", "dp", "ep", "etp", "vpp", "microbatch")
CHOICES = ("sequence_parallel", "zero", "shard_group", "recompute", "schedule", "order", "stage_layers", "context")


def plan_report(plan: Plan) -> Report:
    """The best plans, those that nothing beats, the nearest that break a bound, and what the best hangs on."""
    rows = [_row(plan, index, made) for index, made in enumerate(plan.plans, start=1)]
    made = {
        "schema": SCHEMA, "objective": plan.objective, "evaluated": plan.evaluated, "feasible": plan.feasible,
        "elapsed": plan.elapsed, "ties": plan.ties, "lead_error": LEAD_ERROR,
        "plans": [_finalist(each) for each in plan.finalists], "differences": plan.differences, "pareto": [_point(row) for row in plan.front],
        "unequal": [_finalist(each) for each in plan.rescued],
        "rejected": [_rejected(each) for each in plan.rejected],
        "refused": [
            {"devices": o.question.devices, "hardware": str(o.question.hardware.name), "path": r.path, "layouts": r.layouts, "example": r.example}
            for o in plan.outcomes for r in o.refused
        ],
        "sensitivities": [{"path": s.path, "value": s.value, "elasticity": s.elasticity} for s in plan.sensitivities],
    }  # fmt: skip
    return Report(made, rows, tuple(plan_sections(plan)), tuple(plan_notes(plan)))


def _finalist(one: Finalist) -> dict[str, Any]:
    """A plan as `predict` records it, with its step as simulated."""
    other = one.unequal
    unequal = None if other is None else {
        "stage_layers": str(other.prediction.strategy.stage_layers), "step_time": other.prediction.step_time,
        "simulated": other.simulated, "memory": {"peak": other.prediction.memory_peak},
    }  # fmt: skip
    return {**record(one.prediction), "simulated": one.simulated, "unequal_stages": unequal}


def _row(plan: Plan, index: int, made: Prediction) -> dict[str, Any]:
    """One line of the CSV."""
    whole = flat(record(made))
    wanted = ("step_time", "mfu", "hfu", "memory.peak", "cost_per_step", "energy_per_step", "interval.low", "interval.high",
              "throughput.samples_per_second", "throughput.tokens_per_second")  # fmt: skip
    named = {name: whole[f"strategy.{name}"] for name in ("devices", *DEGREES, *CHOICES)}
    named["offload"] = str(made.strategy.keeps_off)
    tie = bool(is_near(np.array([objective_of(plan, made)]), objective_of(plan, plan.plans[0]))[0])
    return {
        "rank": index, "tie": tie, "hardware": str(made.hardware.name), **named,
        **{name: whole[name] for name in wanted},
    }  # fmt: skip


def _point(row: Row) -> dict[str, Any]:
    return {
        "hardware": str(row.question.hardware.name), "devices": row.question.devices, "strategy": _chosen(row.strategy),
        "step_time": row.step_time, "memory": {"peak": row.memory}, "cost_per_step": cost(row),
    }  # fmt: skip


def _chosen(strategy: Strategy) -> dict[str, Any]:
    return {name: getattr(strategy, name) for name in (*DEGREES, *CHOICES)}


def _rejected(one: Rejected) -> dict[str, Any]:
    worst = max(one.broken, key=lambda each: each[2])
    return {
        "hardware": str(one.prediction.hardware.name), "devices": int(one.prediction.devices),
        "strategy": _chosen(one.prediction.strategy), "step_time": one.prediction.step_time,
        "reason": worst[0].figure, "shortfall": abs(worst[1] - worst[0].bound), "excess": worst[2],
        "broken": [
            {"figure": limit.figure, "value": value, "relation": limit.relation, "bound": limit.bound, "excess": excess}
            for limit, value, excess in one.broken
        ],
    }  # fmt: skip
