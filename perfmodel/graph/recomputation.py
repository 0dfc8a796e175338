"""Parts of a layer that are executed again in the backward pass, so that what they give need not be kept.

Megatron-Core calls them layernorm, mla_up_proj and moe_act (transformer_config.py, recompute_modules).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.ops import Attention, Elementwise, Experts, Linear, Norm

if TYPE_CHECKING:
    from perfmodel.graph.ops import Op
    from perfmodel.graph.split import Kernels
    from perfmodel.units import Bytes

LATENT = frozenset({"query up", "key value up", "rotary", "keys joined"})
"""Operations between the narrow vectors of latent attention and its core."""


def repeated(op: Op, modules: frozenset[str]) -> Kernels:
    """Kernels of an operation's forward pass that run again."""
    match op:
        case Norm(split="sequence") if "norms" in modules:
            return op.forward()
        case Experts() if "activations" in modules:
            return (op.activation(),)
        case Elementwise(split="tensor", kept=kept) if kept and "activations" in modules:
            return op.forward()
        case Linear(name=name) | Elementwise(name=name) if name in LATENT and "latent" in modules:
            return op.forward()
        case _:
            return ()


def dropped(op: Op, modules: frozenset[str]) -> Bytes:
    """Bytes that are not kept then: outputs of norms and activations, inputs of the core of latent attention."""
    match op:
        case Norm(split="sequence") if "norms" in modules:
            return op.rows * op.width * op.element
        case Experts() if "activations" in modules:
            return op.tokens * op.inner * op.element
        case Elementwise(split="tensor", kept=kept) if kept and "activations" in modules:
            return op.elements * op.element
        case Attention() if "latent" in modules:
            return op.inputs
        case _:
            return 0.0
