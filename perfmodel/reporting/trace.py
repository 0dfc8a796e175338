"""What a trace spent its time on, as a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import count, quantity, share
from perfmodel.traces.classes import CLASSES
from perfmodel.traces.job import by_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfmodel.traces.job import TracedJob
    from perfmodel.traces.summary import Summary

SCHEMA = 1
POINTS = 500
"""Of a memory timeline in JSON and pictures."""
STEPS = 12
"""Steps that the table shows; JSON has all."""
LEGEND = (
    "time: added up over all streams. exposed: while nothing above it in the list runs, so that exposed times and idle add up to the "
    "span. A rank's communication is exposed where nothing computes."
)
WAITING = "transfer: what the same collectives took on the rank that took least; waiting: what this rank's took beyond it, because others came later."


def trace_report(job: TracedJob, top: int = 10) -> Report:
    """Ranks, classes of kernels, steps, imbalance, the longest kernels.

    Args:
        job: the traces of one job.
        top: kernels to list.
    """
    rows = [
        {"rank": rank(one, i), "file": one.trace.file, **row}
        for i, one in enumerate(job.ranks)
        for row in class_rows(one)
    ]
    kernels = by_kernel(job.ranks)
    record = {
        "schema": SCHEMA,
        "ranks": [rank_record(one, i) for i, one in enumerate(job.ranks)],
        "spread": {name: dict(zip(("least", "mean", "most"), values, strict=True)) for name, values in job.spread.items()},
        "waiting": [
            {"rank": rank(one, i), "transfer": w.transfer, "waiting": w.waiting, "collectives": w.matched}
            for i, (one, w) in enumerate(zip(job.ranks, job.waiting or (), strict=False))
        ],
        "kernels": [{"class": kind, "name": name, "count": n, "time": time} for kind, name, n, time in kernels],
    }  # fmt: skip
    sections = (_ranks(job), *_classes(job), *_steps(job), *_uneven(job), *_kernels(kernels, top), *_memory(job))
    return Report(record, rows, sections, tuple(_notes(job)))


def rank(summary: Summary, index: int) -> int:
    """The rank of a trace; its place where it does not say."""
    return index if summary.trace.rank is None else summary.trace.rank


def class_rows(summary: Summary) -> list[dict[str, Any]]:
    """Classes of one rank, then idle, in seconds."""
    rows = [
        {"class": name, "kernels": one.count, "time": one.total, "exposed": one.exposed}
        for name in CLASSES
        if (one := summary.classes.get(name))
    ]
    return [*rows, {"class": "idle", "kernels": 0, "time": summary.idle, "exposed": summary.idle}]


def rank_record(summary: Summary, index: int) -> dict[str, Any]:
    """The JSON of one rank, in SI units."""
    s, trace = summary, summary.trace
    step, _ = s.per_step
    return {
        "rank": rank(s, index), "ranks": trace.ranks, "file": trace.file, "format": trace.form, "device": trace.device,
        "on_host": trace.on_host, "events": trace.events, "span": s.span, "busy": s.busy, "idle": s.idle, "computing": s.computing,
        "communicating": s.communicating, "overlap": s.overlap, "exposed_communication": s.exposed,
        "step_time": s.step_time, "time_per_step": step if s.steps else None,
        "steps": [
            {"name": one.name, "time": one.time, "computing": one.computing, "communicating": one.communicating,
             "exposed_communication": one.exposed}
            for one in s.steps
        ],
        "classes": class_rows(s), "memory": memory_record(s), "notes": list(trace.notes),
    }  # fmt: skip


def memory_record(summary: Summary) -> dict[str, Any] | None:
    """Peaks, and the timeline in a few hundred points of which each is the peak of its stretch."""
    memory = summary.trace.memory
    if memory is None:
        return None
    pieces = np.array_split(np.arange(len(memory.time)), min(POINTS, len(memory.time)))
    highest = [int(piece[np.argmax(memory.allocated[piece])]) for piece in pieces]
    reserved = memory.reserved[~np.isnan(memory.reserved)]
    return {
        "peak_allocated": float(memory.allocated.max()),
        "peak_reserved": float(reserved.max()) if len(reserved) else None,
        "timeline": [[float(memory.time[i]), float(memory.allocated[i])] for i in highest],
    }


def _ranks(job: TracedJob) -> Section:
    first = job.ranks[0].trace
    header = ("rank", "steps", "step", "span", "computing", "communication", "exposed", "idle", "idle of span")
    rows = tuple(
        (
            str(rank(s, i)), count(len(s.steps)), _time(s.step_time), *map(_time, (s.span, s.computing, s.communicating, s.exposed, s.idle)),
            share(s.idle / s.span) if s.span else "",
        )
        for i, s in enumerate(job.ranks)
    )  # fmt: skip
    device = f" of {first.device}" if first.device else ""
    return Section(f"{first.form} trace{device}", header, rows, frozenset(range(len(header))))


def _classes(job: TracedJob) -> Iterable[Section]:
    span = float(np.mean([s.span for s in job.ranks]))
    if not span:
        return
    ranks = len(job.ranks)
    rows = []
    for name in (*CLASSES, "idle"):
        own = [row for s in job.ranks for row in class_rows(s) if row["class"] == name]
        number, time, exposed = (sum(row[key] for row in own) / ranks for key in ("kernels", "time", "exposed"))
        if number or name == "idle":
            rows.append((name, count(number) if number else "", _time(time), _time(exposed), share(exposed / span)))
    total = ("span", "", "", _time(span), share(1.0))
    title = "Kernels by class" if ranks == 1 else f"Kernels by class, mean of {ranks} ranks"
    yield Section(title, ("class", "kernels", "time", "exposed", "of span"), (*rows, total), frozenset({1, 2, 3, 4}))


def _steps(job: TracedJob) -> Iterable[Section]:
    first = job.ranks[0]
    if not first.steps:
        return
    rows = tuple((s.name, *map(_time, (s.time, s.computing, s.communicating, s.exposed))) for s in first.steps[:STEPS])
    more = len(first.steps) - len(rows)
    tail = f"{more} more in JSON." if more else ""
    title = "Steps" if len(job.ranks) == 1 else f"Steps of rank {rank(first, 0)}"
    yield Section(
        title, ("step", "time", "computing", "communication", "exposed"), rows, frozenset({1, 2, 3, 4}), tail=tail
    )


def _uneven(job: TracedJob) -> Iterable[Section]:
    if len(job.ranks) < 2:
        return
    rows = tuple((name.replace("_", " "), *map(_time, values)) for name, values in job.spread.items())
    lead = f"Most over mean computing time: {job.imbalance:.3f}."
    yield Section("Across ranks", ("", "least", "mean", "most"), rows, frozenset({1, 2, 3}), lead=lead)
    if job.waiting:
        split = tuple(
            (
                str(rank(s, i)),
                count(w.matched),
                _time(w.transfer),
                _time(w.waiting),
                share(w.waiting / (w.transfer + w.waiting or 1)),
            )
            for i, (s, w) in enumerate(zip(job.ranks, job.waiting, strict=True))
        )
        yield Section(
            "Collectives",
            ("rank", "matched", "transfer", "waiting", "waiting of both"),
            split,
            frozenset(range(5)),
            tail=WAITING,
        )


def _kernels(kernels: list[tuple[str, str, int, float]], top: int) -> Iterable[Section]:
    if not kernels or not top:
        return
    total = sum(time for *_, time in kernels)
    rows = tuple(
        (name[:90], kind, count(n), _time(time), share(time / total if total else 0.0))
        for kind, name, n, time in kernels[:top]
    )
    title = "Kernels by time" if len(kernels) <= top else f"Kernels by time, {top} of {len(kernels)}"
    yield Section(title, ("kernel", "class", "calls", "time", "of all"), rows, frozenset({2, 3, 4}))


def _memory(job: TracedJob) -> Iterable[Section]:
    rows = []
    for i, one in enumerate(job.ranks):
        record = memory_record(one)
        if record:
            reserved = record["peak_reserved"]
            rows.append(
                (
                    str(rank(one, i)),
                    quantity(record["peak_allocated"], "B"),
                    "" if reserved is None else quantity(reserved, "B"),
                )
            )
    if rows:
        yield Section(
            "Memory of the device", ("rank", "most allocated", "most reserved"), tuple(rows), frozenset({0, 1, 2})
        )


def _notes(job: TracedJob) -> Iterable[str]:
    if any(s.span for s in job.ranks):
        yield LEGEND
    if any(s.trace.on_host for s in job.ranks):
        yield "Nothing ran on a GPU: the kernels are operators of the CPU, each without those that it called; streams are threads."
    yield from dict.fromkeys(f"{s.trace.file}: {note}" for s in job.ranks for note in s.trace.notes)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else quantity(seconds, "s")
