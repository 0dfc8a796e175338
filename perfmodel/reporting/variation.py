"""Delays, failures, simulation and idle stages, as sections and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import count, long_time, quantity, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.prediction import Prediction
    from perfmodel.variation.failures import Reliability
    from perfmodel.variation.idle import Idle
    from perfmodel.variation.mitigation import Plan
    from perfmodel.variation.simulate import Drawn, Simulation
    from perfmodel.variation.varied import Varied, Waiting

SAME = 1e-8
"""Relative difference that is rounding, where nothing varies."""


def variation_record(prediction: Varied) -> dict[str, Any]:
    """What a prediction says of delays and failures, in SI units; only the sections that were asked for."""
    made: dict[str, Any] = {}
    if prediction.waiting is not None:
        waiting = prediction.waiting
        made["stragglers"] = {
            "name": waiting.name, "compute_factor": waiting.compute_factor,
            "communication_factor": waiting.communication_factor, "machine_factor": waiting.machine_factor, "delay": waiting.delay,
            "deviation": waiting.deviation, "counted": waiting.counted,
            "mitigation": [{**plan.record(), "share": part} for plan, part in waiting.plans],
        }  # fmt: skip
    if prediction.reliability is not None:
        made["failures"] = {key: _finite(value) for key, value in asdict(prediction.reliability).items()}
        made["failures"]["mtbf"] = prediction.reliability.mtbf
    if prediction.simulation is not None:
        made["simulation"] = asdict(prediction.simulation)
    return made


def variation_sections(prediction: Varied) -> Iterator[Section]:
    """The same as tables."""
    if prediction.waiting is not None:
        yield Section(
            f"Stragglers: {prediction.waiting.name}", ("", ""), tuple(_waiting(prediction, prediction.waiting))
        )
    if prediction.reliability is not None:
        reliability = prediction.reliability
        yield Section(f"Failures: {reliability.name}", ("", ""), tuple(_reliability(reliability)))
    if prediction.simulation is not None:
        title = f"Simulated: {count(prediction.simulation.steps)} draws, seed {prediction.simulation.seed}"
        header = ("", "simulated", "standard error", "closed form", "apart by")
        yield Section(title, header, tuple(_simulated(prediction, prediction.simulation)), frozenset({1, 2, 3, 4}))


def _waiting(prediction: Varied, waiting: Waiting) -> Iterator[tuple[str, str]]:
    yield "slowest device", f"{waiting.compute_factor:.4g} x the predicted time of computing"
    yield "slowest messages", f"{waiting.communication_factor:.4g} x the predicted time of messages"
    if waiting.machine_factor != 1:
        yield "unequal machines", f"{waiting.machine_factor:.4g} x the predicted time of computing, before any delay"
    before = prediction.step_time - waiting.delay
    sign = "-" if waiting.delay < 0 else ""
    yield (
        "delay",
        f"{sign}{quantity(abs(waiting.delay), 's')} on a step of {quantity(before, 's')}: {share(waiting.delay / before)}",
    )
    yield "from step to step", f"+- {quantity(waiting.deviation, 's')} (standard deviation)"
    for plan, part in waiting.plans:
        if plan.kind != "none":
            yield plan.kind, _plan(plan) + (f"; {share(part)} of the steps" if part < 1 else "")
    if waiting.counted < 1:
        yield "counted", f"{share(waiting.counted)} of the samples; throughput and MFU count these only"


def _plan(plan: Plan) -> str:
    words = {"waited": "waits for", "load": "load", "reduction": "messages shorter by", "copies": "copies",
             "deadline": "deadline", "stragglers": "tolerates"}  # fmt: skip
    return ", ".join(f"{words[key]} {value:.4g}" for key, value in plan.record().items() if key != "kind")


def _reliability(r: Reliability) -> Iterator[tuple[str, str]]:
    yield "failures", f"one in {long_time(r.mtbf)}"
    yield "checkpoint", f"{quantity(r.checkpoint_size, 'B')}, stops the training for {quantity(r.write, 's')}"
    best = "the best by Daly" if r.interval == r.best_interval else f"the best by Daly is {long_time(r.best_interval)}"
    yield "interval", f"{long_time(r.interval)} of work between checkpoints ({best})"
    yield "restart", f"{long_time(r.restart)} and half an interval on average are lost to each failure"
    if r.standing:
        yield "spare nodes", f"{share(r.standing)} of the time too few are left"
    yield "goodput", f"{share(r.goodput)} of the time makes steps that count"
    if r.work is None:
        return
    if r.time is None or r.low is None or r.high is None or r.failures is None or not math.isfinite(r.time):
        yield "training", f"{long_time(r.work)} without failures; with them it never ends"
        return
    yield (
        "training",
        (
            f"{long_time(r.time)} (80 %: {long_time(r.low)} to {long_time(r.high)}) with {r.failures:,.0f} failures; "
            f"{long_time(r.work)} without"
        ),
    )


def _simulated(prediction: Varied, simulation: Simulation) -> Iterator[tuple[str, ...]]:
    def row(name: str, drawn: Drawn, closed: float, shown: Any) -> tuple[str, ...]:
        difference = abs(drawn.mean - closed)
        apart = difference / drawn.error if difference > SAME * closed and drawn.error > 0 else 0.0
        return name, shown(drawn.mean), shown(drawn.error), shown(closed), f"{apart:.1f} errors"

    if simulation.step_time is not None:
        yield row("step", simulation.step_time, prediction.step_time, lambda value: quantity(value, "s"))
    if simulation.stretch is not None and prediction.reliability is not None:
        r = prediction.reliability
        running = r.goodput / (1 - r.standing)
        yield row(
            "time over work", simulation.stretch, 1 / running if running else math.inf, lambda value: f"{value:.5f}"
        )


def bubbles_report(prediction: Prediction, base: Report) -> Report:
    """A prediction with the free time and memory of each stage."""
    from perfmodel.variation.idle import idle_stages

    stages = idle_stages(prediction)
    header = ("stage", "fill", "first backward", "between", "drain", "idle", "of step", "free memory")
    lead = "Time of a step in which a stage waits: before its first forward and backward pass, between passes, after the last."
    rows = tuple(_cells(stage) for stage in stages)
    section = Section("Bubbles", header, rows, frozenset(range(len(header))), lead=lead)
    records = [asdict(stage) for stage in stages]
    return replace(base, record=base.record | {"bubbles": records}, rows=records, sections=(*base.sections, section))


def _cells(stage: Idle) -> tuple[str, ...]:
    parts = (stage.fill, stage.first_backward, stage.steady, stage.drain)
    shown = ("" if part is None else quantity(part, "s") for part in parts)
    return str(stage.stage), *shown, quantity(stage.time, "s"), share(stage.share), quantity(stage.free_memory, "B")


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
