"""Products in fp8: operands are cast, and what tensor parallelism gathers travels narrow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import perfmodel
from perfmodel.cost.compute import Processor
from perfmodel.graph import expand
from perfmodel.graph.kernels import Gemm, Stream
from perfmodel.graph.ops import Linear, Norm
from perfmodel.library import find
from perfmodel.parallel.layout import Group
from perfmodel.parallel.tensor import backward_messages, forward_messages, shard
from perfmodel.timeline import duration

ROWS, WIDTH, OUTPUTS, RANKS = 4096, 1024, 2048, 8
GROUP = Group(RANKS, 1)


def casts(op: Linear) -> tuple[float, float]:
    """Bytes that the casts of the forward and of the backward pass move."""
    forward, backward = (
        sum(kernel.traffic for kernel in kernels if isinstance(kernel, Stream))
        for kernels in (op.forward(), op.backward())
    )
    return float(forward), float(backward)


def test_a_cast_reads_wide_and_writes_by_rows_and_by_columns() -> None:
    op = Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0)
    assert casts(op) == (ROWS * WIDTH * 4, ROWS * OUTPUTS * 4)


def test_a_gathered_input_is_cast_in_parts_and_turned_whole() -> None:
    op = shard(Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0, split="column"), ranks=RANKS, sequence=RANKS)
    assert isinstance(op, Linear)
    assert casts(op) == (ROWS * WIDTH * (3 / RANKS + 2), ROWS * OUTPUTS / RANKS * 4)


def test_the_gathered_gradient_of_a_row_split_too() -> None:
    op = shard(Linear("down", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0, split="row"), ranks=RANKS, sequence=RANKS)
    assert isinstance(op, Linear)
    assert casts(op) == (ROWS * WIDTH / RANKS * 4, ROWS * OUTPUTS * (3 / RANKS + 2))


def test_without_sequence_parallelism_nothing_is_gathered() -> None:
    op = shard(Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0, split="column"), ranks=RANKS, sequence=1)
    assert isinstance(op, Linear)
    assert casts(op)[0] == ROWS * WIDTH * 4


@pytest.mark.parametrize(("operand", "size"), [(None, 2.0), (1.0, 1.0)])
def test_gathers_travel_narrow_and_sums_wide(operand: float | None, size: float) -> None:
    op = Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=operand, split="column")
    (gather,) = forward_messages(op, GROUP, sequence_parallel=True, pieces=False)
    again, scatter = backward_messages(op, GROUP, sequence_parallel=True, overlap=False, pieces=False)
    assert (gather.size, again.size, scatter.size) == tuple(ROWS * WIDTH * x for x in (size, size, 2.0))


def test_scales_by_rows_cast_all_of_an_operand_for_each_product() -> None:
    """By rows 2 and 1 bytes an element, by columns 2 more for the largest of each."""
    op = Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0, split="column", row_scales=True)
    assert casts(op) == (ROWS * WIDTH * 8, ROWS * OUTPUTS * 8)
    assert casts(replace(op, frozen=True)) == (ROWS * WIDTH * 3, ROWS * OUTPUTS * 8)
    mine = shard(op, ranks=RANKS, sequence=RANKS)
    assert isinstance(mine, Linear)
    assert casts(mine) == (ROWS * WIDTH * 8, ROWS * OUTPUTS / RANKS * 8)


def test_scales_by_rows_have_gathers_travel_wide() -> None:
    op = Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0, split="column", row_scales=True)
    (gather,) = forward_messages(op, GROUP, sequence_parallel=True, pieces=False)
    assert gather.size == ROWS * WIDTH * 2.0


@pytest.mark.parametrize("tp", [1, 8])
def test_scales_by_rows_are_slower_and_change_nothing_in_16_bits(tp: int) -> None:
    job: dict[str, Any] = {"devices": 8, "tp": tp, "zero": 3, "batch": 8 // tp}
    steps = {
        (precision, scales): perfmodel.predict(
            "llama-3.1-8b", "dgx-h100", **job, precision=precision, sets={"workload.training.scales": scales}
        ).step_time
        for precision in ("bf16", "fp8") for scales in ("tensor", "row")
    }  # fmt: skip
    assert steps["fp8", "row"] > 1.02 * steps["fp8", "tensor"]
    assert steps["bf16", "row"] == steps["bf16", "tensor"]


def test_a_narrow_step_is_faster_by_less_than_the_peak() -> None:
    wide, narrow = (
        perfmodel.predict("llama-3.1-70b", "dgx-h100", devices=64, tp=8, pp=4, precision=precision)
        for precision in ("bf16", "fp8")
    )
    assert 1.1 < wide.step_time / narrow.step_time < 1.8


def test_a_norm_casts_on_the_way_and_its_product_only_turns() -> None:
    """As Transformer Engine's LayerNormLinear: 5 bytes an element in place of 8."""
    norm, op = (
        Norm("norm", ROWS, WIDTH, 2.0, written=1.0),
        Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0, normed=True),
    )
    (written,) = norm.forward()
    assert isinstance(written, Stream)
    assert (written.traffic, casts(op)[0]) == (ROWS * WIDTH * 3, ROWS * WIDTH * 2)


def test_frozen_weights_need_their_input_one_way_alone() -> None:
    op = Linear("up", ROWS, WIDTH, OUTPUTS, 2.0, operand=1.0, frozen=True)
    assert casts(op) == (ROWS * WIDTH * 3, ROWS * OUTPUTS * 4)
    assert casts(replace(op, normed=True))[0] == 0


def test_only_what_no_adapter_takes_is_cast_by_its_norm() -> None:
    workload = find("workloads", "llama-2-70b-lora")
    training = workload.training.model_copy(update={"precision": "fp8"})
    graph = expand(workload.model_copy(update={"training": training}), microbatch=1, fused=True)
    (layer,) = graph.body
    assert {op.name: op.written for op in layer.ops if isinstance(op, Norm)} == {
        "attention norm": None,
        "mlp norm": 1.0,
    }
    assert {op.name for op in layer.ops if isinstance(op, Linear) and op.normed} == {"mlp up"}


@pytest.mark.parametrize(("machine", "slower"), [("dgx-h100", 1 / 0.87), ("dgx-b200", 1.0)])
def test_gradients_are_slower_where_sums_leave_the_matrix_units(machine: str, slower: float) -> None:
    """Hopper adds partial sums of gradients up outside of them; products that stay wide have none of it."""
    op = Linear("up", ROWS, ROWS, ROWS, 2.0, operand=1.0)
    processor = Processor(find("hardware", machine).device, "fp8")
    (forward,), (gradient, _) = (
        [kernel for kernel in kernels if isinstance(kernel, Gemm)] for kernels in (op.forward(), op.backward())
    )
    assert duration(processor.time(gradient)) / duration(processor.time(forward)) == pytest.approx(slower, rel=0.05)
    wide = [replace(kernel, operand=None) for kernel in (forward, gradient)]
    assert duration(processor.time(wide[1])) == duration(processor.time(wide[0]))
