"""Keys and values gathered behind the attention of a rank's own block; then block by block as in a ring, whose gradients go around.

PyTorch's context parallelism with its default, `set_rotate_method("allgather")` (torch/distributed/tensor/experimental/_attention.py,
`_templated_ring_attention` and its backward, which torchtitan and Accelerate call). One all-gather starts before the first block
and is waited for before the second; gradients of keys and values are passed on in fp32 after each block, behind the next one. Parts
are balanced as in a ring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.parallel.context.ring import shard
from perfmodel.parallel.messages import Message
from perfmodel.specs.common import ELEMENT_BYTES

if TYPE_CHECKING:
    from perfmodel.graph.ops import Attention
    from perfmodel.parallel.layout import Group

__all__ = ["messages", "shard"]


def messages(op: Attention, group: Group, backward: bool) -> tuple[Message, ...]:
    """The gather beside the first block; backward p - 1 sends of gradients beside the others, and one more that nothing hides."""
    numbers = op.batch * op.keys * op.kv_heads * op.pair_width
    kernel, steps = f"{op.name} backward" if backward else op.name, np.asarray(op.blocks) - 1
    first = np.minimum(steps, 1)
    gather = Message("context all-gather", "all-gather", numbers * op.element, group, under=kernel, rounds=first)
    if not backward:
        return (gather,)
    gradients = numbers / op.blocks * max(op.element, ELEMENT_BYTES["fp32"])
    return (
        gather,
        Message("context send of gradients", "send", gradients, group, under=kernel, rounds=steps),
        Message("context send of gradients home", "send", gradients, group),
    )
