"""Keys and values of all parts gathered before attention.

Every rank computes the queries of its part against all keys; the parts are balanced, so causal
attention costs each rank the same (the all-gather scheme of the Llama 3 report, section 3.3.2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.parallel.messages import Message

if TYPE_CHECKING:
    from perfmodel.graph.ops import Attention
    from perfmodel.parallel.layout import Group
    from perfmodel.units import Count


def shard(op: Attention, ranks: Count) -> Attention:
    """Some queries against all keys, of which each rank keeps a part."""
    return replace(op, queries=op.queries / ranks, saved_over=ranks)


def messages(op: Attention, group: Group, backward: bool) -> tuple[Message, ...]:
    """Keys and values are gathered forward; backward gathered again and their gradients scattered."""
    size = op.batch * op.keys * op.kv_heads * op.pair_width * op.element
    gather = Message("context all-gather", "all-gather", size, group)
    scatter = Message("context reduce-scatter", "reduce-scatter", size, group)
    return (gather, scatter) if backward else (gather,)
