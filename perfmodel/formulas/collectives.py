"""Collectives in the latency-bandwidth model. Arguments broadcast."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, BytesPerSecond, Count, Seconds


def ring_all_reduce(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Reduce-scatter, then all-gather, each in p - 1 steps around a ring.

    .. math:: T = 2(p - 1)\left(\alpha + \frac{n}{pB}\right)

    Args:
        size: n, the message on each rank.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes equal links that nothing else uses.

    References:
        Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of
        workstations, J. Parallel Distrib. Comput. 69(2), 2009. doi:10.1016/j.jpdc.2008.09.002

    >>> ring_all_reduce(size=8e9, ranks=8, bandwidth=100e9, latency=0.0)
    0.14
    """
    return 2 * (ranks - 1) * (latency + size / (ranks * bandwidth))


def tree_all_reduce(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Reduce up and broadcast down two complementary binary trees, each taking half of the message.

    .. math:: T = 2\left(\alpha \log_2 p + \frac{n}{B}\right), \quad T = 0 \text{ for } p = 1

    Args:
        size: n, the message on each rank.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes full pipelining along the trees.

    References:
        Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan,
        Parallel Computing 35(12), 2009. doi:10.1016/j.parco.2009.09.001

    >>> round(float(tree_all_reduce(size=8e9, ranks=8, bandwidth=100e9, latency=0.0)), 12)
    0.16
    """
    return np.where(np.asarray(ranks) > 1, 2 * (latency * np.log2(ranks) + size / bandwidth), 0.0)


def all_reduce(
    *, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds, tree_latency: Seconds
) -> Seconds:
    r"""The faster of ring and double binary tree, as a communication library chooses.

    .. math:: T = \min(T_\text{ring}, T_\text{tree})

    Args:
        size: n, the message on each rank.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step around the ring.
        tree_latency: α, of one step along the tree.

    References:
        `ring_all_reduce` and `tree_all_reduce`. NCCL chooses by the smallest estimated time
        (NVIDIA, NCCL, src/graph/tuning.cc).

    >>> float(all_reduce(size=8e9, ranks=8, bandwidth=100e9, latency=0.0, tree_latency=0.0))
    0.14
    """
    ring = ring_all_reduce(size=size, ranks=ranks, bandwidth=bandwidth, latency=latency)
    return np.minimum(ring, tree_all_reduce(size=size, ranks=ranks, bandwidth=bandwidth, latency=tree_latency))


def ring_all_gather(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Every rank passes on what it got, p - 1 times around a ring; a reduce-scatter takes as long.

    .. math:: T = (p - 1)\left(\alpha + \frac{n}{pB}\right)

    Args:
        size: n, the whole that each rank holds in the end (of a reduce-scatter: in the beginning).
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes equal links that nothing else uses.

    References:
        Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of
        workstations, J. Parallel Distrib. Comput. 69(2), 2009. doi:10.1016/j.jpdc.2008.09.002

    >>> ring_all_gather(size=8e9, ranks=8, bandwidth=100e9, latency=0.0)
    0.07
    """
    return (ranks - 1) * (latency + size / (ranks * bandwidth))


def send(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""One message from one rank to its neighbour; nothing where there is no neighbour.

    .. math:: T = \alpha + \frac{n}{B}, \quad T = 0 \text{ for } p = 1

    Args:
        size: n.
        ranks: p, ranks in the chain of neighbours.
        bandwidth: B, of one rank in one direction.
        latency: α.

    References:
        Hockney, The communication challenge for MPP, Parallel Computing 20(3), 1994.
        doi:10.1016/S0167-8191(06)80021-9

    >>> float(send(size=1e9, ranks=2, bandwidth=100e9, latency=0.0))
    0.01
    """
    return np.where(np.asarray(ranks) > 1, latency + size / bandwidth, 0.0)
