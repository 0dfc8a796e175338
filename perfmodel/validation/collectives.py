"""Tables of collectives: time by size, ranks and nodes on one system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.cost.communication import exchange
from perfmodel.parallel import Group, Message
from perfmodel.validation.tables import InexpressibleError, Row, Table, machines

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
    ranks, nodes = float(row["devices"] or 0), float(row["nodes"] or 1)
    if ranks < 2 or not row["bytes"]:
        raise InexpressibleError("fewer than two ranks, or no size given")
    if nodes > 1 and ranks / nodes != hardware.host.devices:
        raise InexpressibleError("nodes that are used in part")
    message = Message("collective", name, float(row["bytes"]), Group(ranks, 1))
    return float(exchange(message, hardware.network, "collective").time)


def _machine(row: Row) -> str | None:
    systems = machines().systems
    known = [prefix for prefix in systems if row["hardware"].startswith(prefix)]
    return systems[max(known, key=len)] if known else None


def _group(row: Row) -> str:
    return f"{row['collective']} {row['hardware'].partition(' / ')[0]} {row['library'].partition(' ')[0]}"


COLLECTIVES = (
    Table(frozenset({"collective", "devices", "nodes", "bytes", "time_us", "hardware", "library"}), _group, _machine, collective),
)
"""Kinds of collective tables."""
