"""Fused attention, block by block."""

from __future__ import annotations

import numpy as np

from perfmodel.formulas.roofline import overlapped
from perfmodel.units import Bytes, BytesPerSecond, Count, FlopPerSecond, Seconds


def flash_attention(
    *,
    heads: Count,
    queries: Count,
    keys: Count,
    width: Count,
    softmaxes: Count,
    traffic: Bytes,
    peak: FlopPerSecond,
    cores: Count,
    block: Count,
    fraction: Count,
    softmax_width: Count,
    keys_half: Count,
    overlap: Count,
    bandwidth: BytesPerSecond,
    streaming_fraction: Count,
    launch: Seconds,
) -> Seconds:
    r"""Attention that never writes its scores: each core takes a block of queries over all keys of a head.

    .. math::
        T = t_0 + \left(C^o + M^o\right)^{1/o}, \quad M = \frac{Q}{\varphi B}, \quad
        C = \left\lceil \frac{a \lceil q / r \rceil}{p} \right\rceil
        \frac{2 r (w + x\, w_x) (k + k_{1/2})}{\eta P / p}

    The last wave of blocks keeps all cores waiting; the exponentials of a score cost as much as so many columns of
    the products; a short row of keys does not pay for filling the pipeline.

    Args:
        heads: a, over all samples of the batch.
        queries: q, of one head.
        keys: k, that a query sees on average: half of them where attention is causal.
        width: w, inner dimensions of the products that one score takes part in, added up: forward 2 head dimensions.
        softmaxes: x, how often the exponential of a score is computed: once forward, once backward.
        traffic: Q, inputs read and outputs written once.
        peak: P, of the device.
        cores: p, units that each take one block.
        block: r, queries of a block; half blocks are the smallest that a kernel has.
        fraction: η, of the peak, over long rows.
        softmax_width: w_x, product columns that cost as much as one exponential.
        keys_half: k½, keys at which half of the time is filling and draining.
        overlap: o, 1 where computing C and moving M follow one another, large where the longer hides the other.
        bandwidth: B, of the memory.
        streaming_fraction: φ, the share of it that a large kernel reaches.
        launch: t₀, of the kernel.

    Assumes that the keys of a head stay in a cache; splitting them over cores (decoding) is left out.

    References:
        Blocks: Dao, FlashAttention-2, 2023 (arXiv:2307.08691), section 3. Exponentials beside products: Shah et al.,
        FlashAttention-3, 2024 (arXiv:2407.08608), section 3.2. The saturation term is derived.

    >>> round(float(flash_attention(heads=512, queries=4096, keys=2048.0, width=256, softmaxes=1, traffic=0.0,
    ...     peak=312e12, cores=108, block=128, fraction=1.0, softmax_width=0.0, keys_half=0.0, overlap=2.0,
    ...     bandwidth=2e12, streaming_fraction=1.0, launch=0.0)) * 1e3, 2)
    7.06
    """
    waves = np.ceil(heads * np.ceil(queries / block) / cores)
    rows = np.where(np.asarray(queries) > block / 2, block, block / 2)
    work = 2 * rows * (width + softmaxes * softmax_width) * (keys + keys_half)
    computing = waves * work / (fraction * peak / cores)
    moving = traffic / (streaming_fraction * bandwidth)
    return launch + overlapped(computing=computing, moving=moving, overlap=overlap)
