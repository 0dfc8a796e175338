"""Ways through a network: the tiers that a group crosses set its bandwidth and latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.torus import axes_of, torus_share
from perfmodel.formulas.topology import pooled_bandwidth, spine_bandwidth, torus_latency
from perfmodel.specs.mesh import mesh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfmodel.cost.torus import Axis
    from perfmodel.parallel import Group
    from perfmodel.specs.mesh import Mesh
    from perfmodel.specs.network import Tier
    from perfmodel.units import BytesPerSecond, Count, Number, Seconds

    Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Route:
    """What a ring of a group sees of the network."""

    bandwidth: BytesPerSecond
    """Of the narrowest tier that the ring crosses; of a torus, the axes of the group together."""
    ring_latency: Seconds
    """Of one step, averaged around the ring."""
    tree_latency: Seconds
    """Of one step, averaged along the path to the root of a tree."""
    axes: tuple[Axis, ...] = ()
    """Of a torus: members along each axis and the bandwidth there, both directions together."""


@dataclass(frozen=True, slots=True)
class _Span:
    """How much of a group sits inside one unit of a tier, and inside one unit of the tier below."""

    row: Count
    rows: Count
    inside: Count
    """Members inside one unit of the tier below."""

    @property
    def members(self) -> Count:
        return self.row * self.rows

    @property
    def crosses(self) -> Bool:
        return np.asarray(self.members) > self.inside


def route(network: tuple[Tier, ...], group: Group) -> Route:
    r"""The way of a group's ring through the tiers.

    With m_i members of the group inside one unit of tier i, the ring leaves a unit of the tier below
    n/m_{i-1} - n/m_i times, and there the m_{i-1} members' shares of the bandwidth carry it together:

    .. math:: B = \min_i m_{i-1} \eta_i B_i, \qquad
              \alpha = \frac{1}{n-1} \sum_i \left(\frac{n}{m_{i-1}} - \frac{n}{m_i}\right) \alpha_i

    Where a tier lists its links, B_i is that of the rings that are found through them; of a torus, that of the
    group's axes, whose steps go along one axis after the other.

    Assumes that all groups of the job communicate at once and that ranks are dense (derived).
    """
    size = group.size
    inside: Number = 1.0
    bandwidth: Number = np.inf
    ring: Number = 0.0
    tree: Number = 0.0
    axes: tuple[Axis, ...] = ()
    for tier in levels(network):
        span = _Span(*group.within(tier.devices), inside)
        if tier.links and tier.shape:
            axes = axes_of(tier, group, span.members)
            share = torus_share(tier, axes)
            hops = sum(axis.spacing * (axis.members - 1) for axis in axes)
            along = torus_latency(hops=hops, latency=tier.latency)
            ring, tree = ring + along, tree + along
        else:
            share, latency = _share(tier, group, span)
            ring = ring + (size / inside - size / span.members) * latency
            tree = tree + np.log2(span.members / inside) * latency
        bandwidth = np.where(span.crosses, np.minimum(bandwidth, share), bandwidth)
        inside = span.members
    alone = np.asarray(size) <= 1
    return Route(
        bandwidth,
        np.where(alone, 0.0, ring / np.maximum(size - 1, 1)),
        np.where(alone, 0.0, tree / np.log2(np.maximum(size, 2))),
        axes,
    )


def _share(tier: Tier, group: Group, span: _Span) -> tuple[BytesPerSecond, Seconds]:
    """Bandwidth and latency of a group's ring where it crosses a tier."""
    if any(link.joins for link in tier.links):
        bandwidth, latency = _looked_up(tier, group, span, mesh(tier.devices, tier.links), neighbour=False)
        return bandwidth * tier.efficiency, latency
    return pooled_bandwidth(bandwidth=_rate(tier), members=span.inside, fraction=tier.efficiency), tier.latency


def _looked_up(
    tier: Tier, group: Group, span: _Span, links: Mesh, *, neighbour: bool
) -> tuple[BytesPerSecond, Seconds]:
    """What the mesh gives, row by row of the columns; each distinct group is looked up once."""
    base = tier.devices + 1  # members and strides inside the tier are no larger, so that one number tells four
    key: Number = 0
    for part in (span.row, np.where(span.row > 1, group.stride, 1), span.rows, np.where(span.rows > 1, group.apart, 0)):
        key = key * base + np.asarray(part, dtype=np.int64)
    distinct, index = np.unique(key, return_inverse=True)
    ways = [_way(links, int(one), base, neighbour=neighbour) for one in distinct]
    bandwidth, latency = (np.take(values, index).reshape(np.shape(key)) for values in zip(*ways, strict=True))
    return bandwidth, np.where(np.isnan(latency), tier.latency, latency)


def _way(links: Mesh, key: int, base: int, *, neighbour: bool) -> tuple[float, float]:
    """Bandwidth and latency of the groups with the strides that a key stands for."""
    row, stride, rows, apart = (key // base**power % base for power in (3, 2, 1, 0))
    if row * rows == 1:
        return np.inf, 0.0
    find = links.neighbour if neighbour else links.ring
    way = find((row, stride, rows, apart))
    return way.bandwidth, way.latency


def neighbour(network: tuple[Tier, ...], group: Group) -> Route:
    r"""The way from one rank to the next of its group, on the outermost tier that some pair crosses.

    A sender has its own share of the tier, or a whole port where fewer ranks than ports send at once; on listed links,
    those between the two, or the way through switches that all senders share; on a torus, one link.
    """
    bandwidth: Number = np.inf
    latency: Number = 0.0
    inside = 1
    members: Number = 1.0
    for tier in levels(network):
        span = _Span(*group.within(tier.devices), members)
        crosses = (np.asarray(group.stride) * group.size > inside) & (np.asarray(group.size) > 1)
        share, own = _neighbour_share(tier, group, span, inside)
        bandwidth = np.where(crosses, np.minimum(bandwidth, share), bandwidth)
        latency = np.where(crosses, own, latency)
        inside, members = tier.devices, span.members
    return Route(bandwidth, latency, latency)


def _neighbour_share(tier: Tier, group: Group, span: _Span, inside: int) -> tuple[BytesPerSecond, Seconds]:
    """Bandwidth and latency of one message between neighbours across a tier, ``inside`` devices to a unit below."""
    if any(link.joins for link in tier.links):
        bandwidth, latency = _looked_up(tier, group, span, mesh(tier.devices, tier.links), neighbour=True)
        return bandwidth * tier.efficiency, latency
    if tier.links and tier.shape:
        axes = axes_of(tier, group, span.members)
        spacing = np.select([np.asarray(axis.members) > 1 for axis in axes], [axis.spacing for axis in axes], 1)
        return tier.links[0].usable * tier.efficiency / spacing, tier.latency * spacing
    senders = np.minimum(group.stride, inside)
    port = _rate(tier) * inside / (tier.ports or inside)
    return np.minimum(port, _rate(tier) * inside / senders) * tier.efficiency, tier.latency


def _rate(tier: Tier) -> BytesPerSecond:
    """Of one device into a tier; over links of many rates, that of the slowest, which a ring waits for."""
    rates = [rate * (1 - link.overhead) for link in tier.links for rate in link.rates]
    return min(rates) if rates else tier.bandwidth


def levels(network: tuple[Tier, ...]) -> tuple[Tier, ...]:
    """The tiers of a network; a leaf-spine fabric is two, the leaf and the spine over it."""
    if not any(link.leaf for tier in network for link in tier.links):
        return network
    return tuple(level for tier in network for level in _leaf_and_spine(tier))


def _leaf_and_spine(tier: Tier) -> tuple[Tier, ...]:
    link = next((link for link in tier.links if link.leaf), None)
    if link is None:
        return (tier,)
    uplinks = spine_bandwidth(bandwidth=float(tier.bandwidth), oversubscription=link.oversubscription)
    leaf = tier.model_copy(update={"devices": link.leaf, "links": ()})
    spine = tier.model_copy(update={"bandwidth": uplinks * (1 - link.overhead), "ports": None, "links": ()})
    return leaf, spine
