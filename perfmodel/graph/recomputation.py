"""Parts of a layer that are executed again in the backward pass, so that what they give need not be kept.

Megatron-Core calls norms, activations and latent layernorm, moe_act and mla_up_proj (transformer_config.py,
recompute_modules). JAX programs name what they keep: MaxText's save_qkv_proj executes norms, core, output, mlp and activations
again, save_dot_except_mlp all of these but output (MaxText/layers/models.py). torchtitan's policy by operators keeps every
other product of a layer: norms, output, gate, activations and heads run again (torchtitan/distributed/activation_checkpoint.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.graph.ops import Attention, Elementwise, Experts, Linear, Norm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfmodel.graph.ops import Op
    from perfmodel.graph.split import Kernels
    from perfmodel.units import Bytes

LATENT = frozenset({"query up", "key value up", "rotary", "keys joined"})
"""Operations between the narrow vectors of latent attention and its core."""


def _norms(op: Op) -> tuple[Kernels, Bytes]:
    match op:
        case Norm(split="sequence"):
            return op.forward(), op.rows * op.width * op.element
    return (), 0.0


def _activations(op: Op) -> tuple[Kernels, Bytes]:
    match op:
        case Experts():
            return (op.activation(),), op.tokens * op.load * (1 + op.weighted_apart) * op.inner * op.element
        case Elementwise(split="tensor", kept=kept) if kept:
            return op.forward(), op.elements * op.element
    return (), 0.0


def _latent(op: Op) -> tuple[Kernels, Bytes]:
    match op:
        case Linear(name=name) | Elementwise(name=name) if name in LATENT:
            return op.forward(), 0.0
        case Attention():
            return (), op.inputs
    return (), 0.0


def _core(op: Op) -> tuple[Kernels, Bytes]:
    """The input of the output projection goes with it."""
    match op:
        case Attention():
            return op.forward(), op.saved - op.inputs
        case Linear(name="attention output"):
            return (), op.saved
    return (), 0.0


def _output(op: Op) -> tuple[Kernels, Bytes]:
    """The second norm's input goes with it."""
    match op:
        case Linear(name="attention output") | Elementwise(name="attention residual"):
            return op.forward(), 0.0
        case Norm(name="mlp norm"):
            return (), op.saved
    return (), 0.0


def _mlp(op: Op) -> tuple[Kernels, Bytes]:
    """The products before the activation; what the one after it gives, nothing in the backward pass reads."""
    match op:
        case Linear(name="mlp up"):
            return op.forward(), 0.0
        case Experts():
            names = [kernel.name for kernel in op.forward()]
            return op.forward()[: names.index(op.activation().name)], op.saved - op.tokens * op.inner * op.element
        case Elementwise(split="tensor", kept=kept) if kept:
            return (), op.saved
    return (), 0.0


def _gate(op: Op) -> tuple[Kernels, Bytes]:
    """The second of the two products before a gated activation."""
    match op:
        case Linear(name="mlp up"):
            return replace(op, outputs=op.outputs / 2).forward(), 0.0
        case Elementwise(split="tensor", kept=2):
            return (), op.saved / 2
    return (), 0.0


def _heads(op: Op) -> tuple[Kernels, Bytes]:
    """Copies of shared heads; the heads are kept."""
    match op:
        case Elementwise(name="heads copied"):
            return op.forward(), 0.0
        case Attention():
            return (), op.copies
    return (), 0.0


MODULES: Mapping[str, Callable[[Op], tuple[Kernels, Bytes]]] = {
    "norms": _norms, "activations": _activations, "latent": _latent, "core": _core, "output": _output, "mlp": _mlp,
    "gate": _gate, "heads": _heads,
}  # fmt: skip
"""By name: kernels of an operation's forward pass that run again, and bytes that are not kept then."""


def repeated(op: Op, modules: frozenset[str]) -> Kernels:
    """Kernels of an operation's forward pass that run again."""
    return tuple(kernel for name in sorted(modules) for kernel in MODULES[name](op)[0])


def dropped(op: Op, modules: frozenset[str]) -> Bytes:
    """Bytes that are not kept then: outputs of norms and activations, inputs and outputs of the core of attention."""
    return sum((MODULES[name](op)[1] for name in sorted(modules)), 0.0)
