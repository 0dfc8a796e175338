"""What every table becomes: cases in the columns of the measurement CSV, and rows left out with their reason.

A module for one kind of table offers `rows(raw: Iterator[dict[str, str]]) -> Iterator[Case | Skipped]`;
`tabulate.py` finds it by the table's header and writes what it yields. Each raw row gives at least
one of the two.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from perfmodel.specs.measurement import FlopConvention, MemoryFigure, MemoryStage, Metric  # noqa: TC001 - dataclasses read it
from validation.tools.machines import UnknownMachine, machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Case", "Skipped", "UnknownMachine", "machine", "write"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One measured figure of one configuration; the fields are the columns, None is unknown or default."""

    id: str
    """`<stem>#<metric>`; the figures of one configuration share the stem."""
    source: str
    address: str
    table: str = ""
    date: str = ""
    workload: str
    """A name of the library."""
    hardware: str
    """Likewise."""
    devices: int
    strategy: str = ""
    """Likewise: what a framework always does; degrees stand in the columns that follow."""
    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    dp: int | None = None
    cp: int | None = None
    ep: int | None = None
    sequence_parallel: bool | None = None
    zero: int | None = None
    shard_group: int | None = None
    microbatch: int | None = None
    """Samples that a replica works on at a time."""
    global_batch: int | None = None
    """Samples of one step over all replicas."""
    seq_len: int | None = None
    precision: str = ""
    recompute: str = ""
    attention: str = ""
    schedule: str = ""
    sync: str = ""
    overrides: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """What has no column of its own: {"workload.model.layers": 32, ...}, as `--set` takes it."""
    metric: Metric
    value: str
    """As printed."""
    unit: str
    spread: str = ""
    """Relative, where the source measured more than once."""
    split: Literal["calibration", "test"]
    notes: str = ""
    convention: FlopConvention | None = None
    """How the source counts FLOP."""
    memory_figure: MemoryFigure | None = None
    """What the source measured, of peak_memory."""
    memory_stage: MemoryStage | None = None
    """The device of which stage it measured."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A raw row that is no case, and why."""

    id: str
    reason: str


COLUMNS = tuple(f.name for f in fields(Case))
"""The header of the measurement CSV."""
OPTIONAL = frozenset({"convention", "memory_figure", "memory_stage"})
"""Columns that a table leaves out where no row has them."""


def write(results: Iterable[Case | Skipped], path: Path) -> tuple[int, int]:
    """Write the cases to ``path`` and the skipped rows to skipped.csv beside it; returns both counts."""
    cases: list[Case] = []
    skipped: list[Skipped] = []
    for result in results:
        if isinstance(result, Case):
            cases.append(result)
        else:
            skipped.append(result)
    _refuse_twins([case.id for case in cases])
    columns = [name for name in COLUMNS if name not in OPTIONAL or any(getattr(case, name) for case in cases)]
    _table(path, columns, ([_text(getattr(case, name)) for name in columns] for case in cases))
    _table(path.with_name("skipped.csv"), ("id", "reason"), ([row.id, row.reason] for row in skipped))
    return len(cases), len(skipped)


def _table(path: Path, header: Iterable[str], lines: Iterable[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(lines)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "; ".join(f"{path}={_text(item)}" for path, item in value.items())
    return " ".join(str(value).split())


def _refuse_twins(ids: list[str]) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            message = f"two cases are called {name}"
            raise ValueError(message)
        seen.add(name)
