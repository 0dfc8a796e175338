"""What must hold between state-space layers and the degrees that spread them, which may be numbers or columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.parallel.near import divisors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.specs.statespace import StateSpace

    Fault = tuple[str, Any, Callable[[], str]]


def scan_rules(strategy: Any, shape: StateSpace) -> Iterator[Fault]:
    """Heads and groups are divided by tensor parallelism; context parallelism divides heads again, and groups or copies of them."""
    s = strategy
    heads, groups = (np.asarray(size % s.tp != 0) for size in (shape.heads, shape.groups))

    def divides(size: int, what: str) -> Callable[[], str]:
        return lambda: f"{s.tp} does not divide {size} state-space {what}; nearest that do: {divisors(int(s.tp), size)}"

    yield "tp", heads, divides(shape.heads, "heads")
    yield "tp", ~heads & groups, divides(shape.groups, "groups")
    ranks = s.tp * s.cp
    spread = np.asarray(s.cp) > 1
    yield (
        "cp", spread & ~heads & (shape.heads % ranks != 0),
        lambda: f"tp x cp = {ranks} does not divide the {shape.heads} state-space heads that context parallelism spreads",
    )  # fmt: skip
    yield (
        "cp", spread & ~groups & (shape.groups % ranks != 0) & (ranks % shape.groups != 0),
        lambda: f"tp x cp = {ranks} and {shape.groups} state-space groups do not divide one another",
    )  # fmt: skip
