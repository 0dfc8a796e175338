"""A million matrix products at once, beside numpy doing about the same arithmetic.

pytest benchmarks --benchmark-enable
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfmodel.cost.compute import Processor
from perfmodel.graph.kernels import SPLITS, Gemm
from perfmodel.library import find
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pytest_benchmark.fixture import BenchmarkFixture

SHAPES = 1_000_000


@pytest.fixture(scope="module")
def shapes() -> NDArray[np.float64]:
    """Rows, columns and depths from 16 to 16,384."""
    return np.round(2.0 ** np.random.default_rng(1).uniform(4, 14, (3, SHAPES)))


def test_reference_loop(benchmark: BenchmarkFixture, shapes: NDArray[np.float64]) -> None:
    """Nine tile shapes, as plain numpy."""
    rows, columns, depth = shapes

    def tiles() -> NDArray[np.float64]:
        waves = [
            np.ceil(np.ceil(rows / r) * np.ceil(columns / 128) / 108) * r
            for r in (256, 192, 128, 96, 64, 48, 32, 24, 16)
        ]
        return np.asarray(np.min(waves, axis=0) * depth)

    assert np.all(benchmark(tiles) > 0)


@pytest.mark.parametrize("splits", [1, SPLITS])
def test_products(benchmark: BenchmarkFixture, shapes: NDArray[np.float64], splits: int) -> None:
    processor = Processor(find("hardware", "dgx-a100-80gb").device, "bf16")
    kernel = Gemm("product", *shapes, element=2.0, splits=splits)
    times = benchmark.pedantic(lambda: duration(processor.time(kernel)), rounds=3)
    assert np.shape(times) == (SHAPES,)
    assert np.all(np.asarray(times) > 0)
