"""Ways through a network: the tiers that a group crosses set its bandwidth and latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfmodel.parallel import Group
    from perfmodel.specs.network import Tier
    from perfmodel.units import BytesPerSecond, Number, Seconds


@dataclass(frozen=True, slots=True)
class Route:
    """What a ring of a group sees of the network."""

    bandwidth: BytesPerSecond
    """Of the narrowest tier that the ring crosses."""
    ring_latency: Seconds
    """Of one step, averaged around the ring."""
    tree_latency: Seconds
    """Of one step, averaged along the path to the root of a tree."""


def route(network: tuple[Tier, ...], group: Group) -> Route:
    r"""The way of a group's ring through the tiers.

    With m_i members of the group inside one unit of tier i, the ring leaves a unit of the tier below
    n/m_{i-1} - n/m_i times, and there the m_{i-1} members' shares of the bandwidth carry it together:

    .. math:: B = \min_i m_{i-1} \eta_i B_i, \qquad
              \alpha = \frac{1}{n-1} \sum_i \left(\frac{n}{m_{i-1}} - \frac{n}{m_i}\right) \alpha_i

    Assumes that all groups of the job communicate at once and that ranks are dense (derived).
    """
    size, inside = group.size, 1.0
    bandwidth: Number = np.inf
    ring: Number = 0.0
    tree: Number = 0.0
    for tier in network:
        members = np.clip(tier.devices // np.asarray(group.stride), 1, size)
        crosses = members > inside
        share = tier.bandwidth * tier.efficiency * inside
        bandwidth = np.where(crosses, np.minimum(bandwidth, share), bandwidth)
        ring = ring + (size / inside - size / members) * tier.latency
        tree = tree + np.log2(members / inside) * tier.latency
        inside = members
    alone = np.asarray(size) <= 1
    return Route(
        bandwidth,
        np.where(alone, 0.0, ring / np.maximum(size - 1, 1)),
        np.where(alone, 0.0, tree / np.log2(np.maximum(size, 2))),
    )


def neighbour(network: tuple[Tier, ...], group: Group) -> Route:
    r"""The way from one rank to the next of its group, on the outermost tier that some pair crosses.

    A sender has its own share of the tier, or a whole port where fewer ranks than ports send at once.
    """
    bandwidth: Number = np.inf
    latency: Number = 0.0
    inside = 1
    for tier in network:
        crosses = (np.asarray(group.stride) * group.size > inside) & (np.asarray(group.size) > 1)
        senders = np.minimum(group.stride, inside)
        port = tier.bandwidth * inside / (tier.ports or inside)
        share = np.minimum(port, tier.bandwidth * inside / senders) * tier.efficiency
        bandwidth = np.where(crosses, np.minimum(bandwidth, share), bandwidth)
        latency = np.where(crosses, tier.latency, latency)
        inside = tier.devices
    return Route(bandwidth, latency, latency)
