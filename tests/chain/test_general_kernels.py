"""Kernels of general frameworks: paces, alignment, long inner dimensions, optimisers, exposed gathers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import perfmodel
from perfmodel import library
from perfmodel.cost.compute import Processor
from perfmodel.graph.attention import Attention
from perfmodel.graph.kernels import SPLITS, Gemm, Stream
from perfmodel.timeline import duration

PROCESSOR = Processor(library.find("hardware", "dgx-h100").device, "fp16")


def time(kernel: Gemm | Stream) -> float:
    return float(duration(PROCESSOR.time(kernel)))


def test_a_strided_copy_of_narrow_elements_is_bound_by_its_elements() -> None:
    plain, strided = Stream("copy", 4e9), Stream("copy", 4e9, pace="strided", elements=1e9)
    assert time(strided) == pytest.approx(1e9 / 330e9, rel=0.01)
    assert time(strided) > 2 * time(plain)


def test_a_long_inner_dimension_is_cut_until_the_cores_are_full() -> None:
    whole = Gemm("weight gradient", 256, 256, 1e6, 2.0)
    split = replace(whole, splits=SPLITS)
    assert 5 * time(split) < time(whole)


def test_a_product_that_fills_the_cores_stays_whole() -> None:
    whole = Gemm("up", 8192.0, 8192, 1024, 2.0)
    assert time(replace(whole, splits=SPLITS)) == pytest.approx(time(whole), rel=1e-12)


@pytest.mark.parametrize(("head_dim", "aligned"), [(64, True), (144, True), (108, False), (150, False)])
def test_heads_of_no_whole_16_bytes_lose_the_matrix_units(head_dim: int, aligned: bool) -> None:
    core = Attention("core", 1, 2048, 2048, 12, 12, head_dim, 2.0, causal=True, fused=False, dropout=False)
    gemms = [k for k in (*core.forward(), *core.backward()) if isinstance(k, Gemm)]
    assert {k.aligned for k in gemms} == {aligned}


def step(workload: str, hardware: str, strategy: str, *, sets: dict[str, str], **settings: Any) -> float:
    return perfmodel.predict(workload, hardware, strategy=strategy, sets=sets, **settings).step_time


def test_separate_operations_of_an_optimiser_move_more() -> None:
    row = {"microbatch": 8, "batch": 8, "precision": "fp32"}
    apart = step("bert-base", "dgx-1-v100", "data-parallel", sets={}, **row)
    fused = step("bert-base", "dgx-1-v100", "data-parallel", sets={"strategy.optimizer": "fused"}, **row)
    assert apart > fused


def test_exposed_gathers_are_slower_than_hidden_ones() -> None:
    row = {"devices": 64, "microbatch": 1, "batch": 64}
    exposed = step("megatron-18.4b", "dgx-a100-80gb", "deepspeed-zero-3", sets={}, **row)
    hidden = step(
        "megatron-18.4b", "dgx-a100-80gb", "deepspeed-zero-3", sets={"strategy.weight_overlap": "passes"}, **row
    )
    assert exposed > hidden


def test_the_finer_the_kernels_the_slower() -> None:
    row = {"microbatch": 16, "batch": 16, "attention": "unfused"}
    grains = ("merged", "separate", "primitive")
    times = [step("bert-base", "dgx-a100-80gb", "tensorflow", sets={"strategy.elementwise": g}, **row) for g in grains]
    assert times == sorted(times)
