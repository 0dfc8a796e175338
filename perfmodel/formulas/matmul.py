"""Dense products, tile by tile."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, BytesPerSecond, Count, FlopPerSecond, Number, Seconds


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
    tile_half: Count,
    depth_half: Count,
    bandwidth: BytesPerSecond,
    streaming_fraction: Count,
    launch: Seconds,
) -> Seconds:
    r"""A batch of matrix products on cores that each compute one tile of the output at a time.

    .. math::
        T = t_0 + \max\left(\min_{(r, c)} \left\lceil \frac{b \lceil m/r \rceil \lceil n/c \rceil}{p} \right\rceil
        \frac{2 r c (k + k_{1/2})}{\eta s P / p} \cdot \frac{I + I_{1/2}}{I}, \frac{Q}{\varphi B}\right),
        \quad I = \frac{r c}{r + c}

    Tiles at the edge are computed whole and the last wave of tiles keeps all cores waiting; a small tile
    reuses each operand less, and a short inner dimension does not amortise filling the pipeline.

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
        tile_half: I½, tile intensity at which a core reaches half of its rate.
        depth_half: k½, inner dimension at which half of the time is filling and draining.
        bandwidth: B, of the memory.
        streaming_fraction: φ, the share of it that a large kernel reaches.
        launch: t₀, of the kernel.

    Assumes that the library finds the fastest of the tile shapes; splitting the inner dimension is left out.

    References:
        Tile and wave quantisation: NVIDIA, Matrix multiplication background user's guide, DU-09798-001,
        sections 4 and 5. The saturation terms and the choice of the fastest tile are derived.

    >>> round(float(tiled_matmul(rows=4096, columns=4096, depth=4096, count=1, traffic=1e8, peak=312e12, cores=108,
    ...     tile_rows=128, tile_columns=128, fraction=1.0, sustained=1.0, tile_half=0.0, depth_half=0.0,
    ...     bandwidth=2e12, streaming_fraction=1.0, launch=0.0)) * 1e6, 1)
    464.6
    """
    rate = peak * fraction * sustained / cores
    m, n, k, b, p, w, i, d = (
        np.expand_dims(np.asarray(x), -1) for x in (rows, columns, depth, count, cores, rate, tile_half, depth_half)
    )
    r, c = np.atleast_1d(tile_rows), np.atleast_1d(tile_columns)
    intensity = r * c / (r + c)
    waves = np.ceil(b * np.ceil(m / r) * np.ceil(n / c) / p)
    tile = 2 * r * c * (k + d) / w * ((intensity + i) / intensity)
    compute: Number = np.min(waves * tile, axis=-1)
    return launch + np.maximum(compute, traffic / (streaming_fraction * bandwidth))
