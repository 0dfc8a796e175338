"""The tables of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel.planner.limits import FIGURES, OBJECTIVES
from perfmodel.planner.plan import Plan, cost, objective_of
from perfmodel.reporting.layout_text import choices_text, layout_text
from perfmodel.reporting.report import Section
from perfmodel.reporting.text import count, quantity, share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.planner.finalists import Finalist
    from perfmodel.planner.search import Question, Row
    from perfmodel.prediction import Prediction
    from perfmodel.specs import Strategy

SHOWN = 10
"""Rows of a table of which the JSON has all."""
LEGEND = (
    "pp 4x2: 2 chunks on each of 4 stages; mb: microbatch; sp: sequence parallel; zero 3 over 8: shards in groups of 8."
)


def plan_sections(plan: Plan) -> Iterator[Section]:
    """What is best, or where nothing is, what comes nearest or is refused."""
    if plan.rows:
        yield _best(plan)
        yield from _unequal(plan)
        yield _front(plan)
        yield _hangs_on(plan)
    if plan.rescued:
        yield _rescued(plan)
    elif plan.rejected and not plan.rows:
        yield _nearest(plan)
    refused = [(o, r) for o in plan.outcomes for r in o.refused]
    if refused and not plan.evaluated:
        rows = tuple((_where(plan, o.question), r.path, count(r.layouts), r.example) for o, r in refused)
        yield Section("Layouts that rules refuse", ("", "rule", "layouts", "for example"), rows, frozenset({2}))


def _where(plan: Plan, question: Question) -> str:
    return f"{count(question.devices)} {question.hardware.name}" if len(plan.outcomes) > 1 else ""


def _words(plan: Plan, question: Question, strategy: Strategy) -> dict[str, str]:
    """The columns by which every table names a plan."""
    return {"devices": _where(plan, question), "layout": layout_text(strategy), "choices": choices_text(strategy)}


def _filled(title: str, rows: Sequence[dict[str, str]], tail: str = "") -> Section:
    """A table without the columns that no row fills; rows are texts by the name of their column."""
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    words = {"devices", "layout", "choices", "layers", "breaks"}
    return Section(
        title, tuple(used), tuple(tuple(row[name] for name in used) for row in rows),
        frozenset(at for at, name in enumerate(used) if name not in words),
        frozenset(at for at, name in enumerate(used) if name in {"devices", "layout", "layers"}), tail=tail,
    )  # fmt: skip


def _best(plan: Plan) -> Section:
    least, piped = abs(objective_of(plan, plan.plans[0])), any(row.strategy.pp > 1 for row in plan.rows)
    rows = [
        {
            "": str(index), **_words(plan, row.question, row.strategy), "step time": quantity(one.prediction.step_time, "s"),
            "behind": "" if index == 1 else f"+{share(abs(abs(objective_of(plan, one.prediction)) / least - 1))}",
            "simulated": _played(one) if piped else "", "MFU": share(one.prediction.mfu()), "memory": quantity(one.prediction.memory_peak, "B"),
            "cost": _dollars(one.prediction.cost),
        }
        for index, (row, one) in enumerate(zip(plan.rows, plan.finalists, strict=True), start=1)
    ]  # fmt: skip
    return _filled(_title(plan), rows, f"Ranked by {OBJECTIVES[plan.objective][0]}. {LEGEND}")


def _dollars(cost: float | None) -> str:
    return "" if cost is None else quantity(cost, "USD")


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


def _rescued(plan: Plan) -> Section:
    """Plans that fit with other layers on each stage alone."""
    rows = [
        {"devices": _where(plan, _question(plan, one.prediction)), "layout": layout_text(one.prediction.strategy),
         "layers": str(one.prediction.strategy.stage_layers), "step time": quantity(one.prediction.step_time, "s"),
         "simulated": _played(one), "memory": quantity(one.prediction.memory_peak, "B")}
        for one in plan.rescued
    ]  # fmt: skip
    tail = "Layers of each chunk along the model, for --set strategy.stage_layers=…; with equal stages the fullest has no room."
    return _filled("These fit with unequal stages alone", rows, tail)


def _title(plan: Plan) -> str:
    question = plan.outcomes[0].question
    what = f"Best plans for {question.workload.name}, a batch of {count(question.workload.training.batch)}"
    return (
        what if len(plan.outcomes) > 1 else f"{what}, on {count(question.devices)} devices of {question.hardware.name}"
    )


def _front(plan: Plan) -> Section:
    """Thinned where there are many."""
    kept = _thinned(plan.front, SHOWN)
    rows = [
        {**_words(plan, row.question, row.strategy), "step time": quantity(row.step_time, "s"),
         "memory": quantity(row.memory, "B"), "cost": _dollars(cost(row))}
        for row in kept
    ]  # fmt: skip
    thinned = f"{len(kept)} of the {len(plan.front)} that none beats in time, cost and memory"
    whole = "None beats these in time, cost and memory"
    return _filled(thinned if len(kept) < len(plan.front) else whole, rows)


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
    rows = [
        {**_words(plan, _question(plan, one.prediction), one.prediction.strategy),
         "step time": quantity(one.prediction.step_time, "s"), "breaks": "; ".join(map(_broken_text, one.broken))}
        for one in plan.rejected
    ]  # fmt: skip
    return _filled("Nothing keeps all bounds; the nearest plans", rows)


def _question(plan: Plan, made: Prediction) -> Question:
    return next(
        o.question
        for o in plan.outcomes
        if o.question.hardware is made.hardware and o.question.devices == int(made.devices)
    )


def _broken_text(broken: tuple[Any, float, float]) -> str:
    limit, value, excess = broken
    unit = FIGURES[limit.figure][0]
    shown = [quantity(each, unit) if unit != "1" else f"{each:.4g}" for each in (value, limit.bound)]
    way = "over" if limit.relation == "<=" else "short of"
    by = count(100 * excess) if excess >= 0.995 else f"{100 * excess:.2g}"
    return f"{limit.figure} {shown[0]}, {by} % {way} {shown[1]}"
