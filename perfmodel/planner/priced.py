"""Parts of time that were priced before: few terms, whose times are columns of a table, in the place of many.

What a schedule tells apart in a pass stays apart: kernels and messages with what they hide of one another, and gradients of weights.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.schedule.parts import only, weight_gradients
from perfmodel.timeline import IDLE, Overlap, Repeat, Serial, Term, duration, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfmodel.timeline import Part
    from perfmodel.units import Count, Number, Seconds

    Floats = NDArray[np.float64]

KERNELS, WEIGHTS, MESSAGES = ("kernels", "compute"), ("weight gradient", "compute"), ("messages", "data parallel")
"""Names and kinds by which `perfmodel.schedule.parts` tells terms apart."""


def flattened(thing: Any, size: int, *, apart: bool) -> Any:
    """A stage or a synchronisation whose parts are few terms of ``size`` rows; ``apart`` tells kernels and messages apart."""
    return each_part(thing, lambda part: _apart(part, size) if apart else _whole(part, size))


def gathered(part: Any, place: NDArray[np.int64]) -> Any:
    """The rows of a table that candidates have."""
    match part:
        case Term():
            inputs = {name: column[place] for name, column in part.inputs.items()}
            return replace(part, time=np.asarray(part.time)[place], inputs=inputs)
        case Serial() | Overlap():
            return replace(part, parts=tuple(gathered(each, place) for each in part.parts))
        case _ if np.ndim(part):
            return part[place]
        case _:
            return part


def computing(part: Part) -> Number:
    """Time of a device in the kernels of a tree whose parts were flattened."""
    total: Number = 0.0
    for leaf, count in _executed(part):
        if leaf.formula is _given:
            total = total + count * leaf.time * leaf.inputs["share"]
    return total


def each_part(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A stage or a synchronisation with each of its parts changed, and with its columns."""
    values = {f.name: getattr(thing, f.name) for f in fields(thing)}
    changed = {k: tuple(map(change, v)) if isinstance(v, tuple) else change(v) for k, v in values.items()}
    return replace(thing, **changed)


def column_of(value: Any, size: int) -> Floats:
    """A number or a column as a column."""
    return np.array(np.broadcast_to(np.asarray(value, dtype=float), size))


def _whole(part: Any, size: int) -> Any:
    """One term for a part; a number becomes a column."""
    if not isinstance(part, Term | Serial | Overlap | Repeat):
        return column_of(part, size)
    time = column_of(duration(part), size)
    return _term(KERNELS, time, _share(part, time))


def _apart(part: Any, size: int) -> Any:
    """Terms with the same time in kernels, in messages and in gradients of weights, and with as much hidden."""
    if not isinstance(part, Term | Serial | Overlap | Repeat):
        return column_of(part, size)
    kernels = column_of(duration(only(part, messages=False)), size)
    messages = column_of(duration(only(part, messages=True)), size)
    hidden = np.maximum(kernels + messages - column_of(duration(part), size), 0.0)
    weights = column_of(weight_gradients(part), size)
    alone = np.minimum(weights, kernels - hidden)
    share = _share(part, kernels)
    open_kernels = (_term(WEIGHTS, alone, share), _term(KERNELS, kernels - hidden - alone, share))
    beside = (_term(WEIGHTS, weights - alone, share), _term(KERNELS, hidden - weights + alone, share))
    nothing = np.zeros(size)
    both = Overlap("beside", (Serial("kernels", beside), _term(MESSAGES, hidden, nothing)))
    return Serial("priced", (*open_kernels, both, _term(MESSAGES, messages - hidden, nothing)))


def _term(named: tuple[str, str], time: Floats, share: Floats) -> Term:
    return Term(named[0], _given, {"share": share}, time, named[1])


def _share(part: Part, time: Floats) -> Floats:
    """Time in kernels over the time of a part."""
    busy = sum((each for leaf, each, _ in leaves(part) if leaf.kind not in IDLE), start=0.0)
    return np.where(time > 0, column_of(busy, len(time)) / np.where(time > 0, time, 1.0), 0.0)


def _executed(part: Part, count: Count = 1.0) -> Iterator[tuple[Term, Count]]:
    """Each term, and how often a step has it."""
    match part:
        case Term():
            yield part, count
        case Repeat():
            yield from _executed(part.part, count * part.count)
        case Serial() | Overlap():
            for each in part.parts:
                yield from _executed(each, count)


def _given(time: Seconds) -> Seconds:
    """A time that was priced before."""
    return time
