"""Products with a small output and a long inner dimension, as in weight gradients of large batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfmodel.graph.kernels import Gemm
    from perfmodel.units import Count

TILE = 128
"""Rows and columns of the tile by which libraries judge whether the output fills the device."""
LEAST = 512
"""Depth that a part keeps at least."""
PARTIAL = 4
"""Bytes read again of each partial sum, in fp32."""


def split_depth(gemm: Gemm, cores: Count) -> Gemm:
    """The product as libraries run it: where its tiles leave cores idle, the inner dimension is cut into parts.

    Each part makes a partial sum of the whole output; a last pass adds them. NVIDIA, CUTLASS documentation, Efficient
    GEMM in CUDA, "Parallelized reductions" (split-K); that the parts just fill the cores is derived.

    Args:
        gemm: as the network states it.
        cores: of the device.
    """
    tiles = gemm.count * np.ceil(gemm.rows / TILE) * np.ceil(gemm.columns / TILE)
    parts = np.maximum(np.floor(np.minimum(cores / tiles, gemm.depth / LEAST)), 1)
    partial = PARTIAL * gemm.count * parts * gemm.rows * gemm.columns * (parts > 1)
    return replace(gemm, depth=gemm.depth / parts, count=gemm.count * parts, partial=partial)
