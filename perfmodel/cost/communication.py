"""Messages on a network, as terms: the algorithm that a library takes, or one that the user fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.cost.algorithms import bare
from perfmodel.cost.routes import levels, neighbour, route
from perfmodel.cost.transport import transport
from perfmodel.formulas.collectives_library import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    fixed_algorithm,
    send_receive,
)
from perfmodel.formulas.host import polling
from perfmodel.timeline import Serial, Term, term

if TYPE_CHECKING:
    from perfmodel.cost.routes import Route
    from perfmodel.cost.transport import Transport
    from perfmodel.parallel import Message
    from perfmodel.specs import Strategy
    from perfmodel.specs.network import Tier
    from perfmodel.timeline import Part
    from perfmodel.units import Count

Inputs = dict[str, Any]


def exchange(
    message: Message, network: tuple[Tier, ...], kind: str, prefix: str = "", algorithm: str = "fastest"
) -> Term:
    """The time of one message.

    Args:
        message: what is sent, and among whom.
        network: tiers of the machine.
        kind: of the term.
        prefix: of its name.
        algorithm: one of `perfmodel.cost.algorithms.ALGORITHMS`, or the one that the library would take.
    """
    name = f"{prefix}{message.name}"
    common: Inputs = {"kind": kind, "size": message.size, "ranks": message.group.size}
    network = levels(network)
    costs = transport(network, message.group)
    if message.collective == "send":
        way = neighbour(network, message.group)
        return term(
            name,
            send_receive,
            latency=way.ring_latency,
            bandwidth=way.bandwidth * costs.direct,
            **common,
            **_pair(costs),
        )
    way = route(network, message.group)
    if algorithm != "fastest":
        return _fixed(name, message, network, costs, way, algorithm, kind)
    if message.collective == "all-to-all":
        return term(
            name,
            all_to_all,
            imbalance=message.imbalance,
            **common,
            **_both_sides(network, costs),
            **_pair(costs),
        )
    ring = {"bandwidth": way.bandwidth, "latency": way.ring_latency, "hosts": costs.hosts, **_start(costs), **common}
    match message.collective:
        case "all-reduce":
            return term(name, all_reduce, **ring, **_hosts(network, costs, way))
        case "broadcast" | "reduce":
            return term(name, broadcast, **ring)
        case _:
            return term(name, all_gather, **ring)


def started(sent: Term, strategy: Strategy, ranks: Count) -> Part:
    """A message, after the wait for the thread that starts it where the framework has one.

    Args:
        sent: the message.
        strategy: whose framework it is.
        ranks: that take part.
    """
    cycle = strategy.framework and strategy.framework.cycle
    if cycle is None:
        return sent
    return Serial(sent.name, (term(f"{sent.name} start", polling, kind=sent.kind, ranks=ranks, cycle=cycle), sent))


def _start(costs: Transport) -> Inputs:
    return {name: costs.cost(name) for name in ("setup", "ramp", "ramp_size")}


def _pair(costs: Transport) -> Inputs:
    return {name: costs.cost(name) for name in ("setup", "handshake", "eager")}


def _inside(network: tuple[Tier, ...], costs: Transport, way: Route) -> Route:
    """The way inside one host: the whole way where no host is left."""
    if np.all(costs.hosts <= 1):
        return way
    return route(network, costs.inside)


def _hosts(network: tuple[Tier, ...], costs: Transport, way: Route) -> Inputs:
    inner = _inside(network, costs, way)
    return {
        "inner_bandwidth": np.minimum(inner.bandwidth, costs.chain), "inner_latency": inner.ring_latency,
        "outer_bandwidth": costs.outer_bandwidth * costs.near, "outer_latency": costs.outer_latency,
        "switch_bandwidth": costs.switch_bandwidth, "between_two": costs.between_two,
    }  # fmt: skip


def _both_sides(network: tuple[Tier, ...], costs: Transport) -> Inputs:
    inner = route(network, costs.inside)
    return {
        "near": costs.near, "near_bandwidth": inner.bandwidth * costs.near_direct,
        "far_bandwidth": costs.outer_bandwidth * costs.direct, "latency": costs.cost("latency"), "post": costs.post,
    }  # fmt: skip


def _fixed(
    name: str, message: Message, network: tuple[Tier, ...], costs: Transport, way: Route, algorithm: str, kind: str
) -> Term:
    made = bare(message, network, costs, way, algorithm)
    return term(f"{name} ({algorithm})", fixed_algorithm, kind=kind, **made, **_start(costs))
