"""The tiers of a network, from the links inside a socket to the fabric between hosts."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from perfmodel.origin import Text
from perfmodel.specs.common import Group, Share, Size
from perfmodel.specs.link_faults import link_faults
from perfmodel.specs.links import Link
from perfmodel.units import Bytes, BytesPerSecond, Seconds
from perfmodel.yamlfile import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

Topology = Literal[
    "switch", "full-mesh", "cube-mesh", "ring", "torus", "pcie-tree", "socket-bus", "fat-tree", "ethernet"
]

NETWORKS = frozenset({"fat-tree", "ethernet"})
"""Topologies that join hosts; all others lie within one, or make many hosts one (NVL72, a TPU pod)."""


class Transport(Group):
    """How a communication library uses a tier: what messages cost on it besides the bandwidth of its links."""

    latency: Seconds
    """Of one step of a collective, software included."""
    efficiency: Share
    """Of the bandwidth, reached by large messages."""
    setup: Seconds = 0.0
    """Of starting a collective and meeting the other ranks, whatever the size."""
    ramp: Seconds = 0.0
    """What large messages lose to the filling of buffers, which small ones do without."""
    ramp_size: Bytes = 0.0
    """Bytes that a rank sends, at which half of the ramp is lost."""
    handshake: Seconds = 0.0
    """What a large message between two ranks waits for its receiver, in an all-to-all too."""
    eager: Bytes = 0.0
    """The message that waits half as long."""
    direct: Share | None = None
    """Efficiency of messages between pairs, as an all-to-all sends them; None is that of a ring."""
    chain: Share | None = None
    """Most of the bandwidth that the chain of a tree reaches in a host; None is what a ring reaches."""
    in_network: Share | None = None
    """Of the bandwidth, reached by all-reduces inside the switch (NVLink SHARP); None where it does not reduce."""


class Tier(Transport):
    """One level of the network, as one device sees it."""

    name: Text
    topology: Topology
    devices: Size
    """Devices that this tier joins, those of the tiers inside included."""
    bandwidth: BytesPerSecond
    """Per device and per direction, when all devices of the tier send at once."""
    ports: Size | None = None
    """Network cards (or links) that one unit of the tier inside has into this tier; default one per device."""
    shape: tuple[Size, ...] | None = None
    """Of a torus: devices along each axis."""
    links: tuple[Link, ...] = ()
    """What joins the devices, link by link or by a rule; from them follows what each group sees, instead of `bandwidth`."""
    libraries: dict[str, Transport] = Field(default_factory=dict)
    """Constants of other communication libraries on this tier, by name."""

    @property
    def is_local(self) -> bool:
        """Whether it lies within a host, or makes many hosts one."""
        return self.topology not in NETWORKS

    def through(self, library: str) -> Tier:
        """The tier as another library uses it; unchanged where no constants of that library are known."""
        used = self.libraries.get(library)
        return self.model_copy(update={name: getattr(used, name) for name in Transport.model_fields}) if used else self


def network_faults(network: tuple[Tier, ...]) -> Iterator[Fault]:
    """Tiers out of order, without bandwidth, with more ports than can be, and a torus that does not multiply out."""
    inside = 1
    for index, tier in enumerate(network):
        path = f"network.{index}"
        if tier.devices <= inside and index:
            yield Fault(f"{path}.devices", f"must exceed the {inside} of the tier inside", tier.devices)
        elif tier.devices % inside:
            yield Fault(f"{path}.devices", f"must be a multiple of the {inside} of the tier inside", tier.devices)
        if not tier.bandwidth > 0:
            yield Fault(f"{path}.bandwidth", "must be greater than 0", tier.bandwidth)
        if tier.ports and tier.ports > 64 * inside:
            yield Fault(f"{path}.ports", f"{tier.ports} ports for {inside} devices cannot be", tier.ports)
        yield from _half_faults(path, tier)
        for name, transport in tier.libraries.items():
            yield from _half_faults(f"{path}.libraries.{name}", transport)
        if tier.shape and prod(tier.shape) * (inside if index else 1) != tier.devices:
            yield Fault(f"{path}.shape", f"does not multiply to {tier.devices} devices")
        yield from link_faults(path, tier, inside)
        inside = tier.devices


def _half_faults(path: str, transport: Transport) -> Iterator[Fault]:
    """A cost that grows with the size needs the size at which half of it is reached."""
    for most, half in (("ramp", "ramp_size"), ("handshake", "eager")):
        if getattr(transport, most) and not getattr(transport, half):
            yield Fault(f"{path}.{half}", f"must be greater than 0 where there is a {most}", getattr(transport, half))
