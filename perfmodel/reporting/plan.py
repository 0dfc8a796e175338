"""A plan as a report; the keys of its JSON are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.planner.limits import FIGURES, OBJECTIVES
from perfmodel.planner.plan import Plan, Rejected, cost, objective_of
from perfmodel.planner.search import LEAD_ERROR, is_near
from perfmodel.reporting.prediction import record
from perfmodel.reporting.report import Report, Section, flat
from perfmodel.reporting.text import count, quantity, share
from perfmodel.specs import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.planner.finalists import Finalist
    from perfmodel.planner.search import Row
    from perfmodel.prediction import Prediction

SCHEMA = 1
SHOWN = 10
"""Rows of a table of which the JSON has all."""
SEEN = 0.005
"""Share of a step from which a difference to its simulation is told."""
LEGEND = (
    "pp 4x2: 2 chunks on each of 4 stages; mb: microbatch; sp: sequence parallel; zero 3 over 8: shards in groups of 8."
)
DEGREES = ("tp", "cp", "pp", "dp", "ep", "etp", "vpp", "microbatch")
CHOICES = ("sequence_parallel", "zero", "shard_group", "recompute", "schedule", "order", "stage_layers")


def plan_report(plan: Plan) -> Report:
    """The best plans, those that nothing beats, the nearest that break a bound, and what the best hangs on."""
    rows = [_row(plan, index, made) for index, made in enumerate(plan.plans, start=1)]
    made = {
        "schema": SCHEMA, "objective": plan.objective, "evaluated": plan.evaluated, "feasible": plan.feasible,
        "elapsed": plan.elapsed, "ties": plan.ties, "lead_error": LEAD_ERROR,
        "plans": [_finalist(each) for each in plan.finalists], "differences": plan.differences, "pareto": [_point(row) for row in plan.front],
        "rejected": [_rejected(each) for each in plan.rejected],
        "refused": [
            {"devices": o.question.devices, "hardware": str(o.question.hardware.name), "path": r.path, "layouts": r.layouts, "example": r.example}
            for o in plan.outcomes for r in o.refused
        ],
        "sensitivities": [{"path": s.path, "value": s.value, "elasticity": s.elasticity} for s in plan.sensitivities],
    }  # fmt: skip
    return Report(made, rows, tuple(_sections(plan)), tuple(_notes(plan)))


def _finalist(one: Finalist) -> dict[str, Any]:
    """A plan as `predict` records it, with its step as simulated."""
    other = one.unequal
    unequal = None if other is None else {
        "stage_layers": str(other.prediction.strategy.stage_layers), "step_time": other.prediction.step_time,
        "simulated": other.simulated, "memory": {"peak": other.prediction.memory_peak},
    }  # fmt: skip
    return {**record(one.prediction), "simulated": one.simulated, "unequal_stages": unequal}


def layout_text(strategy: Strategy) -> str:
    """The degrees of a plan in one word each.

    >>> from perfmodel.specs import Strategy
    >>> layout_text(Strategy(tp=8, pp=4, vpp=2, dp=16, microbatch=2))
    'tp 8 pp 4x2 dp 16 mb 2'
    """
    s = strategy
    stages = f"pp {s.pp}x{s.vpp}" if s.vpp > 1 else f"pp {s.pp}"
    named = {"tp": f"tp {s.tp}", "cp": f"cp {s.cp}", "pp": stages, "dp": f"dp {s.dp or 1}", "ep": f"ep {s.ep}"}
    degrees = [text for name, text in named.items() if (getattr(s, name) or 1) > 1]
    split = [f"etp {s.etp}"] if (s.etp or s.tp) != s.tp else []
    return " ".join([*degrees, *split, f"mb {s.microbatch}"])


def choices_text(strategy: Strategy) -> str:
    """The structural choices of a plan that are not the plainest.

    >>> from perfmodel.specs import Strategy
    >>> choices_text(Strategy(zero=1, sequence_parallel=True, recompute="full"))
    'sp, zero 1, recompute full'
    """
    s = strategy
    parts = ["sp"] if s.sequence_parallel else []
    if s.zero:
        parts.append(f"zero {s.zero}" + (f" over {s.shard_group}" if s.shard_group else ""))
    parts += [f"recompute {s.recompute}"] if s.recompute != "none" else []
    plain = Strategy()
    parts += [str(getattr(s, name)) for name in ("schedule", "order", "stage_layers")
              if getattr(s, name) != getattr(plain, name)]  # fmt: skip
    parts += [f"offload {s.offload}"] if s.keeps_off.tiers else []
    return ", ".join(parts)


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


def _sections(plan: Plan) -> Iterator[Section]:
    if plan.rows:
        yield _best(plan)
        yield from _unequal(plan)
        yield _front(plan)
        yield _hangs_on(plan)
    if plan.rejected and not plan.rows:
        yield _nearest(plan)
    refused = [(o, r) for o in plan.outcomes for r in o.refused]
    if refused and not plan.evaluated:
        rows = tuple((_where(plan, o.question), r.path, count(r.layouts), r.example) for o, r in refused)
        yield Section("Layouts that rules refuse", ("", "rule", "layouts", "for example"), rows, frozenset({2}))


def _several(plan: Plan) -> bool:
    return len(plan.outcomes) > 1


def _where(plan: Plan, question: Any) -> str:
    return f"{count(question.devices)} {question.hardware.name}" if _several(plan) else ""


def _best(plan: Plan) -> Section:
    name = OBJECTIVES[plan.objective][0]
    least = abs(objective_of(plan, plan.plans[0]))
    table = []
    piped = any(row.strategy.pp > 1 for row in plan.rows)
    for index, (row, one) in enumerate(zip(plan.rows, plan.finalists, strict=True), start=1):
        made = one.prediction
        behind = abs(abs(objective_of(plan, made)) / least - 1)
        lead = "" if index == 1 else f"+{share(behind)}"
        machine = (_where(plan, row.question),) if _several(plan) else ()
        table.append((
            str(index), *machine, layout_text(row.strategy), choices_text(row.strategy), quantity(made.step_time, "s"), lead,
            *((_played(one),) if piped else ()), share(made.mfu()), quantity(made.memory_peak, "B"), *(() if made.cost is None else (quantity(made.cost, "USD"),)),
        ))  # fmt: skip
    priced = plan.plans[0].cost is not None
    machine_header = ("devices",) if _several(plan) else ()
    header = (
        "",
        *machine_header,
        "layout",
        "choices",
        "step time",
        "behind",
        *(("simulated",) if piped else ()),
        "MFU",
        "memory",
        *(("cost",) if priced else ()),
    )
    shift = len(machine_header)
    return Section(
        _title(plan), header, tuple(row[: len(header)] for row in table),
        frozenset({0, *range(3 + shift, len(header))}), frozenset({1, 1 + shift}), tail=f"Ranked by {name}. {LEGEND}",
    )  # fmt: skip


def _played(one: Finalist) -> str:
    return "" if one.simulated is None else quantity(one.simulated, "s")


def _unequal(plan: Plan) -> Iterator[Section]:
    """Plans that other layers on each stage make faster."""
    rows = tuple(
        (str(index), layout_text(one.prediction.strategy), str(one.unequal.prediction.strategy.stage_layers), _played(one.unequal),
         f"-{share(1 - (one.unequal.simulated or 0.0) / (one.simulated or 1.0))}", quantity(one.unequal.prediction.memory_peak, "B"))
        for index, one in enumerate(plan.finalists, start=1) if one.unequal is not None
    )  # fmt: skip
    header = ("", "layout", "layers", "simulated", "of equal ones", "memory")
    tail = "Layers of each chunk along the model, for --set strategy.stage_layers=…; simulated pass by pass, as equal stages above."
    if rows:
        yield Section("Faster with unequal stages", header, rows, frozenset({0, 3, 4, 5}), frozenset({1, 2}), tail=tail)


def _title(plan: Plan) -> str:
    question = plan.outcomes[0].question
    what = f"Best plans for {question.workload.name}, a batch of {count(question.workload.training.batch)}"
    return what if _several(plan) else f"{what}, on {count(question.devices)} devices of {question.hardware.name}"


def _front(plan: Plan) -> Section:
    """Thinned where there are many."""
    rows = _thinned(plan.front, SHOWN)
    table = tuple(
        (_where(plan, row.question), layout_text(row.strategy), choices_text(row.strategy), quantity(row.step_time, "s"),
         quantity(row.memory, "B"), "" if cost(row) is None else quantity(cost(row) or 0.0, "USD"))
        for row in rows
    )  # fmt: skip
    used = [i for i in range(6) if any(row[i] for row in table)]
    names = ("devices", "layout", "choices", "step time", "memory", "cost")
    title = (
        f"{len(rows)} of the {len(plan.front)} that none beats in time, cost and memory"
        if len(rows) < len(plan.front)
        else "None beats these in time, cost and memory"
    )
    return Section(
        title, tuple(names[i] for i in used), tuple(tuple(row[i] for i in used) for row in table),
        frozenset(at for at, i in enumerate(used) if i >= 3), frozenset({used.index(1)}),
    )  # fmt: skip


def _thinned(rows: Sequence[Row], most: int) -> list[Row]:
    """Where there are more, the fastest under each of equal steps of memory, from all that the fastest takes downwards."""
    if len(rows) <= most:
        return list(rows)
    highest, lowest = rows[0].memory, rows[-1].memory
    levels = (highest - (highest - lowest) * step / most for step in range(most))
    picked = dict.fromkeys(next(at for at, row in enumerate(rows) if row.memory <= level) for level in levels)
    return [rows[at] for at in picked]


def _hangs_on(plan: Plan) -> Section:
    rows = tuple((s.path, f"{s.value:.4g}", f"{s.elasticity:+.2f} %") for s in plan.sensitivities[:SHOWN])
    header = ("number of the machine", "value", "step time for 1 % more")
    return Section("What the best plan hangs on", header, rows, frozenset({1, 2}))


def _nearest(plan: Plan) -> Section:
    rows = tuple(
        (_where(plan, row_question), layout_text(one.prediction.strategy), choices_text(one.prediction.strategy),
         quantity(one.prediction.step_time, "s"), "; ".join(map(_broken_text, one.broken)))
        for one, row_question in ((one, _question(plan, one)) for one in plan.rejected)
    )  # fmt: skip
    used = [i for i in range(5) if any(row[i] for row in rows)]
    names = ("devices", "layout", "choices", "step time", "breaks")
    return Section(
        "Nothing keeps all bounds; the nearest plans", tuple(names[i] for i in used),
        tuple(tuple(row[i] for i in used) for row in rows), frozenset({used.index(3)}), frozenset({used.index(1)}),
    )  # fmt: skip


def _question(plan: Plan, one: Rejected) -> Any:
    return next(
        o.question
        for o in plan.outcomes
        if o.question.hardware is one.prediction.hardware and o.question.devices == int(one.prediction.devices)
    )


def _broken_text(broken: tuple[Any, float, float]) -> str:
    limit, value, excess = broken
    unit = FIGURES[limit.figure][0]
    shown = [quantity(each, unit) if unit != "1" else f"{each:.4g}" for each in (value, limit.bound)]
    return (
        f"{limit.figure} {shown[0]}, {100 * excess:.2g} % {'over' if limit.relation == '<=' else 'short of'} {shown[1]}"
    )


def _notes(plan: Plan) -> Iterator[str]:
    yield f"{count(plan.evaluated)} candidates priced, of which {count(plan.feasible)} keep all bounds."
    if plan.rows and plan.objective in {"time", "throughput"}:
        yield from _ties(plan)
    yield from _simulated(plan)
    if plan.rows:
        assumed = [path for path, group in plan.plans[0].hardware.groups() if group.status == "assumed"]
        if assumed:
            yield f"warning: groups of the hardware file that are assumed: {', '.join(assumed)}"
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
