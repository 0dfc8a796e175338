"""What to do about the class of tensors that takes most of a memory that does not suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.specs.sharding import sharding_of
from perfmodel.specs.workload import Transformer

if TYPE_CHECKING:
    from perfmodel.specs.strategy import Strategy
    from perfmodel.specs.workload import Workload

REMEDIES = {
    "weights": "raise tp or pp, or take zero 3", "gradients": "take zero 2, or raise tp or pp",
    "optimizer": "take zero 1 over more replicas, or raise tp or pp",
    "activations": "recompute more, take a smaller microbatch, or raise tp with sequence_parallel, or cp",
    "recomputed": "take a smaller microbatch, or raise tp or cp", "backward": "take a smaller microbatch, or raise tp or cp",
    "output": "take a smaller microbatch, raise tp, or fuse the loss (strategy.loss=fused)",
    "staging": "offload a smaller fraction, or take a smaller microbatch",
    "gathered": "raise tp, or leave zero below 3", "unreduced": "raise tp or pp", "buckets": "let gradients be views of their buckets",
    "update": "shard the optimiser over more replicas (zero 1)", "workspace": "nothing makes it smaller",
}  # fmt: skip
"""What makes each class smaller."""
SHARDED = {
    "weights": ("parameters", "raise tp or pp"), "gradients": ("gradients", "raise tp or pp"),
    "optimizer": ("optimizer", "shard over more replicas, or raise tp or pp"),
}  # fmt: skip
"""Likewise where ZeRO shards the state already."""
ACTIVE = frozenset({"activations", "recomputed", "backward", "output"})
"""Classes that grow with the microbatch; degrees that split them, and recomputation, are for transformers."""


def remedy(largest: str, workload: Workload, strategy: Strategy) -> str:
    """What is not done yet, and can be done to this model, about its largest class."""
    state, further = SHARDED.get(largest, ("", ""))
    if largest in ACTIVE and not isinstance(workload.model, Transformer):
        return "take a smaller microbatch"
    if state and getattr(sharding_of(strategy.zero), state) != "N":
        return further
    return REMEDIES[largest]
