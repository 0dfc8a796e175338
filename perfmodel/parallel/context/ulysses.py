"""Heads for tokens: before attention each rank hands out its tokens and receives all tokens of some heads; after it, back.

Jacobs et al., DeepSpeed Ulysses: system optimizations for enabling training of extreme long sequence transformer models,
2023, arXiv:2309.14509, section 3; `cp_comm_type` a2a of Megatron-Core.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.parallel.messages import Message

if TYPE_CHECKING:
    from perfmodel.graph.ops import Attention
    from perfmodel.parallel.layout import Group
    from perfmodel.units import Count


def shard(op: Attention, ranks: Count) -> Attention:
    """All tokens of some heads; where there are fewer heads of keys and values than ranks, these have copies."""
    return replace(op, heads=op.heads / ranks, kv_heads=np.maximum(op.kv_heads / ranks, 1))


def messages(op: Attention, group: Group, backward: bool) -> tuple[Message, ...]:
    """Queries, keys, values before attention and its output after it; backward their gradients the other way.

    Where a ring takes over the keys of others, those of one of its blocks.
    """
    value_dim = op.pair_width - op.head_dim
    query, key = (
        op.batch * op.queries * op.heads * op.element,
        op.batch * op.keys / op.blocks * op.kv_heads * op.element,
    )
    sizes = (query * op.head_dim, key * op.head_dim, key * value_dim, query * value_dim)
    named = zip(("queries", "keys", "values", "outputs"), sizes, strict=True)
    what = "gradients of " if backward else ""
    return tuple(Message(f"context all-to-all of {what}{name}", "all-to-all", size, group) for name, size in named)
