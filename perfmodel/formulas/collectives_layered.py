"""Collectives that follow the shape of the network: hosts, levels, switches that reduce."""

from __future__ import annotations

import numpy as np

from perfmodel.formulas.collectives import ring_all_reduce
from perfmodel.units import Bytes, BytesPerSecond, Count, Seconds


def chained_tree_all_reduce(
    *, size: Bytes, ranks: Count, hosts: Count, inner_bandwidth: BytesPerSecond, inner_latency: Seconds,
    outer_bandwidth: BytesPerSecond, outer_latency: Seconds,
) -> Seconds:  # fmt: skip
    r"""A double binary tree over hosts, whose ranks form a chain: up with partial sums, down with the sum.

    .. math::
        T = 2\left(\left(\frac{p}{h} - 1\right)\alpha_i + \alpha_o \log_2 h\right)
            + \max\left(\frac{2 n}{B_i}, \frac{\min(h - 1, 2)\, n}{B_o}\right),
        \quad T = 0 \text{ for } p = 1

    Args:
        size: n, the message on each rank.
        ranks: p.
        hosts: h, that the ranks sit in.
        inner_bandwidth: B_i, of one rank inside its host, in one direction.
        inner_latency: α_i, of one step inside a host.
        outer_bandwidth: B_o, of a host to the network, in one direction.
        outer_latency: α_o, of one step between hosts.

    Assumes full pipelining; one rank in each host has no chain, and of two hosts each carries half of both trees' roots.

    References:
        NCCL counts the tree's steps so: ranks of a host as a chain, hosts as a tree (NVIDIA, NCCL,
        src/graph/tuning.cc). The bandwidths are derived.

    >>> link = dict(inner_bandwidth=200e9, inner_latency=0.0, outer_bandwidth=100e9, outer_latency=0.0)
    >>> float(chained_tree_all_reduce(size=10e9, ranks=32, hosts=4, **link))
    0.2
    """
    chain = np.maximum(ranks / hosts, 1)
    inside = np.where(chain > 1, 2 * size / inner_bandwidth, 0.0)
    outside = np.minimum(np.asarray(hosts) - 1, 2) * size / outer_bandwidth
    steps = 2 * ((chain - 1) * inner_latency + np.log2(hosts) * outer_latency)
    return np.where(np.asarray(ranks) > 1, steps + np.maximum(inside, outside), 0.0)


def hierarchical_all_reduce(
    *, size: Bytes, near: Count, middle: Count, far: Count, near_bandwidth: BytesPerSecond,
    middle_bandwidth: BytesPerSecond, far_bandwidth: BytesPerSecond, near_latency: Seconds,
    middle_latency: Seconds, far_latency: Seconds,
) -> Seconds:  # fmt: skip
    r"""Reduce-scatter on each level from the nearest outwards, then all-gather on the way back, each by a ring.

    .. math::
        T = 2 \sum_l (p_l - 1)\left(\alpha_l + \frac{n_l}{p_l B_l}\right), \qquad n_{l+1} = \frac{n_l}{p_l}

    Args:
        size: n, the message on each rank.
        near: p of the innermost level.
        middle: p of the level around it; 1 where there are two levels only.
        far: p of the outermost level.
        near_bandwidth: B of one rank on the innermost level.
        middle_bandwidth: B of one rank on the level around it.
        far_bandwidth: B of one rank on the outermost level.
        near_latency: α of one step on the innermost level.
        middle_latency: α of one step on the level around it.
        far_latency: α of one step on the outermost level.

    Assumes that the levels take turns.

    References:
        Derived: two or three rings, the message divided by the ranks of each level.

    >>> levels = dict(middle_bandwidth=1e9, near_latency=0.0, middle_latency=0.0, far_latency=0.0)
    >>> time = hierarchical_all_reduce(
    ...     size=8e9, near=8, middle=1, far=2, near_bandwidth=100e9, far_bandwidth=10e9, **levels)
    >>> round(float(time), 12)
    0.24
    """
    outer, outermost = size / near, size / (near * middle)
    return (
        ring_all_reduce(size=size, ranks=near, bandwidth=near_bandwidth, latency=near_latency)
        + ring_all_reduce(size=outer, ranks=middle, bandwidth=middle_bandwidth, latency=middle_latency)
        + ring_all_reduce(size=outermost, ranks=far, bandwidth=far_bandwidth, latency=far_latency)
    )


def in_network_all_reduce(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""The switch sums what all ranks send it and sends the sum to them all: the message passes each link once.

    .. math:: T = \alpha + \frac{n}{B}, \quad T = 0 \text{ for } p = 1

    Args:
        size: n, the message on each rank.
        ranks: p.
        bandwidth: B, of one rank into the reducing switch.
        latency: α, until the first sum is back.

    Assumes that up and down overlap (NVLink SHARP of a DGX H100, SHARP of InfiniBand).

    References:
        NCCL counts such an all-reduce (NVLS) with a latency of its own and one pass (NVIDIA, NCCL, src/graph/tuning.cc).

    >>> round(float(in_network_all_reduce(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.081
    """
    return np.where(np.asarray(ranks) > 1, latency + size / bandwidth, 0.0)
