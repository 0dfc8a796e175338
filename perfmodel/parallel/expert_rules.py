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
    """A field, whether it breaks a rule, and what to tell of it; {name} stands for the workload."""


def expert_faults(strategy: Any, experts: Experts | None, replicas: Count) -> Iterator[Fault]:
    """Rules of experts, or that there are none to spread."""
    s = strategy
    if experts is None:
        yield "ep", s.ep > 1, "{name} has no experts to spread; leave ep at 1".__str__
        yield "etp", (s.etp or 1) > 1, "{name} has no experts to spread; leave etp out".__str__
        return
    etp = s.tp if s.etp is None else s.etp
    ranks = s.tp * s.cp * replicas
    uneven = np.asarray(experts.count % s.ep != 0)
    yield (
        "ep", uneven,
        lambda: f"{s.ep} does not divide {experts.count} experts; nearest that do: {divisors(s.ep, experts.count)}",
    )  # fmt: skip
    yield "ep", ~uneven & (ranks % (s.ep * etp) != 0), lambda: _no_room(s, int(etp), int(ranks))
    yield from _width_faults(s, experts, etp)
    yield (
        "sequence_parallel", (s.tp > 1) & (not s.sequence_parallel),
        lambda: f"experts take the tokens of each of the tp {s.tp} ranks, which without it all hold the same; turn it on",
    )  # fmt: skip
    yield (
        "sync", (s.ep > 1) & (s.sync != "all-reduce"),
        lambda: f"{s.sync} keeps whole replicas, but ep {s.ep} spreads the experts; take all-reduce, or leave ep at 1",
    )  # fmt: skip


def _no_room(s: Any, etp: int, ranks: int) -> str:
    room = f"nearest that do: {divisors(s.ep, ranks // etp)}" if ranks % etp == 0 else f"take etp {s.tp}"
    return f"ep x etp = {s.ep} x {etp} does not divide the {ranks} devices of a stage (tp x cp x dp); {room}"


def _width_faults(s: Any, experts: Experts, etp: Count) -> Iterator[Fault]:
    width, shared = experts.ffn_hidden, experts.shared_ffn_hidden
    yield (
        "etp", width % etp != 0,
        lambda: f"{etp} does not divide the width {width} of an expert; nearest that do: {divisors(int(etp), width)}",
    )  # fmt: skip
    yield (
        "tp", shared % s.tp != 0,
        lambda: f"{s.tp} does not divide the width {shared} of shared experts; nearest that do: {divisors(s.tp, shared)}",
    )  # fmt: skip
