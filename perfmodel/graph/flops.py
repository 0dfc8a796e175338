"""Floating-point operations of a step under the conventions that papers use; 1 multiply-add = 2 FLOP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perfmodel.graph.kernels import Convolution, FlashAttention, Fused, Gemm, Repeated
from perfmodel.graph.ops import Attention

if TYPE_CHECKING:
    from perfmodel.graph.graph import Graph
    from perfmodel.graph.ops import Op
    from perfmodel.units import Flop

Convention = Literal["full-attention", "causal", "6nd"]
CONVENTIONS: dict[Convention, str] = {
    "full-attention": "3 x the forward matrix products, attention over all pairs of tokens (Megatron-LM, SC 2021)",
    "causal": "the same with half of the attention where it is causal (FlashAttention-2, Llama 3)",
    "6nd": "6 x parameters x tokens, without attention (Kaplan et al., 2020)",
}


def model_flops(graph: Graph, convention: Convention = "full-attention") -> Flop:
    """FLOP that one microbatch needs forward and backward, recomputation left out.

    Args:
        graph: unsharded.
        convention: a key of `CONVENTIONS`; for models without tokens 6nd falls back to the products.
    """
    if convention == "6nd" and graph.tokens is not None:
        return 6 * graph.parameters * graph.tokens
    causal = convention == "causal"
    return 3 * sum(block.repeat * sum(_forward(op, causal=causal) for op in block.ops) for block in graph.blocks())


def recomputed_flops(graph: Graph, recompute: str, convention: Convention = "full-attention") -> Flop:
    """FLOP of the forward passes that a recomputation policy executes again.

    Args:
        graph: unsharded.
        recompute: none, selective or full.
        convention: as in `model_flops`; under 6nd a layer executed again counts 2 x its parameters x tokens, and
            attention nothing.
    """
    if recompute == "none":
        return 0.0
    if convention == "6nd" and graph.tokens is not None:
        layers = sum(block.repeat * block.parameters for block in graph.body)
        return 2 * layers * graph.tokens if recompute == "full" else 0.0
    causal = convention == "causal"
    return sum(
        block.repeat * sum(_forward(op, causal=causal) for op in block.ops if recompute == "full" or is_unfused(op))
        for block in graph.body
    )


def is_unfused(op: Op) -> bool:
    """Attention that selective recomputation executes again; a fused kernel does so by itself."""
    return isinstance(op, Attention) and not op.fused


def _forward(op: Op, *, causal: bool) -> Flop:
    if isinstance(op, Attention):
        pairs = 0.5 if causal and op.causal else 1.0
        return 4 * op.scores * op.head_dim * pairs
    return sum(k.flops for k in op.forward() if isinstance(k, Gemm | Convolution | FlashAttention | Fused | Repeated))
