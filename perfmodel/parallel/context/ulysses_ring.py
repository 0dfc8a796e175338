"""Ulysses inside, a ring outside: near ranks exchange tokens for heads, and groups of them pass keys and values around.

Fang, Zhao, USP: a unified sequence parallelism approach for long context generative AI, 2024, arXiv:2405.07719;
what is sent is derived from the authors' code (feifeibear/long-context-attention, yunchang/hybrid/attn_layer.py). `cp_comm_type`
a2a+p2p of Megatron-Core. With u ranks inside, all p of them are Ulysses, and 1 is a plain ring.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.parallel.context.ring import messages as passed_on
from perfmodel.parallel.context.ring import shard as blockwise
from perfmodel.parallel.context.ulysses import messages as exchanged
from perfmodel.parallel.context.ulysses import shard as headwise

if TYPE_CHECKING:
    from perfmodel.graph.ops import Attention
    from perfmodel.parallel.layout import Group
    from perfmodel.parallel.messages import Message
    from perfmodel.units import Count


@dataclass(frozen=True, slots=True)
class UlyssesRing:
    """The form for one number of ranks inside; where a sequence is cut into fewer parts, all of them are."""

    ulysses_degree: Count

    def shard(self, op: Attention, ranks: Count) -> Attention:
        """The heads of one of the ranks inside, of whose tokens the ring has one block after another."""
        inside = np.minimum(self.ulysses_degree, ranks)
        return blockwise(headwise(op, inside), ranks / inside)

    def messages(self, op: Attention, group: Group, backward: bool) -> tuple[Message, ...]:
        """What Ulysses sends of the tokens of a group, then what a ring sends of the heads of a rank."""
        size = np.minimum(self.ulysses_degree, group.size)
        inside = replace(group, size=size)
        outside = replace(group, size=group.size / size, stride=group.stride * size)
        return (*exchanged(op, inside, backward), *passed_on(op, outside, backward))
