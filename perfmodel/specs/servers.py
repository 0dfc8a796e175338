"""Parameter servers of a strategy: where they are, and how pushes and pulls follow one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Fraction, KeepOrigin
from perfmodel.specs.common import Degree
from perfmodel.units import Bytes, BytesPerSecond
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Servers(Spec):
    """Parameter servers: each keeps a share of the keys, adds up what workers push, and answers when they pull."""

    placement: Annotated[Literal["dedicated", "colocated", "host-memory"], KeepOrigin] = "dedicated"
    """On machines of their own, on the workers' (hosts or, where these work alone, devices), or in the memory of the one
    host whose devices are the workers."""
    count: Degree | None = None
    """Servers; default one for each host of workers (with colocated devices, one on each)."""
    workers: Annotated[Literal["hosts", "devices"], KeepOrigin] = "hosts"
    """Who talks to servers: hosts, whose devices reduce among themselves before, or each device alone."""
    nics: Degree = 1
    """Network cards of a server of its own."""
    nic_bandwidth: BytesPerSecond | None = None
    """That one of them reaches in one direction; default as much as a whole host of workers."""
    memory_bandwidth: BytesPerSecond | None = None
    """Of a server, for adding up; default that of the host, and where that is unknown adding up is free."""
    passes: Annotated[Fraction, Field(gt=0)] = 5.0
    """Of memory for each byte that arrives: written by the card, read, added to a sum that is read and written, and read
    again for the answer; 2 where sums stay in caches."""
    chunk: Annotated[Bytes, KeepOrigin] | None = None
    """Size of the pieces that follow one another through reducing, pushing, adding and pulling; None does one after the other."""
    duplex: Annotated[Fraction, Field(ge=0, le=1)] = 0.0
    """How much of the shorter of push and pull chunks carry beside the longer."""
    pull: Annotated[Literal["at-once", "next-step"], KeepOrigin] = "at-once"
    """When workers pull: as soon as a sum is there, or when the next step begins, where nothing hides it."""
    update: Annotated[Literal["servers", "workers"], KeepOrigin] = "servers"
    """Where the optimiser steps: on servers workers pull weights, else sums of gradients."""


def server_faults(servers: Servers) -> Iterator[Fault]:
    """What of the settings does not go together."""
    own = servers.placement == "dedicated"
    if not own and (servers.nics != 1 or servers.nic_bandwidth is not None):
        name = "nics" if servers.nics != 1 else "nic_bandwidth"
        yield Fault(
            f"servers.{name}", f"servers that are {servers.placement} have the ports of the workers; take placement dedicated",
            getattr(servers, name),
        )  # fmt: skip
    if servers.placement == "host-memory" and servers.workers == "hosts":
        yield Fault("servers.workers", "a host's memory serves its devices; take workers devices", servers.workers)
    if servers.placement == "host-memory" and (servers.count or 1) > 1:
        yield Fault("servers.count", "a host's memory is one server; leave count out", servers.count)
    for name in ("chunk", "nic_bandwidth", "memory_bandwidth"):
        value = getattr(servers, name)
        if value is not None and not value > 0:
            yield Fault(f"servers.{name}", "must be greater than 0", value)
    if servers.duplex and servers.pull == "next-step":
        yield Fault(
            "servers.duplex",
            "a pull that waits has no push beside it; leave duplex at 0, or pull at-once",
            servers.duplex,
        )
    elif servers.duplex and servers.chunk is None:
        yield Fault(
            "servers.duplex", "without chunks push and pull follow one another; give chunk, or leave duplex at 0",
            servers.duplex,
        )  # fmt: skip
