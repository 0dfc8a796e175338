"""Products whose inner dimension is split over cores."""

from __future__ import annotations

import numpy as np

from perfmodel.formulas.matmul import tiled_compute
from perfmodel.formulas.roofline import overlapped
from perfmodel.units import Bytes, BytesPerSecond, Count, FlopPerSecond, Seconds


def split_product(
    *,
    rows: Count,
    columns: Count,
    depth: Count,
    count: Count,
    traffic: Bytes,
    splits: Count,
    partial: Bytes,
    peak: FlopPerSecond,
    cores: Count,
    tile_rows: Count,
    tile_columns: Count,
    fraction: Count,
    sustained: Count,
    tile_balance: Count,
    depth_half: Count,
    depth_time: Seconds,
    overlap: Count,
    bandwidth: BytesPerSecond,
    streaming_fraction: Count,
    launch: Seconds,
) -> Seconds:
    r"""A product whose inner dimension may be split over cores, as the gradient of a convolution's filters.

    .. math::
        T = t_0 + \min_{(r, c),\, s \in \{1, S\}} \left(C_s^o + M_s^o\right)^{1/o}, \quad
        M_s = \frac{Q + [s > 1]\, 2 s q b m n}{\varphi B}, \quad
        C_s = \left\lceil \frac{s b \lceil m/r \rceil \lceil n/c \rceil}{p} \right\rceil
        \left(\frac{k}{s} + k_{1/2}\right) \tau_{r c}

    Its output, the filters, has fewer tiles than the device has cores, while its inner dimension, the pixels of a batch, is
    long. Cut into the S parts that fill the cores, each tile is computed over a part of the pixels by a core of its own; the
    partial sums are written and read again. The time τ of a tile for one of the inner dimension is that of `tiled_matmul`.

    Args:
        rows: m, of the left matrix and the output.
        columns: n, of the right matrix and the output.
        depth: k, inner dimension.
        count: b, independent products.
        traffic: Q, operands read and output written, each once.
        splits: S, parts at most; with 1 the product is not split.
        partial: q, of one element of a partial sum.
        peak: of the device.
        cores: units that each take one tile.
        tile_rows: of each tile shape that the library has (last axis: the shapes).
        tile_columns: likewise.
        fraction: of the peak, in a large product with large tiles.
        sustained: of the rate of a short benchmark, kept up in hours of training.
        tile_balance: intensity of a tile below which loading operands takes longer than multiplying.
        depth_half: inner dimension at which half of the time is filling and draining.
        depth_time: least time of a core for one of the inner dimension, however small the tile.
        overlap: of computing and moving.
        bandwidth: of the memory.
        streaming_fraction: the share of it that a large kernel reaches.
        launch: of the kernel.

    Assumes that the library finds the faster of the two, and the fastest tile shape.

    References:
        Split of the inner dimension: NVIDIA, CUTLASS, Efficient GEMM in CUDA, parallelised reductions,
        https://github.com/NVIDIA/cutlass/blob/main/media/docs/efficient_gemm.md. The minimum is derived.

    >>> v100 = dict(peak=125e12, cores=80, tile_rows=128, tile_columns=128, fraction=1.0, sustained=1.0, tile_balance=0.0,
    ...     depth_half=0.0, depth_time=0.0, overlap=100.0, bandwidth=9e11, streaming_fraction=1.0, launch=0.0)
    >>> filters = dict(rows=256, columns=64, depth=401408, count=1, traffic=257e6, partial=4.0)
    >>> [round(float(split_product(splits=s, **filters, **v100)) * 1e6) for s in (1, 64)]
    [8418, 291]
    """
    rate = peak * fraction * sustained
    whole = tiled_compute(
        rows=rows, columns=columns, depth=depth, count=count, rate=rate, cores=cores, tile_rows=tile_rows,
        tile_columns=tile_columns, tile_balance=tile_balance, depth_half=depth_half, depth_time=depth_time, overlap=overlap,
    )  # fmt: skip
    memory = streaming_fraction * bandwidth
    unsplit = overlapped(computing=whole, moving=traffic / memory, overlap=overlap)

    m, n, k, b, most, moved, q, rates, p, slope, least, half, balance, o = (
        np.expand_dims(np.asarray(x), -1)
        for x in (rows, columns, depth, count, np.minimum(splits, depth), traffic, partial, memory,
                  cores, 2 * cores / rate, depth_time, depth_half, tile_balance, overlap)
    )  # fmt: skip
    r, c = np.atleast_1d(tile_rows), np.atleast_1d(tile_columns)
    tiles = b * np.ceil(m / r) * np.ceil(n / c)
    parts = np.maximum(np.minimum(np.floor(p / tiles), most), 1)
    one = np.maximum(slope * overlapped(computing=r * c, moving=(r + c) * balance, overlap=o), least)
    computing = np.ceil(tiles * parts / p) * (k / parts + half) * one
    moving = (moved + (parts > 1) * parts * 2 * q * b * m * n) / rates
    split: Seconds = np.min(overlapped(computing=computing, moving=moving, overlap=o), axis=-1)
    return launch + np.minimum(unsplit, split)
