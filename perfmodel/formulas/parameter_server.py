"""Parameter servers and peer-to-peer exchange of gradients. Arguments broadcast."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, BytesPerSecond, Count, Hertz, Seconds


def server_transfer(
    *,
    size: Bytes,
    workers: Count,
    servers: Count,
    worker_bandwidth: BytesPerSecond,
    server_bandwidth: BytesPerSecond,
    on: Count,
    latency: Seconds,
) -> Seconds:
    r"""All workers push their gradients to the servers that share the keys, or pull from them, at the busiest port.

    .. math:: T = \alpha + \max\left(\frac{s n}{B_w}, \frac{(w - c) n}{k B_s}\right), \quad
              s = \begin{cases} 1 & c = 0 \\ \min\left(1, \frac{w - 1}{k}\right) & c = 1 \end{cases}

    Args:
        size: n, of all keys, from one worker.
        workers: w; one has nothing to agree on.
        servers: k, each with 1/k of the keys.
        worker_bandwidth: B_w, of one worker's port in one direction.
        server_bandwidth: B_s, of all ports of one server in one direction.
        on: c, 1 where servers run on the workers' machines and keep their own share, 0 on machines of their own.
        latency: α, of one message.

    Assumes keys of equal load on all servers, and a switch that blocks nobody.

    References:
        Derived, as the bytes at the busiest port. For k = w it is n / B on machines of its own and
        (w - 1) n / (w B) on the workers, which are the ends of the optimum of Jiang et al., A unified
        architecture for accelerating distributed DNN training in heterogeneous GPU/CPU clusters
        (BytePS), OSDI 2020, section 4.1 (read in a summary of the paper).

    >>> rates = {"worker_bandwidth": 1e9, "server_bandwidth": 1e9, "latency": 0.0}
    >>> float(server_transfer(size=1e9, workers=8, servers=2, on=0, **rates))
    4.0
    >>> float(server_transfer(size=1e9, workers=8, servers=8, on=1, **rates))
    0.875
    """
    workers, servers, on = np.asarray(workers), np.asarray(servers), np.asarray(on)
    arriving = (workers - on) / servers
    leaving = np.where(on > 0, np.minimum(1.0, arriving), 1.0)
    busiest = np.maximum(leaving * size / worker_bandwidth, arriving * size / server_bandwidth)
    return np.where(workers > 1, latency + busiest, 0.0)


def both_directions(*, duplex: Count, workers: Count, servers: Count, on: Count) -> Count:
    r"""How much of the shorter of push and pull travels beside the longer.

    .. math:: o = d \left(1 - c \frac{k - 1}{w - 1}\right)

    Args:
        duplex: d, how much the software carries in both directions at once; 0 one after the other.
        workers: w.
        servers: k, at most w where they run on the workers.
        on: c, 1 where servers run on the workers' machines, whose ports then push and answer in both directions.

    Of times t and u the two then take max(t, u) + (1 - o) min(t, u).

    References:
        Derived. With d = 0 push and pull make the 2 n / B of the lemma on servers in Zou et al., Distributed
        training large-scale deep architectures, 2017, arXiv:1709.06622 (rebuilt from a summary); with d = 1
        the optimum of BytePS (OSDI 2020, section 4.1, read in a summary): n / B with as many servers as
        workers on machines of their own, 2 (w - 1) n / (w B) with one on each worker.

    >>> float(both_directions(duplex=1.0, workers=8, servers=8, on=0))
    1.0
    >>> float(both_directions(duplex=1.0, workers=8, servers=8, on=1))
    0.0
    """
    share = np.asarray(on) * (np.asarray(servers) - 1) / np.maximum(np.asarray(workers) - 1, 1)
    beside: Count = np.clip(duplex, 0.0, 1.0) * (1 - np.clip(share, 0.0, 1.0))
    return beside


def server_sum(
    *, size: Bytes, workers: Count, servers: Count, passes: Count, memory_bandwidth: BytesPerSecond
) -> Seconds:
    r"""A server's processors add up what all workers push, at the pace of its memory.

    .. math:: T = \frac{p w n}{k B_m}

    Args:
        size: n, of all keys, from one worker.
        workers: w; one has nothing to add.
        servers: k, each with 1/k of the keys.
        passes: p, times that memory is read or written for each byte that arrives.
        memory_bandwidth: B_m, of one server.

    References:
        Derived; that aggregation is bound by memory where cards are many is the argument of Luo et al.,
        Parameter Hub, SoCC 2018, arXiv:1805.07891 (abstract).

    >>> float(server_sum(size=1e9, workers=8, servers=2, passes=5, memory_bandwidth=100e9))
    0.2
    """
    time: Seconds = passes * np.asarray(workers) * size / (servers * memory_bandwidth)
    return np.where(np.asarray(workers) > 1, time, 0.0)


def pipeline_fill(*, others: Seconds, chunks: Count) -> Seconds:
    r"""What the first chunk of keys takes in the stages that the slowest does not hide.

    .. math:: T = \frac{t}{m}

    Args:
        others: t, of all stages but the slowest together, over all keys.
        chunks: m, equal parts that follow one another through the stages.

    With the slowest stage it makes the time of a pipeline of equal chunks; one chunk hides nothing.

    References:
        Derived: stages of a linear pipeline.

    >>> pipeline_fill(others=2.0, chunks=10)
    0.2
    """
    return others / chunks


def full_exchange(*, size: Bytes, workers: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Seconds:
    r"""Every worker sends its whole gradient to every other.

    .. math:: T = (w - 1)\left(\alpha + \frac{n}{B}\right)

    Args:
        size: n, the gradient of one worker.
        workers: w.
        bandwidth: B, of one worker's port in one direction.
        latency: α, of one message.

    Assumes that all send at once, and that the messages of one leave one after the other.

    References:
        Derived: (w - 1) n leave each port. The architecture is P2P of Alqahtani and Demirbas, Performance
        analysis and comparison of distributed machine learning systems, 2019, arXiv:1909.02061 (abstract).

    >>> float(full_exchange(size=1e9, workers=8, bandwidth=1e9, latency=0.0))
    7.0
    """
    time: Seconds = np.maximum(np.asarray(workers) - 1, 0) * (latency + size / bandwidth)
    return time


def servers_to_hide(*, size: Bytes, workers: Count, bandwidth: BytesPerSecond, rate: Hertz) -> Count:
    r"""Servers that suffice for pushing and pulling to take no longer than computing.

    .. math:: k \ge \frac{2 w n r}{B}

    Args:
        size: n, of all parameters.
        workers: w.
        bandwidth: B, of one server in one direction.
        rate: r, batches that a worker computes in a second.

    Assumes that servers bind, that they are machines of their own and that push and pull follow one another.

    References:
        Zou et al., Distributed training large-scale deep architectures, 2017, arXiv:1709.06622, lemma on
        parameter servers (rebuilt from a summary).

    >>> servers_to_hide(size=1e9, workers=8, bandwidth=1e9, rate=0.25)
    4.0
    """
    return 2 * size * workers * rate / bandwidth


def servers_to_match_ring(*, workers: Count, duplex: Count) -> Count:
    r"""Servers with which pushing and pulling take as long as a ring all-reduce over the same ports.

    .. math:: k = \frac{(2 - d) w^2}{2 (w - 1)} \text{ where that is at most } w, \text{ else } \infty

    Args:
        workers: w, at least 2.
        duplex: d, how much of the pull travels beside the push.

    Assumes machines of their own, bandwidth alone. More servers than workers serve nobody faster, so that
    without both directions at once no number reaches the ring.

    References:
        Derived from `server_transfer`, `both_directions` and `ring_all_reduce`.

    >>> float(servers_to_match_ring(workers=8, duplex=1.0)), float(servers_to_match_ring(workers=8, duplex=0.0))
    (4.571428571428571, inf)
    """
    workers = np.asarray(workers)
    many = (2 - np.clip(duplex, 0.0, 1.0)) * workers**2 / (2 * np.maximum(workers - 1, 1))
    return np.where((workers > 1) & (many <= workers), many, np.inf)
