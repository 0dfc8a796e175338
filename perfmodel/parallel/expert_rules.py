"""What must hold between a mixture of experts and the degrees that spread it, which may be numbers or columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.parallel.near import divisors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.specs.experts import Experts
    from perfmodel.units import Count

    Fault = tuple[str, Any, Callable[[], str]]
    """The field that a rule blames, where it is broken, and what to tell of it."""


def expert_rules(strategy: Any, experts: Experts | None, replicas: Count, name: str) -> Iterator[Fault]:
    """Rules for the experts of a strategy, or of anything with degrees of the same names that are columns."""
    s = strategy
    if experts is None:
        for field, remedy in (("ep", "ep at 1"), ("etp", "etp out")):
            message = f"{name} has no experts to spread; leave {remedy}"
            yield field, np.asarray(getattr(s, field) or 1) > 1, message.__str__
        return
    etp = s.tp if s.etp is None else s.etp
    yield from _spreading_rules(s, experts, s.tp * s.cp * replicas, etp)

    def width(size: int, degree: Count, of: str) -> Callable[[], str]:
        return lambda: (
            f"{degree} does not divide the width {size} of {of}; nearest that do: {divisors(int(degree), size)}"
        )

    yield "etp", np.asarray(experts.ffn_hidden % etp != 0), width(experts.ffn_hidden, etp, "an expert")
    shared = experts.shared_ffn_hidden
    yield "tp", np.asarray(shared % s.tp != 0), width(shared, s.tp, "shared experts")
    yield (
        "sequence_parallel", (np.asarray(s.tp) > 1) & np.logical_not(s.sequence_parallel),
        lambda: f"experts take the tokens of each of the tp {s.tp} ranks, which without it all hold the same; turn it on",
    )  # fmt: skip
    if s.sync != "all-reduce":
        yield (
            "sync", np.asarray(s.ep) > 1,
            lambda: f"{s.sync} keeps whole replicas, but ep {s.ep} spreads the experts; take all-reduce, or leave ep at 1",
        )  # fmt: skip


def _spreading_rules(strategy: Any, experts: Experts, ranks: Count, etp: Count) -> Iterator[Fault]:
    """Experts over groups, and groups over the devices of a stage."""
    s = strategy
    uneven = np.asarray(experts.count % s.ep != 0)
    yield (
        "ep", uneven,
        lambda: f"{s.ep} does not divide {experts.count} experts; nearest that do: {divisors(s.ep, experts.count)}",
    )  # fmt: skip

    def room() -> str:
        fits = f"nearest that do: {divisors(s.ep, int(ranks // etp))}" if ranks % etp == 0 else f"take etp {s.tp}"
        return f"ep x etp = {s.ep} x {etp} does not divide the {ranks} devices of a stage (tp x cp x dp); {fits}"

    yield "ep", ~uneven & (ranks % (s.ep * etp) != 0), room
