"""Dense products, tile by tile."""

from __future__ import annotations

import numpy as np

from perfmodel.formulas.roofline import overlapped
from perfmodel.units import Bytes, BytesPerSecond, Count, FlopPerSecond, Seconds


def tiled_matmul(
    *,
    rows: Count,
    columns: Count,
    depth: Count,
    count: Count,
    traffic: Bytes,
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
    r"""A batch of matrix products on cores that each compute one tile of the output at a time.

    .. math::
        T = t_0 + \left(C^o + M^o\right)^{1/o}, \quad M = \frac{Q}{\varphi B}, \quad
        C = \min_{(r, c)} \left\lceil \frac{b \lceil m/r \rceil \lceil n/c \rceil}{p} \right\rceil
        (k + k_{1/2}) \max\left(\frac{2 p}{\eta s P} \left((r c)^o + (I_0 (r + c))^o\right)^{1/o}, \tau\right)

    Tiles at the edge are computed whole and the last wave of tiles keeps all cores waiting; a core waits for the
    operands of a small tile, which reuses them less, and for the steps of its pipeline; a short inner dimension does not
    amortise filling it.

    Args:
        rows: m, of the left matrix and the output.
        columns: n, of the right matrix and the output.
        depth: k, inner dimension.
        count: b, independent products.
        traffic: Q, operands read and output written, each once.
        peak: P, of the device.
        cores: p, units that each take one tile.
        tile_rows: r, of each tile shape that the library has (last axis: the shapes).
        tile_columns: c, likewise.
        fraction: η, of the peak, in a large product with large tiles.
        sustained: s, of the rate of a short benchmark, kept up in hours of training.
        tile_balance: I₀, intensity r c / (r + c) of a tile below which loading operands takes longer than multiplying.
        depth_half: k½, inner dimension at which half of the time is filling and draining.
        depth_time: τ, least time of a core for one of the inner dimension, however small the tile.
        overlap: o, 1 where computing C and moving M follow one another, large where the longer hides the other.
        bandwidth: B, of the memory.
        streaming_fraction: φ, the share of it that a large kernel reaches.
        launch: t₀, of the kernel.

    Assumes that the library finds the fastest of the tile shapes; splitting the inner dimension is left out.

    References:
        Tile and wave quantisation: NVIDIA, Matrix multiplication background user's guide, DU-09798-001,
        sections 4 and 5. The saturation terms, the choice of the fastest tile and the overlap are derived.

    >>> round(float(tiled_matmul(rows=4096, columns=4096, depth=4096, count=1, traffic=0.0, peak=312e12, cores=108,
    ...     tile_rows=128, tile_columns=128, fraction=1.0, sustained=1.0, tile_balance=0.0, depth_half=0.0,
    ...     depth_time=0.0, overlap=2.0, bandwidth=2e12, streaming_fraction=1.0, launch=0.0)) * 1e6, 1)
    464.6
    """
    computing = tiled_compute(
        rows=rows, columns=columns, depth=depth, count=count, rate=peak * fraction * sustained, cores=cores,
        tile_rows=tile_rows, tile_columns=tile_columns, tile_balance=tile_balance,
        depth_half=depth_half, depth_time=depth_time, overlap=overlap,
    )  # fmt: skip
    moving = traffic / (streaming_fraction * bandwidth)
    return launch + overlapped(computing=computing, moving=moving, overlap=overlap)


def tiled_compute(
    *,
    rows: Count,
    columns: Count,
    depth: Count,
    count: Count,
    rate: FlopPerSecond,
    cores: Count,
    tile_rows: Count,
    tile_columns: Count,
    tile_balance: Count,
    depth_half: Count,
    depth_time: Seconds,
    overlap: Count,
) -> Seconds:
    r"""The computing of `tiled_matmul` alone, by the fastest tile shape.

    .. math::
        C = \min_{(r, c)} \left\lceil \frac{b \lceil m/r \rceil \lceil n/c \rceil}{p} \right\rceil
        (k + k_{1/2}) \max\left(\frac{2 p}{R} \left((r c)^o + (I_0 (r + c))^o\right)^{1/o}, \tau\right)

    Args:
        rows: m, of the left matrix and the output.
        columns: n, of the right matrix and the output.
        depth: k, inner dimension.
        count: b, independent products.
        rate: R, of the device in a large product with large tiles.
        cores: p, units that each take one tile.
        tile_rows: r, of each tile shape that the library has (last axis: the shapes).
        tile_columns: c, likewise.
        tile_balance: I₀, intensity r c / (r + c) of a tile below which loading operands takes longer than multiplying.
        depth_half: k½, inner dimension at which half of the time is filling and draining.
        depth_time: τ, least time of a core for one of the inner dimension, however small the tile.
        overlap: o, of multiplying and loading, as of computing and moving in `tiled_matmul`.

    References:
        As `tiled_matmul`.

    >>> float(tiled_compute(rows=256, columns=128, depth=1000, count=1, rate=4e9, cores=2, tile_rows=128,
    ...     tile_columns=128, tile_balance=0.0, depth_half=0.0, depth_time=0.0, overlap=2.0))
    0.016384000000000003
    """
    m, n, b, p, slope, least, balance, o = (
        np.expand_dims(np.asarray(x), -1)
        for x in (rows, columns, count, cores, 2 * cores / rate, depth_time, tile_balance, overlap)
    )
    r, c = np.atleast_1d(tile_rows), np.atleast_1d(tile_columns)
    waves = np.ceil(b * np.ceil(m / r) * np.ceil(n / c) / p)
    one = slope * overlapped(computing=r * c, moving=(r + c) * balance, overlap=o)
    fastest: Seconds = np.min(waves * np.maximum(one, least), axis=-1)
    return fastest * (depth + depth_half)
