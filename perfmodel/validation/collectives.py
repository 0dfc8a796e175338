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
    "alltoall": "all-to-all", "all_to_all": "all-to-all", "broadcast": "broadcast", "reduce": "reduce",
    "send_recv": "send", "sendrecv": "send", "memcpy_p2p": "send", "mpi_p2p": "send",
}  # fmt: skip
"""What tables call the collectives that we model."""
NEVER = 1e5
"""Seconds: what some tables write where a collective ran out of memory."""


def message(row: Row, hardware: Hardware) -> Message:
    """The collective of a row among ranks of the machine; raises InexpressibleError where the model has no words for it."""
    name = NAMES.get(row["collective"])
    if name is None:
        raise InexpressibleError(f"collective {row['collective']}")
    foreign = next((name for name in machines().foreign if row.get("library", "").startswith(name)), None)
    if foreign:
        raise InexpressibleError(f"library {foreign}, of which no constants are known")
    if row["collective"] in machines().unlike_of(row):
        raise InexpressibleError(f"{row['collective']} with the copies of a list of tensors")
    ranks, nodes = number(row, "devices", 0.0), number(row, "nodes", 1.0)
    if ranks < 2:
        raise InexpressibleError("fewer than two ranks")
    stride = _stride(ranks, nodes, hardware)
    if ranks * stride > hardware.reach:
        raise InexpressibleError(f"more ranks than the {hardware.reach} that {hardware.name} joins")
    whole = ranks if row["collective"] in machines().parts_of(row) else 1
    return Message("collective", name, size(row, "bytes") * whole, Group(ranks, stride))


def _stride(ranks: float, nodes: float, hardware: Hardware) -> int:
    """Ranks that lie evenly in nodes which are used in part, each with a card of its own, lie apart from one another."""
    devices = hardware.host.devices
    if nodes <= 1 or ranks / nodes == devices:
        return 1
    outer = [tier for tier in hardware.network if not tier.is_local]
    if devices * nodes % ranks or not outer or (outer[0].ports or devices) < devices:
        raise InexpressibleError("nodes that are used in part")
    return int(devices * nodes // ranks)


def collective(row: Row, hardware: Hardware) -> float:
    """One collective over the first ``devices`` ranks of the machine, by the library of the row."""
    sent = message(row, hardware)
    library = machines().library_of(row)
    return float(exchange(sent, tuple(tier.through(library) for tier in hardware.network), "collective").time)


def seconds(row: Row) -> float:
    """The measured time of a row; 0 where none is given."""
    time = number(row, "time_us", 0.0) * 1e-6
    if time > NEVER:
        raise InexpressibleError("no time: the table marks that it did not run")
    return time


def system_of(row: Row) -> str | None:
    """The hardware file of a row's system; None where none is known."""
    systems = machines().systems
    known = [prefix for prefix in systems if row["hardware"].startswith(prefix)]
    return systems[max(known, key=len)] if known else None


def _group(row: Row) -> str:
    return f"{row['collective']} {row['hardware'].partition(' / ')[0]} {row['library'].partition(' ')[0]}"


COLLECTIVES = (
    Table(
        frozenset({"collective", "devices", "nodes", "bytes", "time_us", "hardware", "library"}),
        _group,
        system_of,
        collective,
        seconds,
    ),
)
"""Kinds of collective tables."""
