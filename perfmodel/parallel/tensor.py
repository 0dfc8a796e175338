"""Tensor parallelism (Megatron): each layer split over neighbours, with or without sequence parallelism.

A column-split product leaves each rank a slice of the output, a row-split one a partial sum. Without
sequence parallelism the sums are all-reduced; with it they are reduce-scattered along the sequence
and gathered again before the next column-split product (Korthikanti et al., 2022, section 4.2.2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.graph.ops import Attention, Elementwise, Embedding, Linear, Loss, Norm, Op, Scan
from perfmodel.parallel.messages import Collective, Message

if TYPE_CHECKING:
    from perfmodel.parallel.layout import Group
    from perfmodel.units import Bytes, Count

SPLITS = 4
"""Pieces of a product whose results are scattered as they come: `num_splits` of Transformer Engine's userbuffers, and of NVIDIA's recipes
(llama3.1/llama3.1_405b.yaml of dgxc-benchmarking v24.11.1, `method: pipeline`). Rings of gathers have one for each rank."""


def shard(op: Op, *, ranks: Count, sequence: Count) -> Op:
    """What one of ``ranks`` does of ``op``; ``sequence`` ranks (1 or the same) split the sequence regions."""
    match op:
        case Linear(split="column"):
            return replace(op, outputs=op.outputs / ranks, saved_over=sequence, gathered=sequence)
        case Linear(split="row"):
            return replace(op, inputs=op.inputs / ranks, gathered=sequence)
        case Attention(split="heads"):
            return replace(op, heads=op.heads / ranks, kv_heads=np.maximum(op.kv_heads / ranks, 1))
        case Scan():
            return replace(op, heads=op.heads / ranks, groups=op.groups / ranks)
        case Embedding(split="vocabulary") | Loss(split="vocabulary"):
            return replace(op, vocabulary=op.vocabulary / ranks)
        case Elementwise(split="tensor"):
            return replace(op, elements=op.elements / ranks)
        case Elementwise(split="sequence"):
            return replace(op, elements=op.elements / sequence)
        case Linear(split="sequence") | Norm(split="sequence"):
            return replace(op, rows=op.rows / sequence)
        case Norm(split="heads"):
            return replace(op, rows=op.rows / ranks)
        case _:
            return op


def forward_messages(op: Op, group: Group, *, sequence_parallel: bool, pieces: bool) -> tuple[Message, ...]:
    """What the forward pass of an unsharded ``op`` exchanges.

    With ``pieces`` gathers and scatters travel piece by piece under the product that takes or makes the pieces, as in XLA's
    decomposition of both into a loop and in Transformer Engine's userbuffers. A gather begins with the piece that a rank
    has; a scatter ends with one that no product is left to hide (derived from transformer_engine/common/comm_gemm_overlap,
    split_overlap_rs). The product is as many smaller ones, each with its own tiles and waves.
    """
    reduce: Collective = "reduce-scatter" if sequence_parallel else "all-reduce"
    under = op.name if pieces and sequence_parallel else ""
    match op:
        case Linear(split="column") if sequence_parallel:
            return (_gather(op.rows * op.inputs * op.travelling, group, under, group.size if under else 1),)
        case Linear(split="row"):
            size = op.rows * op.outputs * op.element
            if not under:
                return (Message(f"tensor {reduce}", reduce, size, group),)
            last = size / SPLITS
            return (
                Message(f"tensor {reduce}", reduce, size - last, group, under=under, pieces=SPLITS),
                Message(f"tensor {reduce} end", reduce, last, group),
            )
        case Embedding(split="vocabulary"):
            return (Message(f"tensor {reduce}", reduce, op.rows * op.width * op.element, group),)
        case Loss(split="vocabulary", kernels="in-place"):
            # maximum, sum and predicted logit of each row on each rank, in fp32
            return (Message("tensor loss", "all-gather", 3 * 4 * op.rows * group.size, group),)
        case Loss(split="vocabulary"):
            # the maximum, the sum and the predicted logit of each row, in fp32
            return tuple(Message("tensor loss", "all-reduce", 4 * op.rows, group) for _ in range(3))
        case _:
            return ()


def backward_messages(
    op: Op, group: Group, *, sequence_parallel: bool, overlap: bool, pieces: bool
) -> tuple[Message, ...]:
    """What the backward pass exchanges; with ``overlap`` under the products that do not wait for it.

    With ``pieces`` the gather that a row-split product waits for travels beside it too.
    """
    weight = f"{op.name} weight gradient" if overlap else ""
    match op:
        case Linear(split="column") if sequence_parallel:
            elements = op.rows * op.inputs
            gather = f"{op.name} input gradient" if overlap else ""
            return (
                _gather(elements * op.travelling, group, gather),
                Message("tensor reduce-scatter", "reduce-scatter", elements * op.element, group, under=weight),
            )
        case Linear(split="column"):
            size = op.rows * op.inputs * op.element
            return (Message("tensor all-reduce", "all-reduce", size, group, under=weight),)
        case Linear(split="row") if sequence_parallel:
            under = f"{op.name} input gradient" if pieces else ""
            return (_gather(op.rows * op.outputs * op.travelling, group, under, group.size if pieces else 1),)
        case Embedding(split="vocabulary") if sequence_parallel:
            return (_gather(op.rows * op.width * op.element, group),)
        case _:
            return ()


def _gather(size: Bytes, group: Group, under: str = "", pieces: Count = 1) -> Message:
    return Message("tensor all-gather", "all-gather", size, group, under=under, pieces=pieces)
