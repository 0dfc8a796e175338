"""A step as a trace in Chrome's format, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InputError, Place, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfmodel.prediction import Prediction
    from perfmodel.schedule.passes import Slot
    from perfmodel.schedule.replay import Replay

MICROSECONDS = 1e6
COMPUTE, NETWORK = 0, 1
"""Tracks of a stage."""


def require_writable(path: Path) -> None:
    """Raise InputError for a file that cannot be written, before the work that it would hold."""
    if path.is_dir() or not path.parent.is_dir():
        message = "cannot be written: is a directory" if path.is_dir() else "cannot be written: no such directory"
        raise InputError([Problem(Place("--timeline"), str(path), message)])


def write_timeline(prediction: Prediction, path: Path) -> None:
    """Write the trace of one step; raises InputError where the file cannot be written."""
    require_writable(path)
    try:
        path.write_text(json.dumps(trace(prediction)) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError([Problem(Place("--timeline"), str(path), f"cannot be written: {error.strerror}")]) from error


def trace(prediction: Prediction) -> dict[str, Any]:
    """One process for each stage: its passes and sends, its exchange and update, and the passes whose activations it keeps."""
    replay = prediction.replay
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "workload": str(prediction.workload.name), "hardware": str(prediction.hardware.name),
            "schedule": str(prediction.strategy.schedule), "step_time": prediction.step_time,
            "replayed_step_time": replay.step_time,
        },
        "traceEvents": [*_names(replay), *_passes(replay), *_others(replay), *_kept(prediction)],
    }  # fmt: skip


def _names(replay: Replay) -> Iterator[dict[str, Any]]:
    for stage in range(len(replay.simulation.devices)):
        yield {"ph": "M", "name": "process_name", "pid": stage, "tid": 0, "args": {"name": f"stage {stage}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": stage, "tid": 0, "args": {"sort_index": stage}}
        for track, name in ((COMPUTE, "passes and sends"), (NETWORK, "exchange and update")):
            yield {"ph": "M", "name": "thread_name", "pid": stage, "tid": track, "args": {"name": name}}


def _slice(name: str, kind: str, stage: int, track: int, start: float, end: float, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": kind, "pid": stage, "tid": track, "ts": start * MICROSECONDS,
        "dur": (end - start) * MICROSECONDS, "args": more,
    }  # fmt: skip


def _passes(replay: Replay) -> Iterator[dict[str, Any]]:
    for played in (one for slots in replay.simulation.devices for one in slots):
        name, kind = label(played.slot), "+".join(dict.fromkeys(each.kind for each in played.slot))
        each = played.slot[0]
        more = {"microbatch": each.microbatch, "position": each.position}
        yield _slice(name, kind, played.device, COMPUTE, played.start, played.end, **more)
        if played.sent > played.end:
            yield _slice(f"send {name}", "send", played.device, COMPUTE, played.end, played.sent, **more)


def _others(replay: Replay) -> Iterator[dict[str, Any]]:
    for event in replay.events:
        yield _slice(event.name, event.kind, event.device, NETWORK, event.start, event.end)


def _kept(prediction: Prediction) -> Iterator[dict[str, Any]]:
    """Microbatches in flight, and memory: what stays, and activations, at their fullest those of the footprint."""
    simulation, chunks = prediction.replay.simulation, int(prediction.layout.vpp)
    stages = len(simulation.devices)
    total, activations = (
        np.broadcast_to(part, stages) for part in (prediction.footprint.total, prediction.footprint.activations)
    )
    for stage in range(stages):
        fullest = simulation.fullest(stage)
        for time, count in simulation.in_flight(stage):
            held = {
                "stays": float(total[stage] - activations[stage]),
                "activations": float(activations[stage] * count / fullest),
            }
            yield _counter("microbatches in flight", stage, time, {"microbatches": count / chunks})
            yield _counter("memory [B]", stage, time, held)


def _counter(name: str, stage: int, time: float, values: dict[str, float]) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": stage, "tid": COMPUTE, "ts": time * MICROSECONDS, "args": values}


def label(slot: Slot) -> str:
    """Passes in short: F forward, B backward, W gradients of weights alone; a pair with both of its microbatches."""
    kinds = [each.kind for each in slot]
    letters = {"forward": "F", "backward": "B", "weight": "W"}
    shown = [each for each in slot if each.kind != "weight" or "backward" not in kinds]
    return " ".join(f"{letters[each.kind]}{each.microbatch}" for each in shown)
