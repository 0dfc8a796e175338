"""Floating-point operations of a step under the conventions that papers use; 1 multiply-add = 2 FLOP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perfmodel.graph.kernels import Convolution, FlashAttention, Fused, Gemm, Repeated
from perfmodel.graph.ops import Attention, Experts, Scan, is_frozen
from perfmodel.graph.recomputation import repeated

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.graph.graph import Graph
    from perfmodel.graph.ops import Op
    from perfmodel.units import Count, Flop

Convention = Literal["full-attention", "causal", "6nd"]
CONVENTIONS: dict[Convention, str] = {
    "full-attention": "3 x the forward matrix products, 2 x those of frozen weights, attention over all pairs of tokens (Megatron-LM, SC 2021)",
    "causal": "the same with half of the attention where it is causal (FlashAttention-2, Llama 3)",
    "6nd": "6 x parameters that a token uses x tokens, 4 x frozen ones, without attention (Kaplan et al., 2020)",
}


def model_flops(graph: Graph, convention: Convention = "full-attention") -> Flop:
    """FLOP that one microbatch needs forward and backward, recomputation left out.

    Args:
        graph: unsharded.
        convention: a key of `CONVENTIONS`; for models without tokens 6nd falls back to the products.
    """
    if convention == "6nd" and graph.tokens is not None:
        return 2 * _active(graph, _passes) * graph.tokens
    causal = convention == "causal"
    return sum(b.repeat * sum(_passes(op) * _forward(op, causal=causal) for op in b.ops) for b in graph.blocks())


def active_parameters(graph: Graph) -> Count:
    """Parameters that each token goes through: of experts those that it is sent to, of all else all."""
    return _active(graph, lambda _: 1)


def _active(graph: Graph, weight: Callable[[Op], int]) -> Count:
    """Sum over operations, each by its weight."""
    return sum(
        block.repeat
        * sum(weight(op) * (op.active_parameters if isinstance(op, Experts) else op.parameters) for op in block.ops)
        for block in graph.blocks()
    )


def _passes(op: Op) -> int:
    """Forward, gradients of inputs and, where they are trained, of weights."""
    return 2 if is_frozen(op) else 3


def recomputed_flops(
    graph: Graph, recompute: str, convention: Convention = "full-attention", modules: frozenset[str] = frozenset()
) -> Flop:
    """FLOP of the forward passes that a recomputation policy executes again.

    Args:
        graph: unsharded.
        recompute: none, selective or full.
        convention: as in `model_flops`; under 6nd a layer executed again counts 2 x its parameters x tokens, and
            attention nothing.
        modules: parts of each layer that are executed again beside them.
    """
    if modules:
        causal = convention == "causal"
        parts = sum(b.repeat * sum(_again(op, modules, causal=causal) for op in b.ops) for b in graph.body)
        return parts + recomputed_flops(graph, recompute, convention)
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


def _again(op: Op, modules: frozenset[str], *, causal: bool) -> Flop:
    kernels = repeated(op, modules)
    return _forward(op, causal=causal) if kernels and isinstance(op, Attention) else sum(k.flops for k in kernels)


def is_unfused(op: Op) -> bool:
    """Attention that selective recomputation executes again; a fused kernel does so by itself."""
    return isinstance(op, Attention) and not op.fused


def _forward(op: Op, *, causal: bool) -> Flop:
    if isinstance(op, Attention):
        return 2 * (op.seen_pairs if causal and op.causal else op.pairs) * op.pair_width
    if isinstance(op, Scan):
        return op.counted
    return sum(k.flops for k in op.forward() if isinstance(k, Gemm | Convolution | FlashAttention | Fused | Repeated))
