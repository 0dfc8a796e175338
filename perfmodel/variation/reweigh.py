"""Times of a predicted step by what delays them, and the same step with some of its terms counted more or less often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.timeline import COMMUNICATION, Overlap, Part, Repeat, Serial, Term, leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

GRADIENTS = ("data parallel", "push", "pull", "server")
"""Kinds of terms by which replicas agree."""


@dataclass(frozen=True, slots=True)
class Base:
    """Exposed times of a step; they add up to it."""

    compute: float
    """In kernels, or waiting for the host."""
    bubble: float
    inner: float
    """Messages inside a replica."""
    gradients: float
    """Messages between replicas."""
    update: float
    """The optimiser, after the replicas have agreed."""

    @property
    def communication(self) -> float:
        """All messages."""
        return self.inner + self.gradients

    @property
    def total(self) -> float:
        """The step."""
        return self.compute + self.bubble + self.communication + self.update


def base_of(tree: Part) -> Base:
    """What a step consists of."""
    seen: dict[str, float] = {}
    for leaf, _, exposed in leaves(tree):
        seen[leaf.kind] = seen.get(leaf.kind, 0.0) + float(exposed)
    gradients = sum(seen.pop(kind, 0.0) for kind in GRADIENTS)
    bubble, update = (seen.pop(kind, 0.0) for kind in ("bubble", "optimizer"))
    inner = sum(seen.pop(kind, 0.0) for kind in COMMUNICATION)
    return Base(sum(seen.values()), bubble, inner, gradients, update)


def reweighed(part: Part, weights: Mapping[str, float], default: float = 1.0) -> Part:
    """The tree with each term counted as often as ``weights`` says of its kind."""
    match part:
        case Term():
            count = weights.get(part.kind, default)
            return part if count == 1 else Repeat(part.name, part, count)
        case Repeat():
            return Repeat(part.name, reweighed(part.part, weights, default), part.count)
        case Serial():
            return Serial(part.name, tuple(reweighed(p, weights, default) for p in part.parts))
        case Overlap():
            return Overlap(part.name, tuple(reweighed(p, weights, default) for p in part.parts), part.slowdown)


def loaded(tree: Part, load: float, reduction: float) -> Part:
    """The step of replicas that do ``load`` times their work and send gradients ``reduction`` times shorter."""
    if load == reduction == 1:
        return tree
    return reweighed(tree, dict.fromkeys(GRADIENTS, 1 / reduction) | {"optimizer": 1.0, "bubble": 1.0}, default=load)


def slowed(tree: Part, factor: float) -> Part:
    """The step with its computing, fill and drain longer by a factor."""
    return reweighed(tree, dict.fromkeys(COMMUNICATION, 1.0), default=factor) if factor != 1 else tree
