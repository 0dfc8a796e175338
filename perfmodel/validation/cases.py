"""One measured configuration: its job, what the model says of it, and why it may not count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perfmodel.errors import InputError, Problem
from perfmodel.job import Job, load_job
from perfmodel.library import library_name
from perfmodel.prediction import Prediction, predict
from perfmodel.specs.measurement import DIRECTNESS, METRIC_UNIT
from perfmodel.validation.consistency import contradiction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perfmodel.graph.flops import Convention
    from perfmodel.specs.measurement import Measurement, MemoryFigure, MemoryStage, Row
    from perfmodel.units import Bytes

State = Literal["counted", "repeated", "inconsistent", "inexpressible"]

METRICS: dict[str, Callable[[Prediction], float | None]] = {
    "step_time": lambda p: p.step_time,
    "samples_per_second": lambda p: p.samples_per_second,
    "tokens_per_second": lambda p: p.tokens_per_second,
    "tokens_per_second_per_device": lambda p: None if p.tokens_per_second is None else p.tokens_per_second / p.devices,
    "model_flops_per_device_per_second": lambda p: p.flops() / (p.step_time * p.devices),
    "hardware_flops_per_device_per_second": lambda p: p.hardware_flops / (p.step_time * p.devices),
    "mfu": lambda p: p.mfu(),
    "hfu": lambda p: p.hfu,
    "peak_memory": lambda p: p.memory_peak,
}
"""What a prediction says for each metric of the measurement CSV."""

COUNTED: dict[str, Callable[[Prediction, Convention], float]] = {
    "model_flops_per_device_per_second": lambda p, convention: p.flops(convention) / (p.step_time * p.devices),
    "hardware_flops_per_device_per_second": lambda p, convention: p.hfu_by(convention) * p.peak,
    "mfu": lambda p, convention: p.mfu(convention),
    "hfu": lambda p, convention: p.hfu_by(convention),
}
"""The same of rates and shares of FLOP, by the convention that a row states."""

MEMORY: dict[MemoryFigure, Callable[[Prediction], Bytes]] = {
    "states": lambda p: sum(p.footprint.classes[name] for name in ("weights", "gradients", "optimizer", "activations")),
    "allocated": lambda p: p.footprint.total,
    "reserved": lambda p: p.memory_reserved.typical,
    "device": lambda p: p.memory_device.typical,
}
"""Figures of memory, by stage."""

OF_STAGES: dict[MemoryStage, Callable[[Any], Any]] = {
    "fullest": np.max, "first": lambda stages: stages[0], "last": lambda stages: stages[-1],
}  # fmt: skip
"""The device of a pipeline that was measured."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row judged. Errors are relative, and of *time* for every metric of speed."""

    id: str
    study: str
    workload: str
    hardware: str
    metric: str
    split: str
    measured: float
    predicted: float | None
    state: State
    reason: str = ""
    low: float | None = None
    high: float | None = None
    """The 80 % interval of the prediction."""
    step_time: float | None = None
    """As predicted, whatever the metric."""

    @property
    def counts(self) -> bool:
        """Whether it enters the statistics."""
        return self.state == "counted"

    @property
    def error(self) -> float | None:
        """Predicted / measured - 1 for times and memory; for rates the same of the time that they imply."""
        if self.predicted is None:
            return None
        ratio = self.predicted / self.measured
        return ratio - 1 if self.metric in {"step_time", "peak_memory"} else 1 / ratio - 1


def judge(rows: Sequence[Row], study: str, folder: Path) -> list[Outcome]:
    """All rows of one configuration.

    The most direct metric of time that the model knows counts, and memory; further metrics of time repeat it
    and only serve to check the source against itself.
    """
    job = job_of(rows[0], folder)
    try:
        prediction = predict(job.workload, job.hardware, job.strategy)
    except InputError as error:
        reason = error.problems[0]
        return [_outcome(row, study, None, "inexpressible", f"{reason.path}: {reason.message}") for row in rows]
    times = [row for row in rows if row.measurement.metric in DIRECTNESS]
    times.sort(key=lambda row: DIRECTNESS.index(row.measurement.metric))
    wrong = contradiction([row.measurement for row in times], prediction)
    counted = next((row for row in times if METRICS[row.measurement.metric](prediction) is not None), None)
    outcomes = []
    for row in rows:
        if row.measurement.metric == "peak_memory":
            outcomes.append(_outcome(row, study, prediction, "counted"))
        elif wrong:
            outcomes.append(_outcome(row, study, prediction, "inconsistent", wrong))
        elif row is counted or counted is None:
            outcomes.append(_outcome(row, study, prediction, "counted"))
        else:
            outcomes.append(_outcome(row, study, prediction, "repeated", f"same run as {counted.measurement.id}"))
    return outcomes


def job_of(row: Row, folder: Path) -> Job:
    """The job of one row; names are of the library, or paths relative to ``folder``.

    Raises InputError, at the row, for settings and overrides that no spec takes.
    """
    m = row.measurement
    try:
        return load_job(
            library_name("workloads", m.workload, folder),
            library_name("hardware", m.hardware, folder),
            library_name("strategies", m.strategy, folder) if m.strategy else None,
            m.settings,
            m.sets,
        )
    except InputError as error:
        raise InputError(Problem(row.place, str(p.place), f"{p.path}: {p.message}") for p in error.problems) from error


def unknown_names(rows: Sequence[Row], folder: Path) -> list[Problem]:
    """Workloads, machines and strategies that are neither in the library nor files."""
    problems: dict[Problem, None] = {}
    for row in rows:
        m = row.measurement
        for column, kind, name in (
            ("workload", "workloads", m.workload),
            ("hardware", "hardware", m.hardware),
            ("strategy", "strategies", m.strategy),
        ):
            try:
                if name:
                    library_name(kind, name, folder, check=True)  # type: ignore[arg-type]
            except InputError as error:
                problems.setdefault(Problem(row.place, column, f"{name!r}: {error.problems[0].message}"))
    return list(problems)


def _outcome(row: Row, study: str, prediction: Prediction | None, state: State, reason: str = "") -> Outcome:
    m = row.measurement
    predicted = _predicted(m, prediction) if prediction else None
    if prediction and predicted is None:
        state, reason = "inexpressible", f"{prediction.workload.name} has no {METRIC_UNIT[m.metric]}"
    low, high = _interval(m.metric, predicted, prediction)
    return Outcome(
        m.id, study, m.workload, m.hardware, m.metric, m.split, m.measured, predicted, state, reason, low, high,
        prediction.step_time if prediction else None,
    )  # fmt: skip


def _predicted(measurement: Measurement, prediction: Prediction) -> float | None:
    """What the row measured, of memory the figure and the stage that it states."""
    if measurement.metric == "peak_memory":
        stages = np.broadcast_to(
            MEMORY[measurement.memory_figure or "allocated"](prediction), int(prediction.layout.pp)
        )
        return float(OF_STAGES[measurement.memory_stage or "fullest"](stages))
    if measurement.convention:
        return COUNTED[measurement.metric](prediction, measurement.convention)
    return METRICS[measurement.metric](prediction)


def _interval(metric: str, predicted: float | None, prediction: Prediction | None) -> tuple[float | None, float | None]:
    if prediction is None or predicted is None or metric == "peak_memory":
        return None, None
    low, high = (end / prediction.step_time for end in prediction.interval)
    return (predicted * low, predicted * high) if metric == "step_time" else (predicted / high, predicted / low)
