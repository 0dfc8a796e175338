"""Parameter servers: workers push gradients to servers that share the keys, and pull what these made of them.

Where workers are hosts, the devices of each reduce among themselves first, as BytePS and MXNet do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.cost.ports import Ports, ports
from perfmodel.formulas.parameter_server import both_directions, pipeline_fill, server_sum, server_transfer
from perfmodel.formulas.roofline import streaming
from perfmodel.sync.replicas import Replicas, Synchronisation
from perfmodel.timeline import Overlap, Part, Repeat, Serial, duration, term

if TYPE_CHECKING:
    from perfmodel.parallel.messages import Collective
    from perfmodel.specs.servers import Servers
    from perfmodel.units import Bytes, BytesPerSecond, Count

PUSH, PULL, SERVER = "push", "pull", "server"
"""Kinds of terms: in the two directions of the network between workers and servers, and in the memory of servers."""


def synchronise(replicas: Replicas) -> Synchronisation:
    """Push, sum and pull of one device's gradients, beside or after the backward pass.

    A worker without others needs no server: its devices update.
    """
    exchange = _Exchange(replicas, replicas.strategy.keeper)
    by_device = np.where(exchange.served & (exchange.servers.update == "servers"), 0, 1)
    update = Repeat("optimizer step", replicas.optimizer_step(), by_device)
    return Synchronisation((), (), (exchange.gradients(),), (replicas.tied_embedding(), update, *exchange.later()))


@dataclass(frozen=True)
class _Exchange:
    replicas: Replicas
    servers: Servers

    @cached_property
    def ports(self) -> Ports:
        return ports(self.replicas.hardware, self.replicas.layout.replicas)

    @property
    def by_host(self) -> bool:
        """Whether hosts are the workers."""
        return self.servers.workers == "hosts"

    @property
    def workers(self) -> Count:
        return self.ports.hosts if self.by_host else self.replicas.layout.replicas.size

    @property
    def served(self) -> Any:
        """Whether there are workers to serve."""
        return np.asarray(self.workers) > 1

    @property
    def count(self) -> Count:
        """Servers: as given, or one for each host; on devices, one on each."""
        if self.servers.placement == "host-memory":
            return 1
        default = self.workers if self.servers.placement == "colocated" else self.ports.hosts
        return default if self.servers.count is None else self.servers.count

    @property
    def pulled(self) -> Bytes:
        return self.replicas.weight if self.servers.update == "servers" else self.replicas.gradient

    @property
    def worker_bandwidth(self) -> BytesPerSecond:
        """Of one worker's port."""
        link = self.replicas.hardware.host.device_link
        if self.servers.placement == "host-memory" and link is not None:
            return link
        return self.ports.host_share if self.by_host else np.minimum(self.ports.device_share, self.ports.device_local)

    @property
    def server_bandwidth(self) -> BytesPerSecond:
        """Of all ports of a server; groups that share a host share the servers too."""
        if self.servers.placement == "colocated":
            return self.worker_bandwidth
        if self.servers.placement == "host-memory":
            return self.worker_bandwidth * self.workers
        one = self.servers.nic_bandwidth
        return self.servers.nics * (self.ports.host_share if one is None else one / self.ports.groups)

    @property
    def memory_bandwidth(self) -> BytesPerSecond | None:
        """Of a server, for one group; None where nobody says."""
        hardware, on_devices = self.replicas.hardware, self.servers.placement == "colocated" and not self.by_host
        if on_devices:
            return hardware.device.memory.bandwidth
        known = self.servers.memory_bandwidth or hardware.host.memory_bandwidth
        return None if known is None else known / self.ports.groups

    def gradients(self) -> Part:
        """What may travel beside the backward pass: stages one after the other, or chunks that follow one another."""
        push, before = self.wire(PUSH, self.replicas.gradient), self.local("reduce-scatter", self.replicas.gradient)
        pull, after = ((), ()) if self.waits else ((self.wire(PULL, self.pulled),), self.fetched())
        if self.servers.chunk is None:
            return Serial("parameter server", (*before, push, *self.serving(), *pull, *after))
        chunks = np.maximum(np.ceil(self.replicas.gradient / self.servers.chunk), 1)
        beside = both_directions(duplex=self.servers.duplex, **self.sizes)
        stages = (Overlap("wire", (push, *pull), 2 - beside), *self.serving(), Serial("hosts", (*before, *after)))
        together = Overlap("chunks", stages)
        others = sum((duration(stage, hidden=False) for stage in stages), start=0.0) - duration(together)
        fill = term("first chunk of keys", pipeline_fill, kind=PUSH, others=np.maximum(others, 0.0), chunks=chunks)
        return Serial("parameter server", (together, fill))

    @property
    def waits(self) -> bool:
        """Whether workers pull when the next step begins."""
        return self.servers.pull == "next-step"

    def later(self) -> tuple[Part, ...]:
        """What waits for the next step."""
        return (self.wire(PULL, self.pulled), *self.fetched()) if self.waits else ()

    def fetched(self) -> tuple[Part, ...]:
        """Inside hosts, of what was pulled."""
        return self.local("all-gather", self.pulled)

    @property
    def sizes(self) -> dict[str, Any]:
        """Workers and servers, and whether these sit on those."""
        return {"workers": self.workers, "servers": self.count, "on": int(self.servers.placement == "colocated")}

    def wire(self, kind: str, size: Bytes) -> Part:
        """All keys in one direction, at the busiest port."""
        return term(
            kind, server_transfer, kind=kind, size=size, worker_bandwidth=self.worker_bandwidth,
            server_bandwidth=self.server_bandwidth, latency=self.ports.latency, **self.sizes,
        )  # fmt: skip

    def serving(self) -> tuple[Part, ...]:
        """Sum and update on the servers, where the bandwidth of their memory is known."""
        bandwidth = self.memory_bandwidth
        if bandwidth is None:
            return ()
        parts: list[Part] = [term(
            "sum on servers", server_sum, kind=SERVER, size=self.replicas.gradient, workers=self.workers,
            servers=self.count, passes=self.servers.passes, memory_bandwidth=bandwidth,
        )]  # fmt: skip
        if self.servers.update == "servers":
            traffic = self.served * self.replicas.parameters * (self.replicas.state.update_traffic / self.count)
            parts.append(term(
                "update on servers", streaming, kind=SERVER, traffic=traffic, bandwidth=bandwidth, fraction=1.0, launch=0.0
            ))  # fmt: skip
        return (Serial("servers", tuple(parts)),)

    def local(self, collective: Collective, size: Bytes) -> tuple[Part, ...]:
        """Among the devices of a host."""
        return self.replicas.inside_hosts(self.ports, collective, size) if self.by_host else ()
