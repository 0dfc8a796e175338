"""From links to the bandwidth that a group of devices sees. Arguments broadcast."""

from __future__ import annotations

import numpy as np

from perfmodel.units import BytesPerSecond, Count, Seconds


def ring_bandwidth(*, rings: Count, bandwidth: BytesPerSecond, fraction: Count) -> BytesPerSecond:
    r"""What a rank sends in one direction over all edge-disjoint rings of its group.

    .. math:: B = r \varphi b

    Args:
        rings: r, rings that share no link; a half where they use halves of links.
        bandwidth: b, of one link in one direction.
        fraction: φ, of it that is left by headers, acknowledgements and copies on the way.

    Assumes that the message is cut over all rings in equal parts.

    References:
        Jeaugey, NCCL 2.0, NVIDIA GPU Technology Conference 2017, S7155: on DGX-1 four rings use the four links
        of each device. How many rings there are: `perfmodel.specs.rings`.

    >>> ring_bandwidth(rings=3, bandwidth=20e9, fraction=0.9)
    54000000000.0
    """
    return rings * bandwidth * fraction


def shared_bandwidth(*, bandwidth: BytesPerSecond, groups: Count) -> BytesPerSecond:
    r"""What one of several groups has of a link that all of them cross at the same time.

    .. math:: B = b / g

    Args:
        bandwidth: b, of the link in one direction.
        groups: g, that cross it in this direction at the same time.

    Assumes fair sharing (derived: max-min fairness with one bottleneck).

    References:
        Bertsekas and Gallager, Data Networks, 2nd edition, Prentice Hall 1992, section 6.5.2 (max-min fair
        flow control).

    >>> shared_bandwidth(bandwidth=12e9, groups=2)
    6000000000.0
    """
    return bandwidth / groups


def pooled_bandwidth(*, bandwidth: BytesPerSecond, members: Count, fraction: Count) -> BytesPerSecond:
    r"""What a ring has of a tier where several members of its group sit inside one unit of the tier below.

    .. math:: B = m \eta b

    Args:
        bandwidth: b, of one device into the tier when all devices send at once.
        members: m, of the group inside one unit of the tier below.
        fraction: η, of the bandwidth that large messages reach.

    Each device keeps its own share, and the members of one group pool theirs; the shares of devices that belong to
    other groups stay theirs, which send at the same time (derived).

    References:
        Derived from the rings that NCCL builds, one for each network card (NVIDIA, NCCL, src/graph/search.cc).

    >>> pooled_bandwidth(bandwidth=25e9, members=8, fraction=0.8)
    160000000000.0
    """
    return bandwidth * members * fraction


def torus_axis_bandwidth(*, members: Count, spacing: Count, closed: Count, bandwidth: BytesPerSecond) -> BytesPerSecond:
    r"""What a group's ring along one axis of a torus carries in both directions together.

    .. math:: B = \frac{(1 + c) b}{s}, \quad B = 0 \text{ for } p = 1

    Args:
        members: p, of the group along this axis.
        spacing: s, devices from one member to the next; groups in between share the links of the line.
        closed: c, 1 where the members go all around a ring, 0 where they stand on an open line, of which a ring
            uses one direction to go and the other to return.
        bandwidth: b, of one link in one direction.

    References:
        Austin et al., How to Scale Your Model, Google DeepMind 2025, "TPU networking": collectives use both
        directions of a ring, and lose one where the axis has no wraparound link.

    >>> float(torus_axis_bandwidth(members=16, spacing=1, closed=1, bandwidth=50e9))
    100000000000.0
    """
    return np.where(np.asarray(members) > 1, (1 + closed) * bandwidth / spacing, 0.0)


def torus_bandwidth(*, total: BytesPerSecond, widest: BytesPerSecond, concurrent: Count) -> BytesPerSecond:
    r"""What a collective over several axes of a torus reaches together.

    .. math:: B = \min\left(\sum_i B_i,\; c \max_i B_i\right)

    Args:
        total: Σ B_i, of the group along all its axes.
        widest: max B_i, of the group along the axis where it has most.
        concurrent: c, axes whose links are busy at the same time: all of them where the message is cut into a part for each
            axis (multi-ring), about one where rings go along one axis after the other.

    References:
        Austin et al., How to Scale Your Model, Google DeepMind 2025, "Sharded matrices": a gather over several axes has
        the bandwidth of all of them. On a pod of TPU v6e an all-reduce was measured at that of 1.05 axes (Google,
        tpu-recipes, microbenchmarks/trillium/collectives).

    >>> float(torus_bandwidth(total=400e9, widest=200e9, concurrent=3))
    400000000000.0
    """
    return np.minimum(total, concurrent * widest)


def torus_latency(*, hops: Count, latency: Seconds) -> Seconds:
    r"""Of a reduce-scatter or all-gather along the axes of a torus, one axis after the other.

    .. math:: T = h \alpha, \quad h = \sum_i s_i (p_i - 1)

    Args:
        hops: h, steps along all axes.
        latency: α, of one step to a neighbour.

    References:
        Derived from Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH,
        Int. J. High Performance Computing Applications 19(1), 2005, doi:10.1177/1094342005051521, section 4.1 (ring),
        applied to each axis.

    >>> torus_latency(hops=32, latency=1e-6)
    3.2e-05
    """
    return hops * latency


def spine_bandwidth(*, bandwidth: BytesPerSecond, oversubscription: Count) -> BytesPerSecond:
    r"""What one device has of the uplinks of its leaf when all devices of the leaf send through them.

    .. math:: B = b / o

    Args:
        bandwidth: b, of one device to its leaf, in one direction.
        oversubscription: o, bandwidth of all devices of a leaf over that of its uplinks; 1 is a full fat tree.

    References:
        Al-Fares, Loukissas, Vahdat, A scalable, commodity data center network architecture, SIGCOMM 2008,
        doi:10.1145/1402958.1402967, section 2.1.2 (oversubscription).

    >>> spine_bandwidth(bandwidth=25e9, oversubscription=2.5)
    10000000000.0
    """
    return bandwidth / oversubscription
