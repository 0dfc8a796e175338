"""Products in fp8: operands are cast, and what tensor parallelism gathers travels narrow."""

from __future__ import annotations

import pytest

import perfmodel
from perfmodel.graph.kernels import Stream
from perfmodel.graph.ops import Linear
from perfmodel.parallel.layout import Group
from perfmodel.parallel.tensor import backward_messages, forward_messages, shard

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


def test_a_narrow_step_is_faster_by_less_than_the_peak() -> None:
    wide, narrow = (
        perfmodel.predict("llama-3.1-70b", "dgx-h100", devices=64, tp=8, pp=4, precision=precision)
        for precision in ("bf16", "fp8")
    )
    assert 1.1 < wide.step_time / narrow.step_time < 1.8
