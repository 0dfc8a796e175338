"""Products whose inner dimension is split over cores."""

from __future__ import annotations

from functools import reduce

import numpy as np

from perfmodel.formulas.matmul import tiled_matmul
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
        T = \min_{s \in \{1, 2, 4, \dots, S\}} T_\text{tiled}\left(s b, \frac{k}{s}, Q + [s > 1]\, 2 s q b m n\right)

    Its output, the filters, has fewer tiles than the device has cores, while its inner dimension, the pixels of a batch, is
    long. With s parts each tile is computed s times over a part of the pixels; the partial sums are written and read again.

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

    Assumes that the library finds the fastest number of parts.

    References:
        Split of the inner dimension: NVIDIA, CUTLASS, Efficient GEMM in CUDA, parallelised reductions,
        https://github.com/NVIDIA/cutlass/blob/main/media/docs/efficient_gemm.md. The minimum is derived.

    >>> v100 = dict(peak=125e12, cores=80, tile_rows=128, tile_columns=128, fraction=1.0, sustained=1.0, tile_balance=0.0,
    ...     depth_half=0.0, depth_time=0.0, overlap=100.0, bandwidth=9e11, streaming_fraction=1.0, launch=0.0)
    >>> filters = dict(rows=256, columns=64, depth=401408, count=1, traffic=257e6, partial=4.0)
    >>> [round(float(split_product(splits=s, **filters, **v100)) * 1e6) for s in (1, 64)]
    [8418, 290]
    """
    device = {
        "peak": peak, "cores": cores, "tile_rows": tile_rows, "tile_columns": tile_columns, "fraction": fraction,
        "sustained": sustained, "tile_balance": tile_balance, "depth_half": depth_half, "depth_time": depth_time,
        "overlap": overlap, "bandwidth": bandwidth, "streaming_fraction": streaming_fraction, "launch": launch,
    }  # fmt: skip
    sums = 2 * partial * count * rows * columns
    times = (
        np.where(
            np.asarray(splits) >= s,
            tiled_matmul(
                rows=rows, columns=columns, depth=depth / s, count=count * s, traffic=traffic + (s > 1) * s * sums,
                **device,
            ),
            np.inf,
        )
        for s in 2 ** np.arange(1 + int(np.log2(np.max(splits))))
    )  # fmt: skip
    fastest: Seconds = reduce(np.minimum, times)
    return fastest
