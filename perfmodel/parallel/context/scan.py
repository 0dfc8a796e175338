"""State-space layers: each rank hands out its tokens and receives all tokens of some heads, as their states pass along all of them.

Whatever the form of attention, as in Megatron-Core (megatron/core/ssm/mamba_context_parallel.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.parallel.messages import Message

if TYPE_CHECKING:
    from perfmodel.graph.ops import Scan
    from perfmodel.parallel.layout import Group
    from perfmodel.units import Count


def shard(op: Scan, ranks: Count) -> Scan:
    """All tokens of some heads; where there are fewer groups than ranks, these have copies of what writes and reads."""
    return replace(op, heads=op.heads / ranks, groups=np.maximum(op.groups / ranks, 1))


def messages(op: Scan, group: Group, backward: bool) -> tuple[Message, ...]:
    """What comes into the scan, one tensor after another, and what leaves it; backward their gradients the other way."""
    token = op.tokens * op.element
    width, shared = token * op.outputs, token * op.groups * op.state
    sizes = {
        "gates": width,
        "values": width,
        "writes": shared,
        "reads": shared,
        "steps": token * op.heads,
        "outputs": width,
    }
    what = "gradients of " if backward else ""
    return tuple(
        Message(f"context all-to-all of {what}{name}", "all-to-all", size, group) for name, size in sizes.items()
    )
