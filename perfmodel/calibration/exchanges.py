"""Timed collectives out of tables and logs, and many of one kind as one message with columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.calibration.nccl_tests import MAX_BYTES, is_log, read_log
from perfmodel.cost.communication import exchange
from perfmodel.errors import InputError, Place, Problem
from perfmodel.parallel import Group, Message
from perfmodel.textfile import read_text
from perfmodel.validation.collectives import COLLECTIVES, message, seconds
from perfmodel.validation.tables import CellError, InexpressibleError, read_table
from perfmodel.yamlfile import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from perfmodel.calibration.nccl_tests import Row
    from perfmodel.specs import Hardware
    from perfmodel.specs.network import Tier

    Array = NDArray[np.float64]

MOST_FAULTS = 20
SEED = "perfmodel-1"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One timed collective."""

    message: Message
    time: float
    tier: int
    """The outermost that its ranks cross."""
    source: str
    address: str
    held_out: bool
    """Judges the fit; never part of it."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows of the tables to take: all that begin with these words."""

    system: str = ""
    source: str = ""
    library: str = ""
    collective: str = ""
    """Of a log that does not say it."""
    keep: tuple[str, ...] = ()
    """Constants that keep their value, whatever the data say."""

    def takes(self, row: Row) -> bool:
        """Whether a row is asked for; logs have no such columns."""
        asked = {"hardware": self.system, "source": self.source, "library": self.library}
        return all(row.get(column, word).startswith(word) for column, word in asked.items() if word)


@dataclass(frozen=True, slots=True)
class Exchanges:
    """What some files hold of one machine."""

    rows: tuple[Exchange, ...]
    reasons: Counter[str]
    """Why rows do not count, and how many."""


def read_exchanges(paths: Sequence[Path], hardware: Hardware, chosen: Chosen) -> Exchanges:
    """Timed collectives of one machine; raises InputError with the faults of all files.

    Rows whose `split` is test are held out; of a log, and of a table without such rows, every third size is.
    """
    if not paths:
        raise InputError([Problem(Place("DATA"), "", "is missing: a table as CSV, or what nccl-tests printed")])
    rows: list[Exchange] = []
    reasons: Counter[str] = Counter()
    problems: list[Problem] = []
    systems: set[str] = set()
    for path in paths:
        try:
            found, faults = _read(path, chosen.collective)
        except InputError as error:
            problems.extend(error.problems)
            continue
        problems.extend(faults)
        split = any(row.get("split") == "test" for _, row in found)
        for place, row in found:
            systems.add(row.get("hardware", ""))
            if not chosen.takes(row):
                continue
            try:
                rows.append(_exchange(row, hardware, split=split))
            except InexpressibleError as error:
                reasons[str(error)] += 1
            except CellError as error:
                problems.append(Problem(place, error.column, error.message))
    if problems:
        raise InputError(problems[:MOST_FAULTS])
    if not rows:
        raise InputError([Problem(Place("DATA"), "", _nothing(chosen, systems, reasons))])
    return Exchanges(tuple(rows), reasons)


def _nothing(chosen: Chosen, systems: set[str], reasons: Counter[str]) -> str:
    if reasons:
        why = "; ".join(f"{reason} ({count} rows)" for reason, count in reasons.most_common(3))
        return f"holds no collective that this machine can be fitted to: {why}"
    hint = nearest(chosen.system, systems) or f"; the tables hold {', '.join(sorted(filter(None, systems))[:8])}"
    return f"holds no row that is asked for{hint}"


def _read(path: Path, collective: str) -> tuple[list[tuple[Place, Row]], list[Problem]]:
    if path.suffix != ".gz" and is_log(read_text(path, str(path), "CSV or nccl-tests", 4 * MAX_BYTES)):
        return read_log(path, collective)
    sheet, _ = read_table(path, COLLECTIVES)
    return list(sheet.rows), list(sheet.problems)


def _exchange(row: Row, hardware: Hardware, *, split: bool) -> Exchange:
    time, sent = seconds(row), message(row, hardware)
    if not time:
        raise InexpressibleError("no time given")
    held = row.get("split") == "test" if split else _third(sent)
    tier = outermost(hardware.network, sent.group)
    return Exchange(sent, time, tier, row.get("source", ""), row.get("address", ""), held)


def _third(sent: Message) -> bool:
    return hashlib.sha256(f"{SEED}:{sent.size:.0f}".encode()).digest()[0] % 3 == 0


def outermost(network: tuple[Tier, ...], group: Group) -> int:
    """The outermost tier that a group crosses."""
    inside, found = 1, 0
    for index, tier in enumerate(network):
        members = int(np.clip(tier.devices // group.stride, 1, group.size))
        if members > inside:
            found = index
        inside = members
    return found


def predicted(rows: Sequence[Exchange], network: tuple[Tier, ...]) -> Array:
    """Times of many collectives as a column: those of one kind are one message."""
    times = np.zeros(len(rows))
    kinds = np.array([row.message.collective for row in rows])
    for kind in dict.fromkeys(kinds):
        index = np.flatnonzero(kinds == kind)
        sent = [rows[int(i)].message for i in index]
        group = Group(np.array([m.group.size for m in sent]), np.array([m.group.stride for m in sent]))
        together = Message("collective", sent[0].collective, np.array([m.size for m in sent]), group)
        times[index] = exchange(together, network, "collective").time
    return times


def times_of(rows: Sequence[Exchange]) -> Array:
    """Measured times as a column."""
    return np.array([row.time for row in rows])
