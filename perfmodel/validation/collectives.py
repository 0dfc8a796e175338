"""Tables of collectives: time by size, ranks and nodes on one system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.cost.communication import exchange
from perfmodel.parallel import Group, Message
from perfmodel.validation.tables import InexpressibleError, Row, Table, machines, number, size

if TYPE_CHECKING:
    from perfmodel.parallel.messages import Collective
    from perfmodel.specs import Hardware

NAMES: dict[str, Collective] = {
    "all_reduce": "all-reduce", "reduce_scatter": "reduce-scatter", "all_gather": "all-gather",
    "send_recv": "send", "sendrecv": "send",
}  # fmt: skip
"""What tables call the collectives that we model."""


def collective(row: Row, hardware: Hardware) -> float:
    """One collective over the first ``devices`` ranks of the machine."""
    name = NAMES.get(row["collective"])
    if name is None:
        raise InexpressibleError(f"collective {row['collective']}")
    ranks, nodes = number(row, "devices", 0.0), number(row, "nodes", 1.0)
    if ranks < 2:
        raise InexpressibleError("fewer than two ranks")
    if ranks > hardware.reach:
        raise InexpressibleError(f"more ranks than the {hardware.reach} that {hardware.name} joins")
    if nodes > 1 and ranks / nodes != hardware.host.devices:
        raise InexpressibleError("nodes that are used in part")
    message = Message("collective", name, size(row, "bytes"), Group(ranks, 1))
    return float(exchange(message, hardware.network, "collective").time)


def _machine(row: Row) -> str | None:
    systems = machines().systems
    known = [prefix for prefix in systems if row["hardware"].startswith(prefix)]
    return systems[max(known, key=len)] if known else None


def _group(row: Row) -> str:
    return f"{row['collective']} {row['hardware'].partition(' / ')[0]} {row['library'].partition(' ')[0]}"


COLLECTIVES = (
    Table(
        frozenset({"collective", "devices", "nodes", "bytes", "time_us", "hardware", "library"}),
        _group,
        _machine,
        collective,
        lambda row: number(row, "time_us", 0.0) * 1e-6,
    ),
)
"""Kinds of collective tables."""
