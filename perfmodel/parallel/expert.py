"""Expert parallelism: the experts of each layer spread over ranks, to which tokens travel and from which they return.

The ranks of one pipeline stage are grouped anew for the experts: etp ranks share each expert, ep such groups share the
experts of a layer, and what is left holds copies (parallel folding, Liu et al., 2025, arXiv:2504.14960).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, Literal

import numpy as np

from perfmodel.graph.ops import Experts
from perfmodel.parallel.layout import Group
from perfmodel.parallel.messages import ELSEWHERE, Message

if TYPE_CHECKING:
    from perfmodel.graph.ops import Op
    from perfmodel.parallel.layout import Layout
    from perfmodel.specs import Strategy
    from perfmodel.specs.sharding import Scope
    from perfmodel.units import Count

Degree = Literal["etp", "ep", "edp"]
NAMES: dict[str, Degree] = {"tp": "etp", "ep": "ep", "dp": "edp"}
"""What takes the place of a degree of the strategy's order where experts are concerned."""


@dataclass(frozen=True, slots=True)
class ExpertGroups:
    """Who holds and who exchanges what, among the ranks of one pipeline stage."""

    layout: Layout

    @property
    def copies(self) -> Count:
        """Ranks that hold the same part of the same experts."""
        layout = self.layout
        return layout.tp * layout.cp * layout.dp / (layout.ep * layout.etp)

    @property
    def shards_size(self) -> Count:
        """Of the copies, those that share states of ZeRO: of whole shard groups that are near."""
        layout = self.layout
        near = layout.shard_group * layout.tp / (layout.ep * layout.etp)
        return np.clip(near, 1, self.copies)

    @property
    def exchange(self) -> Group:
        """Ranks among which tokens travel."""
        return self._group(self._stride("ep"), self.layout.ep)

    @property
    def inside(self) -> Group:
        """Of them, those in one host."""
        return self.exchange.inside(self._host)

    @property
    def outside(self) -> Group:
        """One rank of each host, among those that tokens travel between."""
        return self.exchange.outside(self._host)

    @property
    def _host(self) -> Count:
        """Devices of one host; without hosts, all."""
        return self.layout.host or self.layout.devices

    @property
    def tensor(self) -> Group:
        """Ranks that share each expert."""
        return self._group(self._stride("etp"), self.layout.etp)

    @property
    def together(self) -> Group:
        """Ranks that hold all experts between them, where those that share an expert are near."""
        return self._group(self._stride("etp"), self.layout.etp * self.layout.ep)

    def parts(self, scope: Scope) -> Count:
        """Into which a state is cut that is spread so far."""
        return {"N": 1, "I": self.shards_size, "G": self.copies}[scope]

    def between(self, near: Scope, far: Scope) -> Group:
        """Ranks that hold the same part of what is spread over `near`, and another of what is spread over `far`."""
        return self._group(self._stride("edp") * self.parts(near), self.parts(far) / self.parts(near))

    def _stride(self, degree: Degree) -> Count:
        """Ranks of a stage from one of a degree to the next."""
        sizes: dict[Degree, Count] = {"etp": self.layout.etp, "ep": self.layout.ep, "edp": self.copies}
        names = [NAMES[name] for name in self.layout.order.split("-") if name in NAMES]
        return reduce(mul, (sizes[name] for name in names[: names.index(degree)]), 1)

    def _group(self, first: Count, size: Count) -> Group:
        """Of the ranks of a stage in their order, ``size`` of them, each ``first`` from the next.

        Where the pipeline is not the outermost degree, the ranks of a stage are rows with other stages in between.
        """
        layout = self.layout
        names = [name for name in layout.order.split("-") if name != "ep"]
        inside = [getattr(layout, name) for name in names[: names.index("pp")]]
        row = reduce(mul, inside, 1)
        step = np.minimum(first, row)
        members = np.minimum(size, row / step)
        apart = row * layout.pp * first / step
        several = np.asarray(members) > 1
        stride = np.where(several, step, apart)
        return Group(size, stride, np.where(several, size / members, 1), apart, layout.devices)


def shard(op: Op, layout: Layout, strategy: Strategy) -> Op:
    """What one rank computes of the experts of one replica.

    Of T tokens that t c ranks of a replica hold, each has T / (t c); the etp ranks of an expert see those of all of them. Where
    all tokens go to all ranks, each sorts those for its experts afterwards.
    """
    if not isinstance(op, Experts):
        return op
    spread, gathered = np.asarray(layout.ep) > 1, strategy.dispatcher == "all-gather"
    held = op.experts / layout.ep
    return replace(
        op, tokens=op.tokens * layout.etp / layout.tp, experts=held, inner=op.inner / layout.etp,
        load=np.where(spread, op.imbalance, 1.0) if op.capacity is None else op.capacity,
        own=1 if gathered else 1 / layout.etp, again=False if gathered else spread & (np.asarray(held) > 1),
        permutation=strategy.permutation,
        apart=strategy.expert_kernels == "each",
    )  # fmt: skip


def messages(op: Op, held: Op, layout: Layout, strategy: Strategy) -> tuple[Message, ...]:
    """Tokens to their experts and back; forward and backward alike.

    Args:
        op: the layer of one replica.
        held: what one rank has of it.
        layout: degrees.
        strategy: how tokens are sent.
    """
    if not isinstance(op, Experts) or not isinstance(held, Experts):
        return ()
    groups = ExpertGroups(layout)
    under = ELSEWHERE if strategy.expert_overlap == "passes" else ""
    vector = op.hidden * op.element
    if strategy.dispatcher == "all-gather":
        size = op.tokens / op.top_k / layout.tp * layout.ep * layout.etp * vector
        return (
            Message("expert all-gather", "all-gather", size, groups.together, under),
            Message("expert reduce-scatter", "reduce-scatter", size, groups.together, under),
        )
    gathered = held.tokens * held.load * vector
    return (
        *_exchange("expert dispatch", op, groups, strategy, under),
        Message("expert all-gather", "all-gather", gathered, groups.tensor, under),
        Message("expert reduce-scatter", "reduce-scatter", gathered, groups.tensor, under),
        *_exchange("expert combine", op, groups, strategy, under),
    )


def _exchange(
    name: str, op: Experts, groups: ExpertGroups, strategy: Strategy, under: str
) -> tuple[Message, ...]:  # fmt: skip
    """A copy of each token for each of its experts; or one for each host that has some, and there one for each rank."""
    layout = groups.layout
    tokens = op.tokens / op.top_k / layout.tp * (1.0 if op.capacity is None else op.capacity)
    token, imbalance = op.hidden * op.element, op.imbalance if op.capacity is None else 1.0
    if strategy.dispatcher == "all-to-all":
        return (Message(name, "all-to-all", tokens * op.top_k * token, groups.exchange, under, imbalance),)
    inside, between = groups.inside, groups.outside
    far, near = tokens * destinations(op, between.size) * token, tokens * destinations(op, layout.ep) * token
    return (
        Message(f"{name} between hosts", "all-to-all", far, between, under, imbalance),
        Message(name, "all-to-all", near, inside, under, imbalance),
    )


def destinations(op: Experts, ranks: Count) -> Count:
    """Ranks that a token goes to on average, if its k experts are any of the E, E/p of them on each rank.

    A rank has none of them with probability (1 - (E/p)/E) (1 - (E/p)/(E-1)) ... over k factors (derived). Where a token
    goes to a few groups of experts alone, no more ranks than have a part of those.
    """
    held = op.experts / ranks
    none = reduce(mul, (np.maximum(1 - held / (op.experts - i), 0) for i in range(int(op.top_k))), 1.0)
    most = np.where(np.asarray(op.groups) > 1, op.top_groups * np.maximum(ranks / op.groups, 1), ranks)
    return np.minimum(ranks * (1 - none), most)
