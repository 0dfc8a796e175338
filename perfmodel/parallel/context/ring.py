"""Keys and values passed on around a ring, block by block, while attention works on the block before.

Each of p ranks has two of 2 p pieces of a sequence, one from the front and its mirror image from the back, so that each
block of causal attention costs all ranks the same (Liu, Zaharia, Abbeel, Ring attention with blockwise transformers, 2023,
arXiv:2310.01889; the order of pieces, "zigzag", as in Megatron-Core's context parallelism, `cp_comm_type` p2p).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.parallel.messages import Message

if TYPE_CHECKING:
    from perfmodel.graph.ops import Attention
    from perfmodel.parallel.layout import Group
    from perfmodel.units import Bytes, Count


def shard(op: Attention, ranks: Count) -> Attention:
    """Some queries against as many blocks of keys as there are ranks, one after another."""
    return replace(op, queries=op.queries / ranks, saved_over=ranks, blocks=ranks)


def messages(op: Attention, group: Group, backward: bool) -> tuple[Message, ...]:
    """Forward, p - 1 blocks of keys and values, each behind the attention of the block before: the last has none beside it.

    Backward they go round once more; the gradients of a block follow it one step later, p times, since they end where the
    block came from. That last step has nothing to hide behind.
    """
    block = op.batch * op.keys * op.kv_heads * op.pair_width * op.element / op.blocks
    steps = np.asarray(op.blocks) - 1
    kernel = f"{op.name} backward" if backward else op.name

    def send(what: str, size: Bytes, rounds: Count) -> Message:
        return Message(f"context send of {what}", "send", size, group, under=kernel, rounds=rounds)

    if not backward:
        return (send("keys and values", block, steps),)
    ends = np.minimum(steps, 1)
    return (
        send("keys and values", block, ends),
        send("both", 2 * block, np.maximum(steps - 1, 0)),
        send("gradients", block, ends),
        Message("context send of gradients home", "send", block, group),
    )
