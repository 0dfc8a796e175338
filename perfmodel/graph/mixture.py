"""The layer of a mixture of experts: router, routed and shared experts, with narrow tokens where the mixture is latent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.ops import Elementwise, Experts, Linear
from perfmodel.specs.common import ELEMENT_BYTES

if TYPE_CHECKING:
    from perfmodel.graph.builder import Builder
    from perfmodel.graph.ops import Op
    from perfmodel.specs.experts import Experts as Shape


def mixture(build: Builder, shape: Shape) -> tuple[Op, ...]:
    """Norm, router, experts, shared experts, residual."""
    m = build.model
    experts = Experts(
        "experts", build.tokens * shape.top_k, shape.latent or m.hidden, shape.ffn_hidden, shape.count, build.element,
        gated=m.activation == "swiglu", operand=build.operand, top_k=shape.top_k, bias=m.bias, casts=True,
        squared=m.activation == "relu", imbalance=shape.mean_imbalance, capacity=shape.capacity,
        groups=shape.groups or 1, top_groups=shape.top_groups or 1, sequence=build.sequence,
    )  # fmt: skip
    return (
        build.norm("mlp norm"),
        *_router(build, shape),
        *_latent(build, "down", m.hidden, shape.latent),
        experts,
        *_latent(build, "up", shape.latent, m.hidden),
        *_shared(build, shape),
        *build.residual("mlp residual"),
    )


def _router(build: Builder, shape: Shape) -> tuple[Op, ...]:
    """Scores of all experts in fp32; softmax, choice and the map of chosen ones each cross memory (derived)."""
    scores = build.tokens * shape.count
    return (
        Linear("router", build.tokens, build.model.hidden, shape.count, build.element, build.model.bias, "sequence"),
        Elementwise("routing", scores, ELEMENT_BYTES["fp32"], reads=3, kept=1, backward_traffic=4),
    )


def _latent(build: Builder, way: str, inputs: int | None, outputs: int | None) -> tuple[Op, ...]:
    """To the width at which tokens travel, or back; on each rank's part of the sequence (Megatron-Core, moe_layer.py, fc1_latent_proj)."""
    if inputs is None or outputs is None:
        return ()
    return (build.linear(f"latent {way}", inputs, outputs, "sequence", bias=False, input_kept=way == "down"),)


def _shared(build: Builder, shape: Shape) -> tuple[Op, ...]:
    """One multilayer perceptron for all tokens, added to what the routed experts give."""
    if not shape.shared_ffn_hidden:
        return ()
    m = build.model
    gate = (
        (build.linear("shared gate", m.hidden, 1, "sequence", bias=False, input_kept=True),)
        if shape.shared_gate
        else ()
    )
    return (
        *gate,
        *build.perceptron("shared", shape.shared_ffn_hidden, input_kept=True),
        Elementwise("shared sum", build.tokens * m.hidden, build.element, reads=2, backward_traffic=0),
    )
