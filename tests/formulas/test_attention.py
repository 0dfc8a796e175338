"""Fused attention against a loop over blocks, and its limits."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.attention import flash_attention
from perfmodel.graph.ops import Attention

MACHINE: dict[str, Any] = {
    "peak": 300e12, "cores": 100, "block": 128, "fraction": 0.6, "softmax_width": 32.0, "keys_half": 200.0, "overlap": 50.0,
    "bandwidth": 2e12, "streaming_fraction": 0.9, "launch": 5e-6,
}  # fmt: skip
CORE: dict[str, Any] = {"name": "core", "element": 2.0, "causal": True, "fused": True, "dropout": False}


@given(
    heads=st.integers(1, 500),
    queries=st.integers(1, 3000),
    keys=st.integers(1, 9000),
    width=st.sampled_from([128, 256]),
)
def test_is_the_loop_over_blocks(heads: int, queries: int, keys: int, width: int) -> None:
    """Blocks are dealt to the cores in rounds; each round takes as long as one block."""
    rows = 64 if queries <= 64 else 128
    rounds = ceil(heads * ceil(queries / 128) / 100)
    expected = rounds * 2 * rows * (width + 32.0) * (keys + 200.0) / (0.6 * 300e12 / 100)
    time = flash_attention(heads=heads, queries=queries, keys=keys, width=width, softmaxes=1, traffic=0.0, **MACHINE)
    assert float(time) == pytest.approx(5e-6 + expected)


def test_long_rows_reach_the_fraction_of_the_peak_that_exponentials_leave() -> None:
    flops = 4 * 100 * 128 * 128 * 1e9
    time = flash_attention(heads=100, queries=128, keys=1e9, width=256, softmaxes=1, traffic=0.0, **MACHINE)
    assert flops / float(time) == pytest.approx(0.6 * 300e12 * 256 / (256 + 32), rel=1e-5)


def test_memory_binds_where_there_is_little_to_compute() -> None:
    time = flash_attention(heads=1, queries=1, keys=1, width=2, softmaxes=1, traffic=1.8e9, **MACHINE)
    assert float(time) == pytest.approx(5e-6 + 1e-3)


def widths(**shape: Any) -> tuple[Any, Any]:
    op = Attention(
        **CORE | {"batch": 2, "queries": 512, "keys": 512, "heads": 8, "kv_heads": 2, "head_dim": 128} | shape
    )
    (forward,), (backward,) = op.forward(), op.backward()
    return forward, backward


def test_backward_has_five_products_where_forward_has_two() -> None:
    forward, backward = widths()
    assert (forward.width, backward.width) == (2 * 128, 5 * 128)
    assert backward.flops == 2.5 * forward.flops


def test_latent_attention_has_narrow_values() -> None:
    """Queries and keys of 192, values of 128, as in DeepSeek: three products have the one, two the other."""
    forward, backward = widths(head_dim=192, value_dim=128)
    assert (forward.width, backward.width) == (192 + 128, 3 * 192 + 2 * 128)


def test_a_window_hides_the_keys_behind_it() -> None:
    whole, _ = widths()
    windowed, _ = widths(window=128)
    wide, _ = widths(window=10_000)
    assert whole.keys == wide.keys == 256
    assert windowed.keys == 128 * (1 - 128 / 1024)


def test_grouped_queries_share_keys_and_values() -> None:
    grouped, _ = widths()
    each, _ = widths(kv_heads=8)
    assert grouped.flops == each.flops
    assert grouped.traffic < each.traffic
