"""Context parallelism: each sequence cut into equal parts, keys and values gathered for attention.

Every rank computes the queries of its part against all keys; the parts are balanced, so causal
attention costs each rank the same (the all-gather scheme of the Llama 3 report, section 3.3.2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.graph.ops import Attention, Elementwise, Embedding, Experts, Linear, Loss, Norm, Op
from perfmodel.parallel.messages import Message

if TYPE_CHECKING:
    from perfmodel.parallel.layout import Group
    from perfmodel.units import Count


def shard(op: Op, *, ranks: Count) -> Op:
    """What one of ``ranks`` does of ``op``."""
    match op:
        case Linear() | Norm() | Embedding() | Loss():
            return replace(op, rows=op.rows / ranks)
        case Elementwise():
            return replace(op, elements=op.elements / ranks)
        case Experts():
            return replace(op, tokens=op.tokens / ranks)
        case Attention():
            return replace(op, queries=op.queries / ranks, saved_over=ranks)
        case _:
            return op


def messages(op: Op, group: Group, *, backward: bool) -> tuple[Message, ...]:
    """Keys and values are gathered forward; backward gathered again and their gradients scattered."""
    if not isinstance(op, Attention):
        return ()
    size = op.batch * op.keys * op.kv_heads * op.pair_width * op.element
    gather = Message("context all-gather", "all-gather", size, group)
    scatter = Message("context reduce-scatter", "reduce-scatter", size, group)
    return (gather, scatter) if backward else (gather,)
