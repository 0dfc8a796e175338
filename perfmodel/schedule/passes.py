"""What a device executes: passes of microbatches through chunks of the model, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfmodel.units import Count, Number

Kind = Literal["forward", "backward", "weight"]
"""Backward makes the gradients of inputs, weight those of weights."""


class Pass(NamedTuple):
    """One microbatch through one chunk of the model."""

    kind: Kind
    microbatch: int
    position: int
    """Of the chunk along the model, counted from 0; passes forward again stand at further positions."""


Slot = tuple[Pass, ...]
"""Passes that a device executes as one."""
Order = tuple[tuple[Slot, ...], ...]
"""What each device executes."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What the closed form of a schedule needs: one microbatch through one of equal stages."""

    forward: Number
    backward: Number
    """Gradients of inputs, and what is recomputed for them."""
    weight: Number
    whole: Number
    """Forward and backward, one after the other."""
    together: Number
    """A forward and a backward pass that overlap."""
    stages: Count
    chunks: Count
    microbatches: Count


def forward_pass(microbatch: int, position: int) -> Slot:
    """A forward pass alone."""
    return (Pass("forward", microbatch, position),)


def backward_pass(microbatch: int, position: int) -> Slot:
    """The gradients of inputs alone."""
    return (Pass("backward", microbatch, position),)


def weight_pass(microbatch: int, position: int) -> Slot:
    """The gradients of weights alone."""
    return (Pass("weight", microbatch, position),)


def whole_backward(microbatch: int, position: int) -> Slot:
    """A whole backward pass."""
    return (*backward_pass(microbatch, position), *weight_pass(microbatch, position))


def arranged(devices: Iterable[Iterable[Slot]]) -> Order:
    """What each device executes, as tuples."""
    return tuple(tuple(slots) for slots in devices)
