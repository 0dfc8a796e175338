"""Messages on a network, as terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel.cost.routes import neighbour, route
from perfmodel.formulas.collectives import all_reduce, ring_all_gather, send
from perfmodel.timeline import Term, term

if TYPE_CHECKING:
    from perfmodel.parallel import Message
    from perfmodel.specs.network import Tier


def exchange(message: Message, network: tuple[Tier, ...], kind: str, prefix: str = "") -> Term:
    """The time of one message."""
    name = f"{prefix}{message.name}"
    way = neighbour(network, message.group) if message.collective == "send" else route(network, message.group)
    common: dict[str, Any] = {
        "kind": kind, "size": message.size, "ranks": message.group.size,
        "bandwidth": way.bandwidth, "latency": way.ring_latency,
    }  # fmt: skip
    match message.collective:
        case "all-reduce":
            return term(name, all_reduce, tree_latency=way.tree_latency, **common)
        case "send":
            return term(name, send, **common)
        case _:
            return term(name, ring_all_gather, **common)
