"""Sequences of several lengths: how long they are, how they become rows of a batch, and which rank gets which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Fraction, KeepOrigin
from perfmodel.specs.common import Group, Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

SUM_ERROR = 1e-6
"""By which shares that are written with few digits may miss one."""


class LognormalLengths(Spec):
    """exp(N(ln median, sigma)) tokens, in whole numbers."""

    kind: Literal["lognormal"]
    median: Annotated[Fraction, Field(ge=1)]
    sigma: Annotated[Fraction, Field(ge=0, le=5)]
    most: Size | None = None
    """Longer sequences are cut to so many tokens; default the sequence length of the workload."""


class HistogramLengths(Spec):
    """Measured lengths."""

    kind: Literal["histogram"]
    lengths: tuple[Size, ...] = Field(min_length=1)
    shares: tuple[Annotated[Fraction, Field(ge=0)], ...] = Field(min_length=1)
    """Of the sequences with each length, adding up to 1."""


AnyLengths = Annotated[LognormalLengths | HistogramLengths, Field(discriminator="kind")]


class UnequalSequences(Group):
    """Lengths of the sequences of a batch, and what is done about their differing."""

    distribution: AnyLengths
    rows: Annotated[Literal["sequence", "longest", "packed"], KeepOrigin] = "longest"
    """sequence: each is padded to the sequence length of the workload. longest: to the longest of its microbatch. packed: several
    share a row of that length, and attention keeps them apart; the batch then counts rows."""
    assignment: Annotated[Literal["in-turn", "balanced"], KeepOrigin] = "in-turn"
    """in-turn: ranks get microbatches as they come. balanced: like lengths share a microbatch, and the next goes to the rank with least work."""
    context: Annotated[Literal["shared", "by-length"], KeepOrigin] = "shared"
    """shared: all context parallel ranks share each sequence. by-length: each takes as many as hold it, one if that is enough."""


def length_faults(given: UnequalSequences) -> Iterator[Fault]:
    """A histogram that does not add up, rows that cannot have a context degree by length."""
    made = given.distribution
    if isinstance(made, HistogramLengths):
        if len(made.lengths) != len(made.shares):
            yield Fault("lengths.distribution.shares", f"{len(made.shares)} shares for {len(made.lengths)} lengths")
        total = sum(made.shares)
        if abs(total - 1) > SUM_ERROR:
            message = f"add up to {total:.6g}, not to 1; divide each by {total:.6g}"
            yield Fault("lengths.distribution.shares", message)
    if given.context == "by-length" and given.rows != "longest":
        message = f"is for rows of one sequence each, padded to the longest, not {str(given.rows)!r}"
        yield Fault("lengths.context", message, given.context)
