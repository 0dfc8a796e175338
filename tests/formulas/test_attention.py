"""Fused attention against a loop over blocks, and its limits."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.attention import flash_attention

MACHINE = {
    "peak": 300e12, "cores": 100, "block": 128, "fraction": 0.6, "keys_half": 200.0, "bandwidth": 2e12,
    "streaming_fraction": 0.9, "launch": 5e-6,
}  # fmt: skip


@given(
    heads=st.integers(1, 500), queries=st.integers(1, 3000), keys=st.integers(1, 9000), width=st.sampled_from([64, 128])
)
def test_is_the_loop_over_blocks(heads: int, queries: int, keys: int, width: int) -> None:
    """Blocks are dealt to the cores in rounds; each round takes as long as one block."""
    blocks = [min(128, queries)] * (heads * ceil(queries / 128))
    rounds = [blocks[start : start + 100] for start in range(0, len(blocks), 100)]
    expected = sum(4 * dealt[0] * width * (keys + 200.0) / (0.6 * 300e12 / 100) for dealt in rounds)
    time = flash_attention(heads=heads, queries=queries, keys=keys, head_dim=width, products=2, traffic=0.0, **MACHINE)
    assert float(time) == pytest.approx(5e-6 + expected)


def test_long_rows_reach_the_fraction_of_the_peak() -> None:
    flops = 4 * 100 * 128 * 128 * 1e9
    time = flash_attention(heads=100, queries=128, keys=1e9, head_dim=128, products=2, traffic=0.0, **MACHINE)
    assert flops / float(time) == pytest.approx(0.6 * 300e12, rel=1e-5)


def test_memory_binds_where_there_is_little_to_compute() -> None:
    time = flash_attention(heads=1, queries=1, keys=1, head_dim=1, products=2, traffic=1.8e9, **MACHINE)
    assert float(time) == pytest.approx(5e-6 + 1e-3)
