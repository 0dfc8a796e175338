"""Ports of a group's hosts and devices: what each can send at once, all others sending too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.routes import route
from perfmodel.parallel import Group

if TYPE_CHECKING:
    from perfmodel.specs import Hardware
    from perfmodel.units import BytesPerSecond, Count, Seconds


@dataclass(frozen=True, slots=True)
class Ports:
    """How a group of ranks is attached to the network."""

    hosts: Count
    """That the group spans."""
    inside: Count
    """Ranks of the group in one host."""
    local: Group
    """Those ranks."""
    groups: Count
    """Groups of the job that share a host's ports."""
    device_local: BytesPerSecond
    """Of one rank, inside its host."""
    device_share: BytesPerSecond
    """Of one rank, out of its host."""
    latency: Seconds
    """Of one message to a rank of another host, or inside the only host."""

    @property
    def host_share(self) -> BytesPerSecond:
        """Of the group's ranks in one host together, out of it."""
        return self.device_share * self.inside


def ports(hardware: Hardware, group: Group) -> Ports:
    """The ports of a group whose ranks are dense; all ranks of the job send at once."""
    size, stride = np.asarray(group.size), np.asarray(group.stride)
    fits = np.maximum(hardware.host.devices // stride, 1)
    hosts = np.ceil(size / np.minimum(fits, size))
    inside = size / hosts
    local = Group(inside, group.stride)
    within, between = route(hardware.network, local), route(hardware.network, Group(hosts, stride * fits))
    return Ports(
        hosts=hosts, inside=inside, local=local, groups=hardware.host.devices / fits,
        device_local=np.where(inside > 1, within.bandwidth, between.bandwidth),
        device_share=np.where(hosts > 1, between.bandwidth, within.bandwidth),
        latency=np.where(hosts > 1, between.ring_latency, within.ring_latency),
    )  # fmt: skip
