"""One kernel on one device, bound by computing or by moving bytes."""

from __future__ import annotations

import numpy as np

from perfmodel.units import TINY, Bytes, BytesPerSecond, Count, Flop, FlopPerSecond, Hertz, Seconds


def roofline(*, work: Flop, traffic: Bytes, compute_rate: FlopPerSecond, memory_bandwidth: BytesPerSecond) -> Seconds:
    r"""The slower of computing and of moving the bytes.

    .. math:: T = \max\left(\frac{W}{P}, \frac{Q}{B}\right)

    Args:
        work: W.
        traffic: Q, to and from memory.
        compute_rate: P.
        memory_bandwidth: B.

    Assumes that computing and moving overlap perfectly.

    References:
        Williams, Waterman, Patterson, Roofline: an insightful visual performance model for
        multicore architectures, Commun. ACM 52(4), 2009. doi:10.1145/1498765.1498785

    >>> float(roofline(work=4e12, traffic=1e9, compute_rate=2e12, memory_bandwidth=1e12))
    2.0
    """
    return np.maximum(work / compute_rate, traffic / memory_bandwidth)


def overlapped(*, computing: Seconds, moving: Seconds, overlap: Count) -> Seconds:
    r"""Computing and moving that hide one another in part.

    .. math:: T = \left(C^o + M^o\right)^{1/o}

    Args:
        computing: C, alone.
        moving: M, alone.
        overlap: o, 1 where one follows the other, large where the longer hides the shorter.

    References:
        Derived: the norm between the sum (o = 1) and the maximum of `roofline` (o to infinity).

    >>> float(overlapped(computing=3.0, moving=4.0, overlap=2.0))
    5.0
    """
    longer, shorter = np.maximum(computing, moving), np.minimum(computing, moving)
    ratio = shorter / np.maximum(longer, TINY)
    return longer * (1 + ratio**overlap) ** (1 / overlap)


def streaming(*, traffic: Bytes, bandwidth: BytesPerSecond, fraction: Count, launch: Seconds) -> Seconds:
    r"""A kernel that only moves bytes: norm, activation, dropout, optimiser.

    .. math:: T = t_0 + \frac{Q}{\varphi B}

    Args:
        traffic: Q, read and written.
        bandwidth: B, of the memory.
        fraction: φ, the share of it that a large kernel reaches.
        launch: t₀, of the kernel.

    Assumes that B is of what serves the kernel: memory, or a cache that holds all of Q.

    References:
        Derived: the latency-bandwidth form of Hockney (Parallel Computing 20(3), 1994) for memory.

    >>> streaming(traffic=16e9, bandwidth=2e12, fraction=0.8, launch=0.0)
    0.01
    """
    return launch + traffic / (fraction * bandwidth)


def paced(
    *,
    traffic: Bytes,
    elements: Count,
    bandwidth: BytesPerSecond,
    fraction: Count,
    rate: Hertz,
    launch: Seconds,
) -> Seconds:
    r"""A kernel that handles its elements one at a time: strided copy, broadcast sum, norm of rows, lookup.

    .. math:: T = t_0 + \max\left(\frac{Q}{\varphi B}, \frac{n}{r}\right)

    Args:
        traffic: Q, read and written.
        elements: n, that the kernel writes.
        bandwidth: B, of the memory.
        fraction: φ, the share of it that a large kernel reaches.
        rate: r, elements that the device finishes in a second, addresses and conversions included.
        launch: t₀, of the kernel.

    Narrow elements make it bind: they need less memory traffic but no fewer instructions.

    References:
        Derived. The instruction ceiling of the roofline: Ding and Williams, An instruction roofline
        model for GPUs, PMBS 2019. doi:10.1109/PMBS49563.2019.00007

    >>> float(paced(traffic=4e9, elements=1e9, bandwidth=2e12, fraction=0.8, rate=2e11, launch=0.0))
    0.005
    """
    return launch + np.maximum(traffic / (fraction * bandwidth), elements / rate)


def chunked(
    *,
    work: Flop,
    traffic: Bytes,
    compute_rate: FlopPerSecond,
    fraction: Count,
    bandwidth: BytesPerSecond,
    streaming_fraction: Count,
    cores: Count,
    pace: BytesPerSecond,
    launch: Seconds,
) -> Seconds:
    r"""A kernel whose cores work through small chunks: bound by computing, by memory, or by what a core gets through.

    .. math:: T = t_0 + \max\left(\frac{W}{\eta P}, \frac{Q}{\varphi B}, \frac{Q}{c q}\right)

    Args:
        work: W.
        traffic: Q, inputs read and outputs written once.
        compute_rate: P, peak.
        fraction: η, the share of the peak that a product reaches.
        bandwidth: B, of the memory.
        streaming_fraction: φ, the share of it that a large kernel reaches.
        cores: c, of the device.
        pace: q, of one core: it loads a chunk, decays it element by element in fp32, multiplies, and waits for each in turn.
        launch: t₀.

    References:
        Derived: `fused` with the instruction ceiling of the roofline, Ding and Williams, An instruction roofline model for GPUs,
        PMBS 2019, doi:10.1109/PMBS49563.2019.00007, for each byte rather than each element.

    >>> float(chunked(work=1e12, traffic=1e9, compute_rate=2e12, fraction=0.5, bandwidth=1e12, streaming_fraction=1.0,
    ...               cores=100, pace=5e6, launch=0.0))
    2.0
    """
    moving = np.maximum(traffic / (streaming_fraction * bandwidth), traffic / (cores * pace))
    return launch + np.maximum(work / (fraction * compute_rate), moving)


def fused(
    *,
    work: Flop,
    traffic: Bytes,
    compute_rate: FlopPerSecond,
    fraction: Count,
    bandwidth: BytesPerSecond,
    streaming_fraction: Count,
    launch: Seconds,
) -> Seconds:
    r"""A kernel that keeps what it computes on chip, such as fused attention.

    .. math:: T = t_0 + \max\left(\frac{W}{\eta P}, \frac{Q}{\varphi B}\right)

    Args:
        work: W.
        traffic: Q, inputs read and outputs written once.
        compute_rate: P, peak.
        fraction: η, the share of the peak that the kernel reaches.
        bandwidth: B, of the memory.
        streaming_fraction: φ, the share of it that a large kernel reaches.
        launch: t₀.

    References:
        Williams, Waterman, Patterson, Roofline, Commun. ACM 52(4), 2009, with efficiencies (derived).

    >>> float(fused(work=1e12, traffic=1e9, compute_rate=2e12, fraction=0.5, bandwidth=1e12,
    ...             streaming_fraction=1.0, launch=0.0))
    1.0
    """
    compute = work / (fraction * compute_rate)
    return launch + np.maximum(compute, traffic / (streaming_fraction * bandwidth))
