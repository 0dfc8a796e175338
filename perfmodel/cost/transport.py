"""What the library and the hosts add to a group's way through the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfmodel.parallel import Group
    from perfmodel.specs.network import Tier
    from perfmodel.units import Bytes, BytesPerSecond, Count, Number, Seconds

POST = 0.35
"""Of a ring's step, which receives, adds and sends: what handing one more message to the nearest tier takes (derived)."""

COSTS = ("setup", "ramp", "ramp_size", "handshake", "eager", "latency")
"""Fields of a tier that hold for all messages of a group that crosses it."""


@dataclass(frozen=True, slots=True)
class Transport:
    """Constants of the outermost tier that a group crosses, and what lies inside and outside its hosts."""

    setup: Seconds
    ramp: Seconds
    ramp_size: Bytes
    handshake: Seconds
    eager: Bytes
    latency: Seconds
    """Of one step on that tier."""
    direct: Number
    """What messages between pairs reach there, over what a ring reaches."""
    axes: Count
    """Of that tier, where it is a torus; 1 otherwise."""
    near: Count
    """Ranks of the group in one host."""
    near_direct: Number
    """As `direct`, inside the host."""
    outer_bandwidth: BytesPerSecond
    """Of one rank to other hosts; 1 where the group stays in one."""
    outer_latency: Seconds
    """Of one step between hosts, averaged along a tree."""
    switch_bandwidth: BytesPerSecond
    """Of one rank into a switch of its host that reduces; 0 where none does."""
    post: Seconds
    """Of handing one message to the nearest tier."""


def transport(network: tuple[Tier, ...], group: Group) -> Transport:
    """The costs of a group's messages besides its ring's bandwidth and latency.

    A group's costs are those of the library on the outermost tier that it crosses.
    """
    size = group.size
    inside: Number = 1.0
    near: Number = 1.0
    direct: Number = 1.0
    near_direct: Number = 1.0
    axes: Number = 1.0
    switch: Number = 0.0
    outer: Number = np.inf
    steps: Number = 0.0
    used: dict[str, Number] = dict.fromkeys(COSTS, 0.0)
    for tier in network:
        members = np.clip(tier.devices // np.asarray(group.stride), 1, size)
        crosses = members > inside
        used = {name: np.where(crosses, getattr(tier, name), value) for name, value in used.items()}
        share = (tier.direct or tier.efficiency) / tier.efficiency
        direct = np.where(crosses, share, direct)
        axes = np.where(crosses, len(tier.shape or (1,)), axes)
        if tier.is_local:
            near, near_direct = members, np.where(crosses, share, near_direct)
            switch = np.where(crosses, tier.bandwidth * (tier.in_network or 0.0), switch)
        else:
            outer = np.where(crosses, np.minimum(outer, tier.bandwidth * tier.efficiency), outer)
            steps = steps + np.log2(members / inside) * tier.latency
        inside = members
    hosts = size / near
    return Transport(
        **used, direct=direct, axes=axes, near=near, near_direct=near_direct,
        outer_bandwidth=np.where(np.isinf(outer), 1.0, outer), outer_latency=steps / np.log2(np.maximum(hosts, 2)),
        switch_bandwidth=switch, post=POST * network[0].latency if network else 0.0,
    )  # fmt: skip
