"""The tiers of a network, from the links inside a socket to the fabric between hosts."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

from perfmodel.origin import Text
from perfmodel.specs.common import Group, Share, Size
from perfmodel.specs.link_faults import link_faults
from perfmodel.specs.links import Link
from perfmodel.units import BytesPerSecond, Seconds
from perfmodel.yamlfile import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

Topology = Literal[
    "switch", "full-mesh", "cube-mesh", "ring", "torus", "pcie-tree", "socket-bus", "fat-tree", "ethernet"
]


class Tier(Group):
    """One level of the network, as one device sees it."""

    name: Text
    topology: Topology
    devices: Size
    """Devices that this tier joins, those of the tiers inside included."""
    bandwidth: BytesPerSecond
    """Per device and per direction, when all devices of the tier send at once."""
    latency: Seconds
    """Of one step of a collective, software included."""
    efficiency: Share
    """Of the bandwidth, reached by large messages."""
    ports: Size | None = None
    """Network cards (or links) that one unit of the tier inside has into this tier; default one per device."""
    shape: tuple[Size, ...] | None = None
    """Of a torus: devices along each axis."""
    links: tuple[Link, ...] = ()
    """What joins the devices, link by link or by a rule; from them follows what each group sees, instead of `bandwidth`."""


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
        if tier.shape and prod(tier.shape) * (inside if index else 1) != tier.devices:
            yield Fault(f"{path}.shape", f"does not multiply to {tier.devices} devices")
        yield from link_faults(path, tier, inside)
        inside = tier.devices
