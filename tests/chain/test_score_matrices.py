"""Megatron-LM's kernel of scale, mask and softmax takes score matrices four at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import perfmodel
from perfmodel.graph.attention import Attention
from perfmodel.graph.kernels import Repeated


def predicted(**job: Any) -> float:
    made = perfmodel.predict("megatron-1.7b", "dgx-a100-80gb", strategy="megatron-2021", sequence_parallel=False, **job)
    return float(made.step_time)


def core(heads: Any) -> Attention:
    return Attention("core", 1, 2048, 2048, heads, heads, 128, 2.0, causal=True, fused=False, dropout=True)


@pytest.mark.parametrize(("heads", "separate"), [(4, 0), (2, 5), (6, 5), (8, 0)])
def test_other_numbers_take_separate_passes_in_fp32(heads: int, separate: int) -> None:
    for kernels in (core(heads).forward(), core(heads).backward()):
        assert sum(isinstance(kernel, Repeated) for kernel in kernels) == separate


def test_a_column_says_for_each_row() -> None:
    both = [kernel for kernel in core(np.array([2, 4])).forward() if isinstance(kernel, Repeated)]
    assert all(np.array_equal(kernel.times, [1, 0]) for kernel in both)


def test_a_step_pays_for_it() -> None:
    """24 heads on 4 ranks: 6 matrices with one sample, 12 with two, which cost less than twice as much."""
    one, two = (predicted(devices=4, tp=4, microbatch=m, batch=4 * m) for m in (1, 2))
    assert two < 1.9 * one
