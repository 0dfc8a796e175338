"""Columns that grow: a few dozen bytes for each event that is kept, however long the trace."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfmodel.traces.opening import fault

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from perfmodel.errors import InputError

Key = TypeVar("Key", bound="Hashable")
LATEST = 1e12
"""Seconds: what is later or longer is no time."""


class Numbered(dict[Key, int]):
    """Things by the order in which they first came."""

    def __missing__(self, key: Key) -> int:
        number = self[key] = len(self)
        return number


class Table:
    """Columns of numbers: letters of the `array` module, one for each column."""

    def __init__(self, kinds: str) -> None:
        """Begin without rows."""
        self._columns = [array(kind) for kind in kinds]

    def add(self, *row: float) -> None:
        """One row."""
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._columns[0])

    def columns(self) -> list[NDArray[Any]]:
        """As arrays that share the memory; afterwards no row can be added."""
        return [
            np.frombuffer(column, dtype=column.typecode) if column else np.zeros(0, column.typecode)
            for column in self._columns
        ]


def time(value: Any, scale: float, what: str, file: str, place: str) -> float:
    """A time of the file in seconds; raises InputError where it is none.

    Args:
        value: what the file says.
        scale: seconds of its unit.
        what: its name in the file.
        file: for the fault.
        place: of the event in the file, likewise.
    """
    if type(value) is not int and type(value) is not float:
        raise not_a_time(value, what, file, place)
    seconds = value * scale if abs(value) < LATEST / scale else math.nan
    if seconds != seconds:  # noqa: PLR0124 - faster than isnan, and this runs for each event
        raise not_a_time(value, what, file, place)
    return seconds


def not_a_time(value: Any, what: str, file: str, place: str) -> InputError:
    """Why a value is no time."""
    shown = repr(value)[:40]
    return fault(file, f"{what} must be a number within {LATEST:.0e} s, not {shown}", place)
