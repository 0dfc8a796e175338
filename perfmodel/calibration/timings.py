"""Timed kernels out of tables, and many of one kind as one kernel with columns of sizes."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.validation.ops import OPS, Measured, express_of, seconds
from perfmodel.validation.tables import CellError, InexpressibleError, machines, read_table
from perfmodel.yamlfile import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from perfmodel.graph.kernels import Kernel
    from perfmodel.validation.tables import Row

    Array = NDArray[np.float64]

MOST_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """One timed kernel, or several that were timed together."""

    measured: Measured
    time: float
    harness: float
    """What timing adds to the kernels."""
    source: str
    address: str
    held_out: bool
    """Judges the fit; never part of it."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows of the tables to take: all that begin with these words."""

    device: str = ""
    source: str = ""
    library: str = ""
    precision: str = ""

    def takes(self, row: Row) -> bool:
        """Whether a row is asked for."""
        return (
            self.device in ("", row["device"])
            and row.get("source", "").startswith(self.source)
            and self.library in row.get("library", "")
            and self.precision in ("", row["precision"])
        )


@dataclass(frozen=True, slots=True)
class Timings:
    """What some tables hold of one device."""

    rows: tuple[Timing, ...]
    reasons: Counter[str]
    """Why rows do not count, and how many."""


def read_timings(paths: Sequence[Path], chosen: Selection) -> Timings:
    """Timed kernels of one device; raises InputError with the faults of all files.

    Rows whose `split` is test are held out. Where a table has no such rows, every third shape is, by a hash that does
    not depend on the order of the rows.
    """
    rows: list[Timing] = []
    reasons: Counter[str] = Counter()
    problems: list[Problem] = []
    devices: set[str] = set()
    for path in paths:
        try:
            sheet, _ = read_table(path, OPS)
        except InputError as error:
            problems.extend(error.problems)
            continue
        problems.extend(sheet.problems)
        express = express_of(set(sheet.header))
        split = any(row.get("split") == "test" for _, row in sheet.rows)
        for place, row in sheet.rows:
            devices.add(row["device"])
            if express is None or not chosen.takes(row):
                continue
            try:
                rows.append(_timing(row, express, split=split))
            except InexpressibleError as error:
                reasons[str(error)] += 1
            except CellError as error:
                problems.append(Problem(place, error.column, error.message))
    if problems:
        raise InputError(problems[:MOST_FAULTS])
    if not rows:
        raise InputError([_none_left(chosen, devices, reasons)])
    return Timings(tuple(rows), reasons)


def _none_left(chosen: Selection, devices: set[str], reasons: Counter[str]) -> Problem:
    if reasons:
        why = "; ".join(f"{n} of {reason}" for reason, n in reasons.most_common(3))
        return Problem(Place("DATA"), chosen.device, f"no timing that can be used; the rows are {why}")
    hint = nearest(chosen.device, devices) if chosen.device else f"; the tables hold {', '.join(sorted(devices)[:8])}"
    return Problem(Place("--device"), chosen.device, f"no timing of this device that can be used{hint}")


def _timing(row: Row, express: Callable[[Row], Measured], *, split: bool) -> Timing:
    time, measured = seconds(row), express(row)
    if not time:
        raise InexpressibleError("no time given")
    held = row["split"] == "test" if split else third(measured)
    return Timing(measured, time, machines().harness_of(row), row.get("source", ""), row.get("address", ""), held)


def third(measured: Measured) -> bool:
    """Whether a shape is held out: every third, whatever the order they come in."""
    return hashlib.sha256(repr(measured.kernels).encode()).digest()[0] % 3 == 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Timings whose kernels differ in sizes alone: each kernel holds columns."""

    kernels: tuple[Kernel, ...]
    index: NDArray[np.intp]
    """Of the timings, in the order they came."""


def stacked(timings: Sequence[Timing]) -> list[Batch]:
    """Timings as few kernels with columns of sizes."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for index, timing in enumerate(timings):
        groups[tuple(_structure(k) for k in timing.measured.kernels)].append(index)
    return [
        Batch(
            tuple(
                _columns([timings[i].measured.kernels[position] for i in members]) for position in range(len(structure))
            ),
            np.array(members),
        )
        for structure, members in groups.items()
    ]


SIZES = {"Count", "Bytes", "Flop", "Count | None", "Bytes | None"}
"""Annotations of the fields that differ from one kernel to the next of its kind."""


def _structure(kernel: Any) -> Any:
    """What must be equal for two kernels to share columns: all but their sizes."""
    parts: list[Any] = [type(kernel)]
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if is_dataclass(value):
            parts.append(_structure(value))
        else:
            parts.append(value is None if field.type in SIZES else value)
    return tuple(parts)


def _columns(kernels: Sequence[Any]) -> Any:
    """One kernel with the sizes of many as columns."""
    first = kernels[0]
    changed: dict[str, Any] = {}
    for field in fields(first):
        values = [getattr(kernel, field.name) for kernel in kernels]
        if is_dataclass(values[0]):
            changed[field.name] = _columns(values)
        elif field.type in SIZES and values[0] is not None:
            changed[field.name] = np.array(values, dtype=float)
    return replace(first, **changed)


def times_of(timings: Iterable[Timing]) -> Array:
    """Measured times as a column."""
    return np.array([timing.time for timing in timings])
