"""What the library and the hosts add to a group's way through the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.parallel import Group
    from perfmodel.specs.network import Tier
    from perfmodel.units import BytesPerSecond, Count, Number, Seconds

POST = 0.35
"""Of a ring's step, which receives, adds and sends: what handing one more message to the nearest tier takes (derived)."""


@dataclass(frozen=True, slots=True)
class Transport:
    """The tiers that a group crosses: the costs of its messages are those of the library on the outermost."""

    network: tuple[Tier, ...]
    outermost: Count
    """Tiers up to the outermost that it crosses, 0 where it crosses none."""
    local: Count
    """Likewise of tiers inside a host."""
    inside: Group
    """The ranks of the group in one host."""
    hosts: Count
    """That its ranks sit in."""
    outer_latency: Seconds
    """Of one step between hosts, averaged along a tree."""

    def cost(self, name: str) -> Number:
        """A constant of the outermost tier; 0 where the group crosses none."""
        return _pick([0.0, *(getattr(tier, name) for tier in self.network)], self.outermost)

    @property
    def near(self) -> Count:
        """Ranks of the group in one host."""
        return self.inside.size

    @property
    def direct(self) -> Number:
        """What messages between pairs reach on the outermost tier, over what a ring reaches."""
        return _pick([1.0, *map(_direct, self.network)], self.outermost)

    @property
    def near_direct(self) -> Number:
        """Likewise inside the host."""
        return _pick([1.0, *map(_direct, self.network)], self.local)

    @property
    def switch_bandwidth(self) -> BytesPerSecond:
        """Of one rank into a switch of its host that reduces; 0 where none does."""
        reducing = [tier.bandwidth * tier.in_network if tier.in_network else 0.0 for tier in self.network]
        return _pick([0.0, *reducing], self.local)

    @property
    def chain(self) -> BytesPerSecond:
        """The most that a tree's chain of ranks reaches inside the host."""
        most = [tier.bandwidth * tier.chain if tier.chain else float("inf") for tier in self.network]
        return _pick([float("inf"), *most], self.local)

    @property
    def between_two(self) -> Count:
        """How often a tree's data pass the network between two hosts: once where links of their own join the ranks of a host.

        NCCL lets a tree between two hosts run its links inside them twice as fast as the cards; ranks that reach the cards
        and each other through one PCIe tree leave no room for that, and a ring is taken.
        """
        return _pick([1, *(2 if tier.topology == "pcie-tree" else 1 for tier in self.network)], self.local)

    @property
    def outer_bandwidth(self) -> BytesPerSecond:
        """Of one rank to other hosts; 1 where the group stays in one."""
        narrowest = float("inf")
        values = [1.0]
        for tier in self.network:
            narrowest = narrowest if tier.is_local else min(narrowest, float(tier.bandwidth * tier.efficiency))
            values.append(1.0 if np.isinf(narrowest) else narrowest)
        return _pick(values, self.outermost)

    @property
    def post(self) -> Seconds:
        """Of handing one message to the nearest tier."""
        return POST * self.network[0].latency if self.network else 0.0


def transport(network: tuple[Tier, ...], group: Group) -> Transport:
    """Which tiers a group crosses, and how many of its ranks share a host."""
    inside: Number = 1
    host: Count = 1
    outermost: Number = np.zeros((), dtype=int)
    local: Number = outermost
    steps: Number = 0.0
    for index, tier in enumerate(network, start=1):
        members = group.inside(tier.devices).size
        crosses = members > inside
        outermost = np.where(crosses, index, outermost)
        if tier.is_local:
            host, local = tier.devices, np.where(crosses, index, local)
        else:
            steps = steps + np.log2(members / inside) * tier.latency
        inside = members
    near = group.inside(host)
    hosts = group.size / near.size
    return Transport(network, outermost, local, near, hosts, steps / np.log2(np.maximum(hosts, 2)))


def _pick(values: Sequence[Number], index: Count) -> Number:
    """One of some values by number, or by a column of numbers; a value keeps where it was written."""
    if np.ndim(index) == 0:
        return values[int(index)]
    picked: Number = np.array(values)[np.asarray(index)]
    return picked


def _direct(tier: Tier) -> float:
    return tier.direct / tier.efficiency if tier.direct else 1.0
