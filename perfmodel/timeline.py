"""Time as a small algebra: leaves are formula calls, and three ways join them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from perfmodel.units import TINY, Count, Number, Seconds

COMMUNICATION = (
    "tensor parallel",
    "context parallel",
    "expert parallel",
    "table parallel",
    "data parallel",
    "pipeline parallel",
    "push",
    "pull",
    "server",
)
"""Kinds of terms that are messages."""
IDLE = (*COMMUNICATION, "offload", "bubble", "host", "input")
"""Kinds of terms in which no kernel runs."""


@dataclass(frozen=True, slots=True)
class Term:
    """A formula call and what it gave: value, equation and source cannot part."""

    name: str
    formula: Callable[..., Any]
    inputs: Mapping[str, Any]
    time: Number
    kind: str = "compute"


@dataclass(frozen=True, slots=True)
class Serial:
    """Parts one after the other."""

    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Parts at the same time; the first hides the others as far as it reaches.

    Where they contend for the device, both run ``slowdown`` times slower as long as both run: of times
    a and b the whole takes max(a, b) + (slowdown - 1) min(a, b) (derived; Hetu-Galvatron measures and
    uses such a factor).
    """

    name: str
    parts: tuple[Part, ...]
    slowdown: Number = 1.0


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part several times over."""

    name: str
    part: Part
    count: Count
    one_call: bool = False
    """Whether one call of a library launches all of them, so that a host dispatches them once."""


Part = Term | Serial | Overlap | Repeat


def term(name: str, formula: Callable[..., Any], *, kind: str = "compute", **inputs: Any) -> Term:
    """Call ``formula`` and keep the call."""
    return Term(name, formula, inputs, formula(**inputs), kind)


def duration(part: Part, *, hidden: bool = True) -> Seconds:
    """Time of a part; ``hidden=False`` lets nothing overlap, which bounds it from above."""
    match part:
        case Term():
            return part.time
        case Repeat():
            return part.count * duration(part.part, hidden=hidden)
        case Overlap() if hidden:
            return reduce(partial(_together, part.slowdown), (duration(p) for p in part.parts))
        case Serial() | Overlap():
            return sum((duration(p, hidden=hidden) for p in part.parts), start=0.0)


def _together(slowdown: Number, a: Number, b: Number) -> Number:
    whole: Number = np.maximum(a, b) + (slowdown - 1) * np.minimum(a, b)
    return whole


def launches(part: Part) -> Count:
    """Terms that a part executes, repetitions counted unless one call makes them: what a host has to launch."""
    match part:
        case Term():
            return 1.0
        case Repeat():
            return (1.0 if part.one_call else part.count) * launches(part.part)
        case Serial() | Overlap():
            return sum((launches(p) for p in part.parts), start=0.0)


def leaves(part: Part, count: Count = 1.0, exposed: Number = 1.0) -> Iterator[tuple[Term, Number, Number]]:
    """Each term with its total time and the share of it that nothing hides.

    The exposed times of all leaves add up to the duration: within an overlap the parts are taken in
    order, and each is exposed by what it adds to those before.
    """
    match part:
        case Term():
            yield part, part.time * count, part.time * count * exposed
        case Repeat():
            yield from leaves(part.part, count * part.count, exposed)
        case Serial():
            for p in part.parts:
                yield from leaves(p, count, exposed)
        case Overlap():
            covered: Number = 0.0
            for p in part.parts:
                time = duration(p)
                reached = _together(part.slowdown, covered, time)
                share = np.where(np.asarray(time) > 0, (reached - covered) / np.maximum(time, TINY), 0.0)
                yield from leaves(p, count, exposed * share)
                covered = reached
