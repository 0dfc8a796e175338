"""Collectives among equal ranks, in the latency-bandwidth model. Arguments broadcast."""

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


def halving_doubling_all_reduce(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Exchange halves with partners ever nearer, then gather them back: as much data as a ring, in few steps.

    .. math:: T = 2\left(\alpha \log_2 p + \frac{p - 1}{p} \frac{n}{B}\right)

    Args:
        size: n, the message on each rank.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes a network that carries distant pairs as fast as near ones, and a power of two of ranks; others lie between.

    References:
        Derived: step i of log2 p sends n/2^i, on the way back as much.

    >>> round(float(halving_doubling_all_reduce(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.146
    """
    return 2 * (latency * np.log2(ranks) + (ranks - 1) / ranks * size / bandwidth)


def direct_all_reduce(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Every rank sums the part that all others send it at once, and sends the sum to them all.

    .. math:: T = 2\left(\alpha + \frac{p - 1}{p} \frac{n}{B}\right), \quad T = 0 \text{ for } p = 1

    Args:
        size: n, the message on each rank.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes a switch, or a link between each pair, that carries all pairs at once.

    References:
        Derived.

    >>> round(float(direct_all_reduce(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.142
    """
    return np.where(np.asarray(ranks) > 1, 2 * (latency + (ranks - 1) / ranks * size / bandwidth), 0.0)


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


def doubling_all_gather(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Partners ever further away swap what they have; a reduce-scatter by halving takes as long.

    .. math:: T = \alpha \log_2 p + \frac{p - 1}{p} \frac{n}{B}

    Args:
        size: n, the whole that each rank holds in the end (of a reduce-scatter: in the beginning).
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes a network that carries distant pairs as fast as near ones, and a power of two of ranks; others lie between.

    References:
        Derived.

    >>> round(float(doubling_all_gather(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.073
    """
    return latency * np.log2(ranks) + (ranks - 1) / ranks * size / bandwidth


def direct_all_gather(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Every rank sends its part to all others at once; a reduce-scatter takes as long.

    .. math:: T = \alpha + \frac{p - 1}{p} \frac{n}{B}, \quad T = 0 \text{ for } p = 1

    Args:
        size: n, the whole that each rank holds in the end (of a reduce-scatter: in the beginning).
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes a switch, or a link between each pair, that carries all pairs at once.

    References:
        Derived.

    >>> round(float(direct_all_gather(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.071
    """
    return np.where(np.asarray(ranks) > 1, latency + (ranks - 1) / ranks * size / bandwidth, 0.0)


def pairwise_all_to_all(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""In each of p - 1 steps a rank swaps with one other what they have for each other.

    .. math:: T = (p - 1)\left(\alpha + \frac{n}{pB}\right)

    Args:
        size: n, what each rank sends, its own part included.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    References:
        Derived.

    >>> round(float(pairwise_all_to_all(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.077
    """
    return (ranks - 1) * (latency + size / (ranks * bandwidth))


def chain_broadcast(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""One rank's message passes all others in a chain, in pieces; a reduction to one rank takes as long.

    .. math:: T = (p - 1)\alpha + \frac{n}{B}, \quad T = 0 \text{ for } p = 1

    Args:
        size: n.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes full pipelining.

    References:
        Derived.

    >>> round(float(chain_broadcast(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.087
    """
    return np.where(np.asarray(ranks) > 1, (ranks - 1) * latency + size / bandwidth, 0.0)


def tree_broadcast(*, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""One rank's message down two complementary binary trees; a reduction to one rank takes as long.

    .. math:: T = \alpha \log_2 p + \frac{n}{B}, \quad T = 0 \text{ for } p = 1

    Args:
        size: n.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.

    Assumes full pipelining along the trees.

    References:
        Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan,
        Parallel Computing 35(12), 2009. doi:10.1016/j.parco.2009.09.001

    >>> round(float(tree_broadcast(size=8e9, ranks=8, bandwidth=100e9, latency=1e-3)), 12)
    0.083
    """
    return np.where(np.asarray(ranks) > 1, latency * np.log2(ranks) + size / bandwidth, 0.0)


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
