"""Tiled products against cores that take one tile after the other."""

from __future__ import annotations

import heapq
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.matmul import tiled_matmul

DEVICE: dict[str, Any] = {
    "peak": 100e12, "cores": 12, "fraction": 0.9, "sustained": 0.95, "tile_balance": 20.0, "depth_half": 64.0,
    "depth_time": 1e-10, "overlap": 3.0, "bandwidth": 1e12, "streaming_fraction": 0.8, "launch": 5e-6,
}  # fmt: skip
IDEAL = DEVICE | {
    "fraction": 1.0,
    "sustained": 1.0,
    "tile_balance": 0.0,
    "depth_half": 0.0,
    "depth_time": 0.0,
    "launch": 0.0,
}


def tile_time(height: int, width: int, depth: int) -> float:
    """One core fills its pipeline, then multiplies and loads one after the other of the inner dimension."""
    rate: float = DEVICE["peak"] / DEVICE["cores"] * DEVICE["fraction"] * DEVICE["sustained"]
    multiplying = 2 * height * width / rate
    loading = 2 * (height + width) * DEVICE["tile_balance"] / rate
    one = (multiplying ** DEVICE["overlap"] + loading ** DEVICE["overlap"]) ** (1 / DEVICE["overlap"])
    return float((depth + DEVICE["depth_half"]) * max(one, DEVICE["depth_time"]))


def walked(rows: int, columns: int, depth: int, count: int, tile: tuple[int, int]) -> float:
    """Every tile of every product goes to the core that is free first."""
    height, width = tile
    tiles = product(range(count), range(0, rows, height), range(0, columns, width))
    cores = [0.0] * DEVICE["cores"]
    for _ in tiles:
        heapq.heappush(cores, heapq.heappop(cores) + tile_time(height, width, depth))
    return max(cores)


@given(
    rows=st.integers(1, 700), columns=st.integers(1, 700), depth=st.integers(1, 5000), count=st.integers(1, 5),
    tiles=st.lists(st.sampled_from([(128, 128), (64, 128), (32, 64), (16, 16)]), min_size=1, max_size=3),
)  # fmt: skip
def test_tiles_one_by_one(rows: int, columns: int, depth: int, count: int, tiles: list[tuple[int, int]]) -> None:
    best = min(walked(rows, columns, depth, count, tile) for tile in tiles)
    shapes = np.array(tiles)
    time = tiled_matmul(
        rows=rows, columns=columns, depth=depth, count=count, traffic=0.0,
        tile_rows=shapes[:, 0], tile_columns=shapes[:, 1], **DEVICE,
    )  # fmt: skip
    assert time == pytest.approx(DEVICE["launch"] + best, rel=1e-9)


def test_a_large_product_reaches_the_peak() -> None:
    n = 12 * 128 * 100
    sizes = {"rows": n, "columns": n, "depth": n, "count": 1, "traffic": 0.0}
    assert tiled_matmul(**sizes, tile_rows=128, tile_columns=128, **IDEAL) == pytest.approx(
        2 * n**3 / 100e12, rel=1e-12
    )


def test_a_thin_product_moves_bytes() -> None:
    sizes = {"rows": 1, "columns": 8192, "depth": 8192, "count": 1, "traffic": 2 * 8192**2}
    time = tiled_matmul(**sizes, tile_rows=16, tile_columns=128, **DEVICE)
    assert time == pytest.approx(5e-6 + 2 * 8192**2 / 0.8e12, rel=0.05)


def test_one_row_more_costs_a_wave() -> None:
    sizes = {"columns": 128, "depth": 1024, "count": 1, "traffic": 0.0, "tile_rows": 128, "tile_columns": 128}
    full, over = (tiled_matmul(rows=rows, **sizes, **IDEAL) for rows in (12 * 128, 12 * 128 + 1))
    assert over == pytest.approx(2 * full)


def test_more_shapes_to_choose_from_never_hurt() -> None:
    sizes = {"rows": 300, "columns": 700, "depth": 900, "count": 3, "traffic": 0.0}
    heights, widths = np.array([256, 128, 64]), np.array([128, 128, 64])
    times = [tiled_matmul(**sizes, tile_rows=heights[:n], tile_columns=widths[:n], **DEVICE) for n in (1, 2, 3)]
    assert times == sorted(times, reverse=True)


def test_computing_and_moving_hide_one_another_in_part() -> None:
    sizes = {"rows": 2048, "columns": 2048, "depth": 2048, "count": 1, "tile_rows": 128, "tile_columns": 128}
    computing = tiled_matmul(**sizes, traffic=0.0, **IDEAL)
    moving = tiled_matmul(**sizes | {"depth": 0}, traffic=1e9, **IDEAL)
    both = tiled_matmul(**sizes, traffic=1e9, **IDEAL)
    one_by_one, hidden = (tiled_matmul(**sizes, traffic=1e9, **IDEAL | {"overlap": o}) for o in (1.0, 1000.0))
    assert max(computing, moving) < both < computing + moving
    assert one_by_one == pytest.approx(computing + moving)
    assert hidden == pytest.approx(max(computing, moving), rel=1e-2)


def test_columns_are_shapes_one_by_one() -> None:
    generator = np.random.default_rng(1)
    rows, columns, depth = (generator.integers(1, 20000, 1000) for _ in range(3))
    shapes = np.array([(256, 128), (128, 128), (64, 64)])
    tiles: dict[str, Any] = {"tile_rows": shapes[:, 0], "tile_columns": shapes[:, 1], "count": 1}
    together = tiled_matmul(rows=rows, columns=columns, depth=depth, traffic=2.0 * rows * columns, **tiles, **DEVICE)
    alone = [
        tiled_matmul(rows=m, columns=n, depth=k, traffic=2.0 * m * n, **tiles, **DEVICE)
        for m, n, k in zip(rows, columns, depth, strict=True)
    ]
    np.testing.assert_allclose(np.asarray(together), np.array(alone), rtol=1e-12)
