"""Embedding tables: which rows a batch looks up, and how long the memories that hold them take."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, BytesPerSecond, Count, Seconds

RANKS = (np.arange(96) + 0.5) / 96
"""Where popularity is summed: logarithms of ranks, as shares of that of the last one."""


def _popularity(table: Count, skew: Count) -> tuple[Count, Count]:
    """Probability of a row at each of `RANKS`, and how many rows each stands for; the last axis."""
    span = np.log1p(np.asarray(table, dtype=float))[..., np.newaxis]
    rank = np.exp(span * RANKS)
    rows_there = rank * span / len(RANKS)
    weight = rank ** -np.asarray(skew, dtype=float)[..., np.newaxis]
    return weight / np.sum(weight * rows_there, axis=-1, keepdims=True), rows_there


def distinct_rows(*, table: Count, lookups: Count, skew: Count) -> Count:
    r"""Rows of a table that a batch looks up at least once.

    .. math:: D = \int_1^{N+1} \left(1 - e^{-n p(r)}\right) dr, \qquad p(r) = \frac{r^{-s}}{\int_1^{N+1} x^{-s} dx}

    Args:
        table: N, rows of it.
        lookups: n, of the batch.
        skew: s, exponent of Zipf's law by which the r-th most popular row is looked up; 0 where all are alike.

    Assumes independent lookups. Without skew it is N (1 - exp(-n/N)).

    References:
        Derived, as the classic occupancy problem; that ids follow power laws: Fang et al., A frequency-aware software
        cache for large recommendation system embeddings, 2022. arXiv:2208.05321

    >>> round(float(distinct_rows(table=1e6, lookups=1e6, skew=0.0)) / 1e6, 2)
    0.63
    >>> round(float(distinct_rows(table=1e6, lookups=1e6, skew=1.2)) / 1e6, 2)
    0.09
    """
    probability, there = _popularity(table, skew)
    looked_up = -np.expm1(-np.asarray(lookups, dtype=float)[..., np.newaxis] * probability)
    found: Count = np.sum(looked_up * there, axis=-1)
    return found


def popular_share(*, table: Count, kept: Count, skew: Count) -> Count:
    r"""Share of the lookups that go to the most popular rows: the hit rate of a cache that keeps those.

    .. math:: h = \int_1^{1 + cN} p(r) dr = \frac{(1 + cN)^{1-s} - 1}{(1 + N)^{1-s} - 1}

    Args:
        table: N, rows of it.
        kept: cN, of them in the cache.
        skew: s, exponent of Zipf's law; for s = 1 powers become logarithms, and for s = 0 the share is that of the rows.

    References:
        Fang et al., 2022 (arXiv:2208.05321): the distribution of ids decides the hit rate; its integral is derived.

    >>> round(float(popular_share(table=1e8, kept=1.5e6, skew=1.05)), 2)
    0.85
    """
    power = 1 - np.asarray(skew, dtype=float)
    straight = np.abs(power) < 1e-6
    power = np.where(straight, 1.0, power)
    inside, whole = np.log1p(np.minimum(kept, table)), np.log1p(table)
    return np.where(straight, inside / whole, np.expm1(power * inside) / np.expm1(power * whole))


def frequent_rows(*, table: Count, lookups: Count, skew: Count) -> Count:
    r"""Rows that a batch looks up at least once on average.

    .. math:: F = \min\left(N, \left(\frac{n}{\int_1^{N+1} x^{-s} dx}\right)^{1/s} - 1\right)

    Args:
        table: N, rows of it.
        lookups: n, of the batch.
        skew: s, exponent of Zipf's law; without skew all rows or none.

    Of a row that each of p ranks wants n times in its batch, sending vectors and their gradients moves 2 n (p - 1) rows in
    all, a ring that adds up the gradients of its copies 2 (p - 1): copies pay from n = 1 on.

    References:
        Derived, as the balance of both that HugeCTR's hybrid embedding strikes: Wang et al., Merlin HugeCTR -
        GPU-accelerated recommender system training and inference, RecSys 2022 (arXiv:2210.08803).

    >>> round(float(frequent_rows(table=4e7, lookups=6912, skew=1.45)))
    255
    """
    exponent = np.maximum(np.asarray(skew, dtype=float), 1e-9)
    power = 1 - exponent
    straight = np.abs(power) < 1e-6
    span = np.log1p(np.asarray(table, dtype=float))
    whole = np.where(straight, span, np.expm1(power * span) / np.where(straight, 1.0, power))
    last = np.minimum(np.log(np.maximum(lookups, 1e-300) / whole) / exponent, span)
    found: Count = np.maximum(np.expm1(last), 0.0)
    return found


def row_traffic(*, rows: Count, row: Bytes, sector: Bytes) -> Bytes:
    r"""What memory moves for rows that lie anywhere.

    .. math:: Q = n \left\lceil \frac{w}{q} \right\rceil q

    Args:
        rows: n, that are read or written.
        row: w, bytes of one.
        sector: q, that memory moves at least.

    Assumes that rows begin at a sector.

    References:
        Derived; TorchRec's planner likewise takes rows of fewer than 32 numbers as 32 (planner/estimator).

    >>> float(row_traffic(rows=1000, row=40.0, sector=32.0))
    64000.0
    """
    return rows * np.ceil(np.asarray(row) / sector) * sector


def tiered_lookup(
    *, traffic: Bytes, missed: Bytes, bandwidth: BytesPerSecond, fraction: Count, link: BytesPerSecond, launch: Seconds
) -> Seconds:
    r"""Lookup in tables of which a cache on the device has the popular rows, and the memory of the host the others.

    .. math:: T = t_0 + \frac{Q}{\varphi B} + \frac{M}{L}

    Args:
        traffic: Q, of the memory of the device: h of the rows at hit rate h, and the vectors that are made of all.
        missed: M, 1 - h of the rows, which cross the link to the host; 0 where the device has all.
        bandwidth: B, of the memory of the device.
        fraction: φ, the share of it that gathered rows reach.
        link: L, what copies reach on the link to the host.
        launch: t₀, of the kernel.

    References:
        Fang et al., 2022 (arXiv:2208.05321): h bytes / B + (1 - h) bytes / L, without prefetching.

    >>> tiered_lookup(traffic=8e9, missed=1e9, bandwidth=2e12, fraction=0.8, link=2e10, launch=0.0)
    0.055
    """
    return launch + traffic / (fraction * bandwidth) + missed / link
