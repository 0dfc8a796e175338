"""What ranks send one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from perfmodel.parallel.layout import Group
    from perfmodel.units import Bytes, Count

Collective = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "send"]


ELSEWHERE = "another pass"
"""Of a message that travels beside a whole pass of another microbatch."""


@dataclass(frozen=True, slots=True)
class Message:
    """One collective of a group.

    Of an all-reduce the size is what each rank contributes, of an all-gather what each rank holds in
    the end, of a reduce-scatter what it holds in the beginning, of an all-to-all what it sends to all
    ranks, itself included.
    """

    name: str
    collective: Collective
    size: Bytes
    group: Group
    under: str = ""
    """The kernel beside which it travels, or `ELSEWHERE`; empty where nothing hides it."""
    imbalance: Count = 1.0
    """Of an all-to-all: bytes of the rank that sends or receives most, over the mean."""
    rounds: Count | None = None
    """Repetitions of that kernel beside which it travels, once each, or of the message alone where nothing hides it; None travels
    once, beside all of them."""
    pieces: Count = 1
    """In which it travels beside that kernel, a product that is cut by rows into as many."""
