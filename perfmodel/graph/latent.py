"""Multi-head latent attention: the projections that take the place of those of queries, keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.ops import Elementwise

if TYPE_CHECKING:
    from perfmodel.graph.builder import Builder
    from perfmodel.graph.ops import Op
    from perfmodel.specs.experts import Latent


def latent_projections(build: Builder, latent: Latent) -> tuple[Op, ...]:
    """Down to narrow vectors, norms, up to heads; the common rotary keys are copied beside those of each head.

    Tensor parallelism divides the products that go up, by heads; those that go down run on each rank's part of the
    sequence (Megatron-Core, multi_latent_attention.py).
    """
    heads, width = build.model.heads, latent.nope + latent.rope
    turned = build.tokens * (heads + 1) * latent.rope
    return (
        *_queries(build, latent, heads * width),
        build.linear(
            "key value down", build.model.hidden, latent.kv_rank + latent.rope, "sequence",
            input_kept=latent.query_rank is not None,
        ),
        build.norm("key value norm", width=latent.kv_rank),
        build.linear("key value up", latent.kv_rank, heads * (latent.nope + latent.value), "column"),
        Elementwise("rotary", turned, build.element, split="tensor"),
        Elementwise("keys joined", build.tokens * heads * width, build.element, split="tensor"),
    )  # fmt: skip


def _queries(build: Builder, latent: Latent, width: int) -> tuple[Op, ...]:
    if latent.query_rank is None:
        return (build.linear("query", build.model.hidden, width, "column"),)
    return (
        build.linear("query down", build.model.hidden, latent.query_rank, "sequence"),
        build.norm("query norm", width=latent.query_rank),
        build.linear("query up", latent.query_rank, width, "column"),
    )
