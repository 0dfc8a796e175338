"""Bubbles as a resource: when each pipeline stage stands idle, and what memory it has left for side work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas import idle as formulas
from perfmodel.timeline import Overlap, Part, Repeat, Serial, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Column = NDArray[np.float64] | None

    from perfmodel.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Idle:
    """One stage's free time in a step, by when it comes; and its free memory."""

    stage: int
    fill: float | None
    """Before its first forward pass; None where the schedule does not tell these apart."""
    first_backward: float | None
    """Before its first backward pass."""
    steady: float | None
    """Between its last backward passes."""
    drain: float | None
    """After its last backward pass."""
    time: float
    """In all."""
    share: float
    """Of the step."""
    free_memory: float


def idle_stages(prediction: Prediction) -> list[Idle]:
    """Free time and memory of each stage."""
    layout, step = prediction.layout, prediction.step_time
    bubble = prediction.kinds.get("bubble", (0.0, 0.0))[0]
    capacity = float(prediction.hardware.device.memory.capacity)
    held = np.broadcast_to(prediction.footprint.total, int(layout.pp))
    types = _types(prediction)

    def idle(stage: int) -> Idle:
        fill, first, steady, drain = (None if column is None else float(column[stage]) for column in types)
        free = max(capacity - float(held[stage]), 0.0)
        return Idle(stage, fill, first, steady, drain, bubble, bubble / step, free)

    return [idle(stage) for stage in range(int(layout.pp))]


def _types(prediction: Prediction) -> tuple[Column, Column, Column, Column]:
    """Free time of all stages before the first forward and backward pass, between passes, after the last."""
    layout = prediction.layout
    body = next((p.part for p in _parts(prediction.tree) if isinstance(p, Repeat) and p.name == "microbatches"), None)
    plain = prediction.strategy.schedule == "1f1b" and int(layout.vpp) == 1
    if not plain or not isinstance(body, Serial):
        return None, None, None, None
    stage = np.arange(int(layout.pp))
    behind, microbatches = layout.pp - 1 - stage, layout.microbatches
    forward = float(duration(body.parts[0]))
    backward = float(duration(body)) - forward
    return (
        np.asarray(formulas.fill_wait(stage=stage, forward=forward)),
        np.asarray(formulas.first_backward_wait(
            behind=behind, microbatches=microbatches, forward=forward, backward=backward
        )),
        np.asarray(formulas.steady_wait(behind=behind, microbatches=microbatches, forward=forward)),
        np.asarray(formulas.drain_wait(stage=stage, backward=backward)),
    )  # fmt: skip


def _parts(part: Part) -> Iterator[Part]:
    yield part
    match part:
        case Repeat():
            yield from _parts(part.part)
        case Serial() | Overlap():
            for inner in part.parts:
                yield from _parts(inner)
        case _:
            pass
