"""What must hold between a mixture of experts and the degrees that spread it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.parallel.near import divisors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs import Strategy
    from perfmodel.specs.experts import Experts


def expert_faults(strategy: Strategy, experts: Experts | None, replicas: int) -> Iterator[tuple[str, str]]:
    """Fields that break a rule, with what and how to mend it; {name} stands for the workload."""
    s = strategy
    if experts is None:
        for field in ("ep", "etp"):
            if (getattr(s, field) or 1) > 1:
                yield (
                    field,
                    "{name} has no experts to spread; leave " + (f"{field} at 1" if field == "ep" else "etp out"),
                )
        return
    etp = s.etp or s.tp
    ranks = s.tp * s.cp * replicas
    if experts.count % s.ep:
        yield "ep", f"{s.ep} does not divide {experts.count} experts; nearest that do: {divisors(s.ep, experts.count)}"
    elif ranks % (s.ep * etp):
        room = f"nearest that do: {divisors(s.ep, ranks // etp)}" if ranks % etp == 0 else f"take etp {s.tp}"
        yield (
            "ep",
            f"ep x etp = {s.ep} x {etp} does not divide the {ranks} devices of a stage (tp x cp x dp); {room}",
        )
    if experts.ffn_hidden % etp:
        nearest = divisors(etp, experts.ffn_hidden)
        yield "etp", f"{etp} does not divide the width {experts.ffn_hidden} of an expert; nearest that do: {nearest}"
    if experts.shared_ffn_hidden % s.tp:
        nearest = divisors(s.tp, experts.shared_ffn_hidden)
        yield (
            "tp",
            f"{s.tp} does not divide the width {experts.shared_ffn_hidden} of shared experts; nearest that do: {nearest}",
        )
    if s.tp > 1 and not s.sequence_parallel:
        yield (
            "sequence_parallel",
            f"experts take the tokens of each of the tp {s.tp} ranks, which without it all hold the same; turn it on",
        )
    if s.ep > 1 and s.sync != "all-reduce":
        yield (
            "sync",
            f"{s.sync} keeps whole replicas, but ep {s.ep} spreads the experts; take all-reduce, or leave ep at 1",
        )
