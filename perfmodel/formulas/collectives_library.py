"""Collectives as a communication library runs them: it starts a kernel, takes the fastest algorithm, fills a pipeline."""

from __future__ import annotations

import numpy as np

from perfmodel.formulas.collectives import chain_broadcast, ring_all_gather, ring_all_reduce
from perfmodel.formulas.collectives_layered import chained_tree_all_reduce, in_network_all_reduce
from perfmodel.units import TINY, Bytes, BytesPerSecond, Count, Number, Seconds


def _half_reached(most: Number, size: Number, half: Number) -> Number:
    """Grows with ``size`` up to ``most``, of which ``half`` reaches one half."""
    return most * size / (np.maximum(half, TINY) + size)


def startup(*, wire: Bytes, fills: Count, setup: Seconds, ramp: Seconds, ramp_size: Bytes) -> Seconds:
    r"""What a library needs besides the steps of an algorithm; nothing where nothing is sent.

    .. math:: T = t_0 + f h \frac{w}{w + f g}, \quad T = 0 \text{ for } w = 0

    Args:
        wire: w, bytes that each rank sends.
        fills: f, how often buffers fill one after the other on the way.
        setup: t_0, of starting the kernel and meeting the other ranks.
        ramp: h, what large messages lose to the filling of buffers, there and back.
        ramp_size: g, at which half of it is lost.

    Small messages travel with flags inside the data and small pieces, large ones through buffers that fill before
    they are passed on: a library trades latency against bandwidth in between.

    References:
        Derived; NCCL's protocols LL, LL128 and Simple, each with a base latency, a latency for each step and a share of
        the bandwidth, are the reason (NVIDIA, NCCL, src/graph/tuning.cc).

    >>> round(float(startup(wire=4e6, fills=1, setup=5e-6, ramp=20e-6, ramp_size=4e6)), 9)
    1.5e-05
    """
    return np.where(np.asarray(wire) > 0, setup + _half_reached(ramp * fills, wire, ramp_size * fills), 0.0)


def _hops(hosts: Count) -> Number:
    """Fillings of an all-reduce around a ring: one for each host that it passes, one where it stays in a host."""
    hops: Number = np.maximum(np.asarray(hosts) - 1, 1)
    return hops


def all_reduce(
    *, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds, hosts: Count,
    inner_bandwidth: BytesPerSecond, inner_latency: Seconds, outer_bandwidth: BytesPerSecond, outer_latency: Seconds,
    switch_bandwidth: BytesPerSecond, between_two: Count, setup: Seconds, ramp: Seconds, ramp_size: Bytes,
) -> Seconds:  # fmt: skip
    r"""The fastest of ring, tree of hosts, and reduction in the switch, with the library's start.

    .. math::
        T = \min\left(T_\text{ring} + S(\max(H - 1, 1)),\; T_\text{tree} + S(\log_2 H),\; t_0 + h + \frac{n}{B_s}\right),
        \qquad S(f) = t_0 + f h \frac{w}{w + f g}, \quad w = 2 \frac{p - 1}{p} n, \quad T = 0 \text{ for } p = 1

    Each host of a ring and each level of a tree fills its own buffers. On two hosts each tree has its root in one and its
    only leaf in the other, so that all data pass the network once in each direction, half as often as around a ring; ``between_two``
    says whether the library comes to that.

    Args:
        size: n, the message on each rank.
        ranks: p.
        bandwidth: B, of one rank in one direction, around a ring of all.
        latency: α, of one step around that ring.
        hosts: H; 1 where one host holds all ranks: then there is no tree.
        inner_bandwidth: B_i, of one rank inside its host.
        inner_latency: α_i, of one step inside a host.
        outer_bandwidth: B_o, of a host to the network.
        outer_latency: α_o, of one step between hosts.
        switch_bandwidth: B_s, of one rank into a switch of its host that reduces; 0 where none does.
        between_two: c, how often a tree's data pass the network between two hosts: 1 or 2 (B_o / c then stands for B_o).
        setup: t_0, of starting the kernel and meeting the other ranks.
        ramp: h, what large messages lose to the filling of buffers, there and back.
        ramp_size: g, at which half of it is lost.

    References:
        `ring_all_reduce` (of a torus along its axes, see `route`), `chained_tree_all_reduce` (whose chain may be the switch instead),
        `in_network_all_reduce` and `startup`. NCCL chooses by the smallest estimated time (NVIDIA, NCCL,
        src/graph/tuning.cc).

    >>> host = dict(hosts=1, inner_bandwidth=1e9, inner_latency=0.0, outer_bandwidth=1e9, outer_latency=0.0)
    >>> time = all_reduce(size=8e9, ranks=8, bandwidth=100e9, latency=0.0, switch_bandwidth=0.0,
    ...                   between_two=1, setup=0.0, ramp=0.0, ramp_size=0.0, **host)
    >>> round(float(time), 12)
    0.14
    """
    wire = 2 * (np.asarray(ranks) - 1) / ranks * size
    start = {"wire": wire, "setup": setup, "ramp": ramp, "ramp_size": ramp_size}
    ring = startup(fills=_hops(hosts), **start) + ring_all_reduce(
        size=size, ranks=ranks, bandwidth=bandwidth, latency=latency
    )
    reduces = np.asarray(switch_bandwidth) > 0
    often = np.where(np.asarray(hosts) > 2, 1, between_two)
    tree = startup(fills=np.maximum(np.log2(hosts), 1), **start) + chained_tree_all_reduce(
        size=size, ranks=ranks, hosts=hosts, inner_latency=inner_latency, outer_latency=outer_latency,
        inner_bandwidth=np.maximum(inner_bandwidth, 2 * np.asarray(switch_bandwidth)),
        outer_bandwidth=outer_bandwidth / often,
    )  # fmt: skip
    switch = setup + in_network_all_reduce(
        size=size, ranks=ranks, bandwidth=np.where(reduces, switch_bandwidth, 1.0), latency=ramp
    )
    alone = np.asarray(hosts) <= 1
    best = np.minimum(ring, np.where(alone, np.where(reduces, switch, np.inf), tree))
    return np.where(np.asarray(ranks) > 1, best, 0.0)


def all_gather(
    *, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds, hosts: Count,
    setup: Seconds, ramp: Seconds, ramp_size: Bytes,
) -> Seconds:  # fmt: skip
    r"""A ring, with the library's start; a reduce-scatter takes as long.

    .. math::
        T = T_\text{ring} + t_0 + f h \frac{w}{w + f g}, \qquad w = \frac{p - 1}{p} n, \quad f = \max\left(\frac{H - 1}{2}, 1\right)

    Args:
        size: n, the whole that each rank holds in the end (of a reduce-scatter: in the beginning).
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.
        hosts: H, that the ranks sit in; 1 where one host holds all.
        setup: t_0, of starting the kernel and meeting the other ranks.
        ramp: h, what large messages lose to the filling of buffers, there and back.
        ramp_size: g, at which half of it is lost.

    References:
        `ring_all_gather` and `startup`; NCCL gathers and scatters by rings (NVIDIA, NCCL, src/graph/tuning.cc).

    >>> library = dict(hosts=1, setup=5e-6, ramp=0.0, ramp_size=0.0)
    >>> round(float(all_gather(size=8e9, ranks=8, bandwidth=100e9, latency=0.0, **library)), 9)
    0.070005
    """
    wire = (np.asarray(ranks) - 1) / ranks * size
    ring = ring_all_gather(size=size, ranks=ranks, bandwidth=bandwidth, latency=latency)
    fills = np.maximum(_hops(hosts) / 2, 1)
    return ring + startup(wire=wire, fills=fills, setup=setup, ramp=ramp, ramp_size=ramp_size)


def broadcast(
    *, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds, hosts: Count, setup: Seconds,
    ramp: Seconds, ramp_size: Bytes,
) -> Seconds:  # fmt: skip
    r"""A chain of all ranks, with the library's start; a reduction to one rank takes as long.

    .. math::
        T = (p - 1)\alpha + \frac{n}{B} + t_0 + f h \frac{n}{n + f g}, \qquad f = \max\left(\frac{H - 1}{2}, 1\right),
        \quad T = 0 \text{ for } p = 1

    Args:
        size: n.
        ranks: p.
        bandwidth: B, of one rank in one direction.
        latency: α, of one step.
        hosts: H, that the ranks sit in; 1 where one host holds all.
        setup: t_0, of starting the kernel and meeting the other ranks.
        ramp: h, what large messages lose to the filling of buffers, there and back.
        ramp_size: g, at which half of it is lost.

    References:
        `chain_broadcast` and `startup`; NCCL broadcasts along rings (NVIDIA, NCCL, src/graph/tuning.cc).

    >>> library = dict(hosts=1, setup=5e-6, ramp=0.0, ramp_size=0.0)
    >>> round(float(broadcast(size=8e9, ranks=8, bandwidth=100e9, latency=0.0, **library)), 9)
    0.080005
    """
    chain = chain_broadcast(size=size, ranks=ranks, bandwidth=bandwidth, latency=latency)
    wire = np.where(np.asarray(ranks) > 1, size, 0.0)
    fills = np.maximum(_hops(hosts) / 2, 1)
    return chain + startup(wire=wire, fills=fills, setup=setup, ramp=ramp, ramp_size=ramp_size)


def all_to_all(
    *, size: Bytes, ranks: Count, near: Count, imbalance: Count, near_bandwidth: BytesPerSecond,
    far_bandwidth: BytesPerSecond, latency: Seconds, post: Seconds, setup: Seconds, handshake: Seconds, eager: Bytes,
) -> Seconds:  # fmt: skip
    r"""All pairs at once; those inside a host and those between hosts share the time.

    .. math::
        T = t_0 + \alpha + (p - 2) \beta + c \frac{n/p}{n/p + e}
            + \lambda \frac{n}{p} \max\left(\frac{m - 1}{B_i}, \frac{p - m}{B_o}\right),
        \quad T = 0 \text{ for } p = 1

    Args:
        size: n, what each rank sends on average, its own part included.
        ranks: p.
        near: m, ranks of a host.
        imbalance: λ, of the rank that sends or receives most over the mean.
        near_bandwidth: B_i, of one rank inside its host.
        far_bandwidth: B_o, of one rank to other hosts.
        latency: α, of one message.
        post: β, of handing one more message to the network.
        setup: t_0, of starting the kernel and meeting the other ranks.
        handshake: c, what a large message waits for its receiver.
        eager: e, the message that waits half as long.

    Assumes that the hosts' ranks are dense.

    References:
        Derived; NCCL sends small point-to-point messages with flags inside the data, large ones through buffers.

    >>> link = dict(near_bandwidth=100e9, far_bandwidth=10e9, latency=0.0, post=0.0, setup=0.0, handshake=0.0, eager=0.0)
    >>> round(float(all_to_all(size=16e9, ranks=16, near=8, imbalance=1, **link)), 9)
    0.8
    """
    each = size / ranks
    inside = (np.minimum(near, ranks) - 1) / near_bandwidth
    outside = np.maximum(np.asarray(ranks) - near, 0) / far_bandwidth
    begun = setup + latency + np.maximum(np.asarray(ranks) - 2, 0) * post + _half_reached(handshake, each, eager)
    return np.where(np.asarray(ranks) > 1, begun + imbalance * each * np.maximum(inside, outside), 0.0)


def send_receive(
    *, size: Bytes, ranks: Count, bandwidth: BytesPerSecond, latency: Seconds, setup: Seconds, handshake: Seconds,
    eager: Bytes,
) -> Seconds:  # fmt: skip
    r"""One message from each rank to its neighbour; nothing where there is no neighbour.

    .. math:: T = t_0 + \alpha + c \frac{n}{n + e} + \frac{n}{B}, \quad T = 0 \text{ for } p = 1

    Args:
        size: n.
        ranks: p, ranks in the chain of neighbours.
        bandwidth: B, of one rank in one direction.
        latency: α.
        setup: t_0, of starting the kernel and meeting the other rank.
        handshake: c, what a large message waits for its receiver.
        eager: e, the message that waits half as long.

    References:
        Hockney, The communication challenge for MPP, Parallel Computing 20(3), 1994.
        doi:10.1016/S0167-8191(06)80021-9; the handshake is derived.

    >>> float(send_receive(size=1e9, ranks=2, bandwidth=100e9, latency=0.0, setup=0.0, handshake=0.0, eager=0.0))
    0.01
    """
    begun = setup + latency + _half_reached(handshake, size, eager)
    return np.where(np.asarray(ranks) > 1, begun + size / bandwidth, 0.0)


def fixed_algorithm(
    *, bare: Seconds, wire: Bytes, fills: Count, setup: Seconds, ramp: Seconds, ramp_size: Bytes
) -> Seconds:
    r"""An algorithm that the user chose, with the library's start.

    .. math:: T = T_\text{bare} + t_0 + f h \frac{w}{w + f g}, \quad T = 0 \text{ for } w = 0

    Args:
        bare: of the algorithm's steps and transfers.
        wire: w, bytes that each rank sends.
        fills: f, how often buffers fill one after the other on the way.
        setup: t_0, of starting the kernel and meeting the other ranks.
        ramp: h, what large messages lose to the filling of buffers, there and back.
        ramp_size: g, at which half of it is lost.

    References:
        The algorithms of `perfmodel.formulas.collectives`, and `startup`.

    >>> round(float(fixed_algorithm(bare=0.1, wire=4e6, fills=1, setup=5e-6, ramp=20e-6, ramp_size=4e6)), 6)
    0.100015
    """
    begun = startup(wire=wire, fills=fills, setup=setup, ramp=ramp, ramp_size=ramp_size)
    return np.where(np.asarray(wire) > 0, bare + begun, 0.0)
