"""Convolutions: as the product that computes them implicitly, or as Winograd's."""

from __future__ import annotations

import numpy as np

from perfmodel.formulas.matmul import tiled_compute, tiled_matmul
from perfmodel.units import Bytes, BytesPerSecond, Count, FlopPerSecond, Seconds

WINOGRAD = 36
"""Products of F(4 x 4, 3 x 3): one for each element of a 6 x 6 tile."""
KERNELS = 3
"""Of Winograd's algorithm through memory: transform, products, transform back."""


def winograd_convolution(
    *,
    rows: Count,
    columns: Count,
    depth: Count,
    count: Count,
    winograd_rows: Count,
    winograd_columns: Count,
    winograd_depth: Count,
    element: Bytes,
    traffic: Bytes,
    peak: FlopPerSecond,
    cores: Count,
    tile_rows: Count,
    tile_columns: Count,
    fraction: Count,
    winograd_fraction: Count,
    sustained: Count,
    tile_balance: Count,
    depth_half: Count,
    depth_time: Seconds,
    overlap: Count,
    bandwidth: BytesPerSecond,
    streaming_fraction: Count,
    launch: Seconds,
) -> Seconds:
    r"""A convolution with 3 x 3 windows, by the faster of its implicit product and Winograd's F(4 x 4, 3 x 3).

    .. math::
        T = \min\left(T_{direct}, 3 t_0 + C_{36} + \frac{Q + 72 e (u l + l v + u v)}{\varphi B}\right)

    Of each 4 x 4 outputs Winograd's algorithm makes a 6 x 6 tile: 36 products over the channels alone do the work of
    144. Operands and results of these products go through memory, each written once and read once.

    Args:
        rows: m, of the implicit product, as in `tiled_matmul`.
        columns: n, likewise.
        depth: k, likewise.
        count: b, groups.
        winograd_rows: u, of the 36 products; forward the 4 x 4 tiles of the output.
        winograd_columns: v, forward the output channels.
        winograd_depth: l, forward the input channels.
        element: e, bytes of one number.
        traffic: Q, maps and filters, each once.
        peak: P, of the device.
        cores: p, units that each take one tile.
        tile_rows: r, of each tile shape that the library has (one number, or a list).
        tile_columns: c, likewise.
        fraction: η, of the peak, in a large implicit product.
        winograd_fraction: of the peak, in large products of Winograd's algorithm.
        sustained: s, of the rate of a short benchmark, kept up in hours of training.
        tile_balance: I₀, intensity of a tile below which loading operands takes longer than multiplying them.
        depth_half: k½, inner dimension at which half of the time is filling and draining.
        depth_time: τ, least time of a core for one of the inner dimension, however small the tile.
        overlap: o, of computing and moving in the implicit product.
        bandwidth: B, of the memory.
        streaming_fraction: φ, the share of it that a large kernel reaches.
        launch: t₀, of one kernel.

    Assumes that the library measures both and takes the faster, and has the memory for the tiles.

    References:
        Lavin and Gray, Fast algorithms for convolutional neural networks, CVPR 2016 (arXiv:1509.09308), section 4.
        That the transformed tiles go through memory: the non-fused algorithm of cuDNN (derived).

    >>> sizes = {"rows": 50176, "columns": 256, "depth": 2304, "count": 1, "traffic": 1e8, "element": 4.0}
    >>> tiles = {"winograd_rows": 3136, "winograd_columns": 256, "winograd_depth": 256}
    >>> device = {"peak": 15e12, "cores": 80, "tile_rows": 128, "tile_columns": 128, "sustained": 1.0, "tile_balance": 0.0,
    ...           "depth_half": 0.0, "depth_time": 0.0, "overlap": 50.0, "bandwidth": 9e11, "streaming_fraction": 0.8, "launch": 0.0}
    >>> float(winograd_convolution(fraction=0.8, winograd_fraction=0.6, **sizes, **tiles, **device)) < 59.2e9 / 12e12
    True
    """
    common = {
        "cores": cores, "tile_rows": tile_rows, "tile_columns": tile_columns,
        "tile_balance": tile_balance, "depth_half": depth_half, "depth_time": depth_time, "overlap": overlap,
    }  # fmt: skip
    direct = tiled_matmul(
        rows=rows, columns=columns, depth=depth, count=count, traffic=traffic, peak=peak, fraction=fraction,
        sustained=sustained, bandwidth=bandwidth, streaming_fraction=streaming_fraction,
        launch=launch, **common,
    )  # fmt: skip
    products = tiled_compute(
        rows=winograd_rows, columns=winograd_columns, depth=winograd_depth, count=WINOGRAD,
        rate=peak * winograd_fraction * sustained, **common,
    )  # fmt: skip
    u, v, c = winograd_rows, winograd_columns, winograd_depth
    moved = traffic + 2 * WINOGRAD * element * (u * c + c * v + u * v)
    winograd = KERNELS * launch + products + moved / (streaming_fraction * bandwidth)
    return np.minimum(direct, winograd)
