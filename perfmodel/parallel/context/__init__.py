"""Context parallelism: each sequence cut into equal parts; one file for each way in which attention sees all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfmodel.graph.ops import Attention, Elementwise, Embedding, Experts, Linear, Loss, Norm, Op, Scan
from perfmodel.parallel.context import all_gather, gathered_ring, ring, scan, ulysses
from perfmodel.parallel.context.ulysses_ring import UlyssesRing

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.parallel.layout import Group
    from perfmodel.parallel.messages import Message
    from perfmodel.specs import Strategy
    from perfmodel.specs.strategy import Context
    from perfmodel.units import Count


@dataclass(frozen=True, slots=True)
class Form:
    """What one rank does of attention, and what it exchanges for that."""

    shard: Callable[[Attention, Count], Attention]
    """Of whole attention, for a number of ranks."""
    messages: Callable[[Attention, Group, bool], tuple[Message, ...]]
    """Of one rank's part, forward or (True) backward."""


FORMS: dict[Context, Form] = {
    "all-gather": Form(all_gather.shard, all_gather.messages),
    "ring": Form(ring.shard, ring.messages),
    "gathered-ring": Form(gathered_ring.shard, gathered_ring.messages),
    "ulysses": Form(ulysses.shard, ulysses.messages),
}
"""What `context` of a strategy means, but for the one that has a degree of its own."""


def form_of(strategy: Strategy) -> Form:
    """How this strategy spreads attention over the ranks of a sequence."""
    form = FORMS.get(strategy.context) or _both(strategy)
    return form if strategy.context_overlap == "blocks" else Form(form.shard, _Waited(form.messages))


def _both(strategy: Strategy) -> Form:
    both = UlyssesRing(strategy.ulysses_degree or 1)
    return Form(both.shard, both.messages)


@dataclass(frozen=True, slots=True)
class _Waited:
    """Messages of a form, none of which travels beside a kernel."""

    messages: Callable[[Attention, Group, bool], tuple[Message, ...]]

    def __call__(self, op: Attention, group: Group, backward: bool) -> tuple[Message, ...]:
        return tuple(replace(message, under="") for message in self.messages(op, group, backward))


def shard(op: Op, form: Form, *, ranks: Count) -> Op:
    """What one of ``ranks`` does of ``op``: all but attention and state spaces works token by token."""
    match op:
        case Linear() | Norm() | Embedding() | Loss():
            return replace(op, rows=op.rows / ranks)
        case Elementwise():
            return replace(op, elements=op.elements / ranks)
        case Experts():
            return replace(op, tokens=op.tokens / ranks, sequence=op.sequence / ranks)
        case Attention():
            return form.shard(op, ranks)
        case Scan():
            return scan.shard(op, ranks)
        case _:
            return op


def messages(op: Op, form: Form, group: Group, *, backward: bool) -> tuple[Message, ...]:
    """What one rank's part of an operation exchanges."""
    match op:
        case Attention():
            return form.messages(op, group, backward)
        case Scan():
            return scan.messages(op, group, backward)
        case _:
            return ()
