"""Algorithms that a user may fix for a collective, whatever the library would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.cost.routes import route
from perfmodel.errors import InputError, Place, Problem
from perfmodel.formulas import collectives as flat
from perfmodel.formulas import collectives_layered as layered
from perfmodel.origin import place_of
from perfmodel.parallel.layout import Group
from perfmodel.yamlfile import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.cost.routes import Route
    from perfmodel.cost.transport import Transport
    from perfmodel.parallel import Message
    from perfmodel.parallel.messages import Collective
    from perfmodel.specs.network import Tier
    from perfmodel.units import Number

REDUCE: dict[str, Callable[..., Any]] = {
    "ring": flat.ring_all_reduce, "tree": flat.tree_all_reduce, "halving-doubling": flat.halving_doubling_all_reduce,
    "direct": flat.direct_all_reduce, "chained-tree": layered.chained_tree_all_reduce,
    "hierarchical": layered.hierarchical_all_reduce, "in-network": layered.in_network_all_reduce,
}  # fmt: skip
GATHER: dict[str, Callable[..., Any]] = {
    "ring": flat.ring_all_gather, "halving-doubling": flat.doubling_all_gather, "direct": flat.direct_all_gather,
}  # fmt: skip
ROOTED: dict[str, Callable[..., Any]] = {"ring": flat.chain_broadcast, "tree": flat.tree_broadcast}
ALGORITHMS: dict[Collective, dict[str, Callable[..., Any]]] = {
    "all-reduce": REDUCE, "reduce-scatter": GATHER, "all-gather": GATHER, "broadcast": ROOTED, "reduce": ROOTED,
    "all-to-all": {"pairwise": flat.pairwise_all_to_all, "direct": flat.direct_all_gather},
}  # fmt: skip
"""By collective; of a reduce-scatter that of the all-gather, of a reduction that of the broadcast. On a torus rings go along
all axes of the group at once."""

AROUND = {"ring", "hierarchical", "pairwise"}
"""Algorithms that pass all hosts one after the other; the others pass as many as a tree has levels."""


def bare(
    message: Message, network: tuple[Tier, ...], costs: Transport, way: Route, algorithm: str
) -> dict[str, Number]:
    """Time of the steps and transfers of one algorithm, the bytes that a rank sends, and how often buffers fill.

    Raises InputError where the collective has no such algorithm, or no switch reduces.
    """
    known = ALGORITHMS.get(message.collective, {})
    if algorithm not in known:
        hint = nearest(algorithm, known) or f"; known are {', '.join(known)}"
        raise _refused(algorithm, f"{message.collective} has no algorithm {str(algorithm)!r}{hint}")
    size, ranks = message.size, message.group.size
    inputs = {"bandwidth": way.bandwidth, "latency": way.ring_latency, "ranks": ranks}
    match algorithm:
        case "tree" | "halving-doubling":
            inputs["latency"] = way.tree_latency
        case "chained-tree":
            inputs = {"ranks": ranks, **_chained(network, costs)}
        case "hierarchical":
            inputs = _levels(network, message.group)
        case "in-network":
            inputs |= _switch(costs, algorithm)
    passes = 2 if message.collective == "all-reduce" else 1
    wire = passes * (np.asarray(ranks) - 1) / ranks * size
    hops = costs.hosts - 1 if algorithm in AROUND else np.log2(costs.hosts)
    return {"bare": known[algorithm](size=size, **inputs), "wire": wire, "fills": np.maximum(hops * passes / 2, 1)}


def _chained(network: tuple[Tier, ...], costs: Transport) -> dict[str, Number]:
    inner = route(network, costs.inside)
    return {
        "hosts": costs.hosts, "inner_bandwidth": np.minimum(inner.bandwidth, costs.chain),
        "inner_latency": inner.ring_latency, "outer_bandwidth": costs.outer_bandwidth * costs.near,
        "outer_latency": costs.outer_latency,
    }  # fmt: skip


def _refused(algorithm: str, message: str) -> InputError:
    return InputError([Problem(place_of(algorithm, Place("algorithm")), "collective", message)])


def _switch(costs: Transport, algorithm: str) -> dict[str, Number]:
    if not np.all(costs.switch_bandwidth):
        raise _refused(algorithm, "no switch of this group reduces; take fastest, or give its tier 'in_network'")
    return {"bandwidth": costs.switch_bandwidth, "latency": costs.cost("ramp")}


def _levels(network: tuple[Tier, ...], group: Group) -> dict[str, Number]:
    """Fan-out, bandwidth of one rank and latency of the three outermost levels that the group crosses."""
    levels: list[tuple[Number, Number, Number]] = [(1.0, 1.0, 0.0)] * 3
    inside: Number = 1.0
    for tier in network:
        members = group.inside(tier.devices).size
        if np.any(members > inside):
            units = Group(members / inside, group.stride * inside, job=group.job)
            way = route(network, units)
            levels.append((units.size, way.bandwidth, way.ring_latency))
        inside = members
    named = zip(("near", "middle", "far"), levels[-3:], strict=True)
    return {
        key: value
        for name, (fan, bandwidth, latency) in named
        for key, value in ((name, fan), (f"{name}_bandwidth", bandwidth), (f"{name}_latency", latency))
    }
