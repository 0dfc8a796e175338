"""Fused attention, block by block."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, BytesPerSecond, Count, FlopPerSecond, Number, Seconds


def flash_attention(
    *,
    heads: Count,
    queries: Count,
    keys: Count,
    head_dim: Count,
    products: Count,
    traffic: Bytes,
    peak: FlopPerSecond,
    cores: Count,
    block: Count,
    fraction: Count,
    keys_half: Count,
    bandwidth: BytesPerSecond,
    streaming_fraction: Count,
    launch: Seconds,
) -> Seconds:
    r"""Attention that never writes its scores: each core takes a block of queries over all keys of a head.

    .. math::
        T = t_0 + \max\left(\left\lceil \frac{a \lceil q / r \rceil}{p} \right\rceil
        \frac{2 c\, r d (k + k_{1/2})}{\eta P / p}, \frac{Q}{\varphi B}\right)

    The last wave of blocks keeps all cores waiting, and a short row of keys does not pay for the softmax and
    for filling the pipeline.

    Args:
        heads: a, over all samples of the batch.
        queries: q, of one head.
        keys: k, that a query sees on average: half of them where attention is causal.
        head_dim: d.
        products: c, of matrices for each block: 2 forward, 5 backward.
        traffic: Q, inputs read and outputs written once.
        peak: P, of the device.
        cores: p, units that each take one block.
        block: r, queries of a block.
        fraction: η, of the peak, over long rows.
        keys_half: k½, keys at which half of the time is softmax, filling and draining.
        bandwidth: B, of the memory.
        streaming_fraction: φ, the share of it that a large kernel reaches.
        launch: t₀, of the kernel.

    Assumes that the keys of a head stay in a cache; splitting them over cores (decoding) is left out.

    References:
        Dao, FlashAttention-2: faster attention with better parallelism and work partitioning, 2023
        (arXiv:2307.08691), section 3. The saturation term is derived.

    >>> round(float(flash_attention(heads=512, queries=4096, keys=2048.0, head_dim=128, products=2, traffic=1e8,
    ...     peak=312e12, cores=108, block=128, fraction=1.0, keys_half=0.0, bandwidth=2e12, streaming_fraction=1.0,
    ...     launch=0.0)) * 1e3, 2)
    7.06
    """
    blocks = np.ceil(heads * np.ceil(queries / block) / cores)
    rows = np.minimum(block, queries)
    compute: Number = blocks * 2 * products * rows * head_dim * (keys + keys_half) / (fraction * peak / cores)
    return launch + np.maximum(compute, traffic / (streaming_fraction * bandwidth))
