"""Columns that grow: a few dozen bytes for each event that is kept, however long the trace."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfmodel.traces.opening import fault

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from perfmodel.errors import InputError

Key = TypeVar("Key", bound="Hashable")
WIDTHS = {"d": "f8", "i": "i4", "q": "i8"}
LATEST = 1e12
"""Seconds: what is later or longer is no time."""


class Numbered(dict[Key, int]):
    """Things by the order in which they first came."""

    def __missing__(self, key: Key) -> int:
        number = self[key] = len(self)
        return number


class Table:
    """Rows of numbers, packed: one letter of the `struct` module for each column."""

    def __init__(self, kinds: str) -> None:
        """Begin without rows."""
        self._dtype = np.dtype([(str(place), WIDTHS[kind]) for place, kind in enumerate(kinds)])
        self._pack, self._rows = struct.Struct(f"={kinds}").pack, bytearray()

    def add(self, *row: float) -> None:
        """One row."""
        self._rows += self._pack(*row)

    def __len__(self) -> int:
        return len(self._rows) // self._dtype.itemsize

    def columns(self) -> list[NDArray[Any]]:
        """Each column as an array."""
        table = np.frombuffer(bytes(self._rows), self._dtype)
        return [np.ascontiguousarray(table[name]) for name in self._dtype.names or ()]


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
