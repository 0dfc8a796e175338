"""Kernels and messages priced once for all rows that are alike in what decides them."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfmodel.cost.compute import Processor
from perfmodel.cost.passes import Passes
from perfmodel.graph.kernels import Gemm, Repeated
from perfmodel.timeline import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from perfmodel.graph.kernels import Kernel
    from perfmodel.parallel import Message
    from perfmodel.timeline import Part

    Column = NDArray[Any]
    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Distinct:
    """Classes of rows that are alike in some columns."""

    first: NDArray[np.int64]
    """A row of each class."""
    place: NDArray[np.int64]
    """The class of each row."""

    @classmethod
    def in_columns(cls, columns: Iterable[Column]) -> Distinct:
        """Rows that are alike in all of these."""
        place = np.zeros(1, dtype=np.int64)
        for column in columns:
            values, digits = np.unique(column, return_inverse=True)
            place = place * len(values) + digits.reshape(-1)
        _, first, place = np.unique(place, return_index=True, return_inverse=True)
        return cls(first, place.reshape(-1).astype(np.int64))

    def decides(self, columns: Iterable[Column]) -> bool:
        """Whether rows of a class are alike in all of these, too."""
        return all(np.array_equal(column[self.first][self.place], column) for column in columns)


Classes = tuple[Distinct, ...]
"""From the coarsest to the finest."""


def priced(thing: T, price: Callable[[T], Part], classes: Classes) -> Part:
    """What ``price`` makes of a kernel or a message, asked once for each of the coarsest classes that decide it."""
    columns = list({id(column): column for column in _columns(thing)}.values())
    rows = next((each for each in classes if each.decides(columns)), None)
    made = None if rows is None else price(_rows(thing, rows.first))
    if rows is None or not isinstance(made, Term):
        return price(thing)
    return replace(made, inputs={}, time=np.asarray(made.time)[rows.place]) if np.ndim(made.time) else made


@dataclass(frozen=True)
class DistinctProcessor(Processor):
    """A device that is asked once for kernels that are alike."""

    classes: Classes = ()

    def time(self, kernel: Kernel, prefix: str = "", kind: str = "") -> Part:
        """As of a processor, without inputs."""
        if isinstance(kernel, Repeated) or (isinstance(kernel, Gemm) and kernel.apart):
            return super().time(kernel, prefix, kind)
        plain = super().time
        return priced(kernel, lambda one: plain(one, prefix, kind), self.classes)


@dataclass(frozen=True)
class DistinctPasses(Passes):
    """Passes whose network is asked once for messages that are alike."""

    classes: Classes = ()

    def message(self, message: Message, prefix: str = "") -> Part:
        """As of passes, without inputs."""
        plain = super().message
        return priced(message, lambda one: plain(one, prefix), self.classes)


def _columns(thing: Any) -> Iterator[Column]:
    """Of a record, and of the records in it."""
    for one in fields(thing):
        value = getattr(thing, one.name)
        if is_dataclass(value):
            yield from _columns(value)
        elif np.ndim(value):
            yield value


def _rows(thing: Any, which: NDArray[np.int64]) -> Any:
    """A record with some rows of its columns."""
    values = {one.name: getattr(thing, one.name) for one in fields(thing)}
    cut = {
        n: _rows(v, which) if is_dataclass(v) else v[which] for n, v in values.items() if is_dataclass(v) or np.ndim(v)
    }
    return replace(thing, **cut)
