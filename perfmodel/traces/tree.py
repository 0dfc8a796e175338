"""A trace as the same tree of time as a prediction, and both beside one another, kind by kind."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmodel.textfile import read_text
from perfmodel.timeline import Overlap, Part, Serial, leaves, term
from perfmodel.traces.opening import fault
from perfmodel.units import Count, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from perfmodel.traces.classes import Class
    from perfmodel.traces.summary import Summary

KINDS: dict[Class, str] = {
    "GEMM": "matmul", "convolution": "convolution", "attention": "attention", "normalisation": "memory-bound",
    "embedding": "memory-bound", "elementwise": "memory-bound", "other": "memory-bound", "collective": "communication",
    "memcpy": "copies",
}  # fmt: skip
"""What a prediction calls the classes of a trace."""
ORDER = ("matmul", "convolution", "attention", "memory-bound", "communication", "copies", "idle")
FORMULAS = {"tiled_matmul": "matmul", "split_product": "matmul", "flash_attention": "attention", "streaming": "memory-bound",
            "paced": "memory-bound", "fused": "memory-bound"}  # fmt: skip
"""Kinds of what is executed again, by the formula that prices it."""
MAX_BYTES = 100_000_000
Times = tuple[float, float]
"""Total and exposed."""


def measured(*, total: Seconds, steps: Count) -> Seconds:
    """Time of a class of kernels in a mean step: total over steps."""
    return total / steps


def tree(summary: Summary) -> Part:
    """The mean step of a rank: what runs alone one after the other, over what it hides, and then nothing.

    `perfmodel.timeline.duration` of it is the step; the terms have the kinds of a prediction, so that
    `perfmodel.timeline.leaves` gives total and exposed time of both alike.
    """
    step, classes = summary.per_step
    alone, hidden = [], []
    for name, one in classes.items():
        alone.append(term(name, measured, kind=KINDS[name], total=one.exposed, steps=1.0))
        hidden.append((name, max(one.total - one.exposed, 0.0)))
    busy = sum(one.exposed for one in classes.values())
    under = [
        term(name, measured, kind=KINDS[name], total=rest / pieces, steps=1.0)
        for name, rest in hidden
        for pieces in [max(1, math.ceil(rest / busy)) if busy else 1]
        for _ in range(pieces)
        if rest
    ]
    idle = term("idle", measured, kind="idle", total=max(step - busy, 0.0), steps=1.0)
    return Serial("step", (Overlap("kernels", (Serial("alone", tuple(alone)), *under)), idle))


def kinds(part: Part) -> dict[str, Times]:
    """Total and exposed time by kind."""
    found: dict[str, Times] = {}
    for leaf, time, exposed in leaves(part):
        before, seen = found.get(leaf.kind, (0.0, 0.0))
        found[leaf.kind] = before + float(time), seen + float(exposed)
    return found


@dataclass(frozen=True, slots=True)
class Predicted:
    """A report of `perfmodel predict --format json`."""

    name: str
    step: float
    kinds: Mapping[str, Times]


def read_prediction(path: Path) -> Predicted:
    """A saved prediction; raises InputError where the file is none."""
    file = str(path)
    try:
        record = json.loads(read_text(path, file, "JSON", MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise fault(file, "is no JSON; save a prediction with perfmodel predict --format json") from error
    try:
        step = _time(record["step_time"])
        found: dict[str, Times] = {}
        for row in record["breakdown"]:
            before, seen = found.get(kind := _kind(row), (0.0, 0.0))
            found[kind] = before + _time(row["time"]), seen + _time(row["exposed"])
        return Predicted(f"{record['workload']} on {record['hardware']}", step, found)
    except (KeyError, TypeError, ValueError) as error:
        message = "is no prediction: it lacks step_time or breakdown; save one with perfmodel predict --format json"
        raise fault(file, message) from error


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise ValueError(value)
    return float(value)


def _kind(row: Mapping[str, Any]) -> str:
    kind, formula = str(row["kind"]), str(row["formula"])
    if kind == "recompute":
        return "convolution" if "conv" in str(row["name"]) else FORMULAS.get(formula, "memory-bound")
    if kind.endswith(" parallel"):
        return "communication"
    named = {"optimizer": "memory-bound", "custom": "memory-bound", "state space": "memory-bound"}
    return {**named, "bubble": "idle", "host": "idle"}.get(kind, kind)


@dataclass(frozen=True, slots=True)
class Compared:
    """One kind of time, or the whole step."""

    kind: str
    predicted: Times
    measured: Times

    @property
    def difference(self) -> float:
        """Of what is exposed: these add up to that of the step."""
        return self.predicted[1] - self.measured[1]

    @property
    def error(self) -> float | None:
        """Predicted over measured total time, less one; None where nothing was measured."""
        return self.predicted[0] / self.measured[0] - 1 if self.measured[0] else None


def compared(predicted: Predicted, summaries: tuple[Summary, ...]) -> list[Compared]:
    """Predicted and measured time by kind, the mean of the ranks, and last of the step."""
    trees = [kinds(tree(one)) for one in summaries]

    def mean(kind: str) -> Times:
        given = [one.get(kind, (0.0, 0.0)) for one in trees]
        return sum(t for t, _ in given) / len(given), sum(e for _, e in given) / len(given)

    step = sum(one.per_step[0] for one in summaries) / len(summaries)
    rows = [
        Compared(kind, predicted.kinds.get(kind, (0.0, 0.0)), mean(kind)) for kind in _ordered(predicted.kinds, *trees)
    ]
    return [*rows, Compared("step", (predicted.step, predicted.step), (step, step))]


def _ordered(*given: Mapping[str, Times]) -> Iterator[str]:
    named = {kind for one in given for kind, (time, _) in one.items() if time}
    yield from (kind for kind in ORDER if kind in named)
    yield from sorted(named - set(ORDER))
