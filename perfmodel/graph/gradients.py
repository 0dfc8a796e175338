"""Gradients of activations that exist while the backward pass is inside one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.ops import Attention, Elementwise, Experts, Linear, Scan

if TYPE_CHECKING:
    from perfmodel.graph.ops import Op
    from perfmodel.units import Bytes


def gathered_for(op: Op) -> Bytes:
    """What a product needs of its input beyond the part of the sequence that this device keeps."""
    if not isinstance(op, Linear) or op.frozen:
        return 0.0
    return op.rows * op.inputs * op.element * (1 - 1 / op.saved_over)


def inside(op: Op) -> Bytes:
    """Gradients of what goes in and comes out of an operation, and what is gathered for it.

    Fused attention adds up the gradients of its queries in fp32 (FlashAttention-2, flash_api.cpp: `dq_accum`); unfused, two
    of scores, softmax and dropout exist at once. An operation that streams leaves out what it can compute in place (derived).
    """
    match op:
        case Linear():
            return op.rows * (op.inputs + op.outputs) * op.element + gathered_for(op)
        case Elementwise(kept=kept) if kept:
            return op.elements * op.element * (1 + kept)
        case Attention(fused=True):
            queries = op.batch * op.queries * op.heads * op.head_dim
            return 2 * op.inputs + 4 * queries
        case Attention():
            return op.inputs + 2 * op.scores * op.element
        case Experts():
            return op.tokens * op.load * (op.hidden + (2 + op.gated) * op.inner) * op.element
        case Scan():
            return op.within
        case _:
            return 0.0
