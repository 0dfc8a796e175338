"""Parts of a pass told apart: kernels and messages, gradients of inputs and of weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.timeline import Overlap, Part, Repeat, Serial, Term, leaves

if TYPE_CHECKING:
    from perfmodel.units import Seconds

WEIGHT = ("weight gradient", "bias gradient", "parameter gradient", "gradient accumulation")
"""How the names of kernels end whose results no other stage waits for."""
MESSAGES = (" parallel", "push", "pull", "offload")
"""How the kinds of terms end that are messages."""


def only(part: Part, *, messages: bool) -> Part:
    """A part without its kernels, or without its messages."""
    match part:
        case Term():
            kept = part.kind.endswith(MESSAGES) == messages
            return part if kept else replace(part, time=0.0 * part.time)
        case Repeat():
            return replace(part, part=only(part.part, messages=messages))
        case Serial() | Overlap():
            return replace(part, parts=tuple(only(each, messages=messages) for each in part.parts))


def weight_gradients(backward: Part) -> Seconds:
    """Time of a backward pass that goes into the gradients of weights; the rest goes into those of inputs."""
    return sum((exposed for leaf, _, exposed in leaves(backward) if leaf.name.endswith(WEIGHT)), start=0.0)
