"""Operations stated one by one, for what no family describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Integer, Text
from perfmodel.specs.common import Group, Size
from perfmodel.specs.convnet import Margin, positions
from perfmodel.units import Bytes, Flop
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRED: dict[str, tuple[str, ...]] = {
    "matmul": ("rows", "inputs", "outputs"),
    "conv2d": ("inputs", "outputs", "height", "width", "kernel"),
    "attention": ("heads", "head_dim", "sequence"),
    "norm": ("rows", "width"),
    "elementwise": ("elements",),
    "embedding": ("rows", "width", "vocabulary"),
    "lstm": ("inputs", "hidden", "sequence"),
    "softmax_loss": ("rows", "vocabulary"),
    "custom": ("flops", "bytes"),
}
"""Which sizes each kind of operation needs."""

OPTIONAL: dict[str, tuple[str, ...]] = {
    "matmul": ("bias",),
    "conv2d": ("stride", "padding", "groups", "bias"),
    "attention": ("kv_heads", "causal"),
    "elementwise": ("operands", "kept", "mask"),
    "custom": ("parameters",),
}
"""What else may be said of some; `name` and `repeat` of all."""


class OpSpec(Spec):
    """One operation, with its sizes for one sample."""

    op: Literal["matmul", "conv2d", "attention", "norm", "elementwise", "embedding", "lstm", "softmax_loss", "custom"]
    name: Text = ""
    """Shown in reports; default the kind of operation."""
    repeat: Size = 1
    """Times in a row, each with weights of its own."""
    rows: Size | None = None
    """matmul: rows per sample; norm, embedding, softmax_loss: tokens per sample."""
    inputs: Size | None = None
    """matmul, lstm: input features; conv2d: input channels."""
    outputs: Size | None = None
    """matmul: output features; conv2d: output channels."""
    bias: bool = False
    height: Size | None = None
    """conv2d: of the input."""
    width: Size | None = None
    """conv2d: of the input; norm, embedding: features."""
    kernel: Size | None = None
    stride: Size = 1
    padding: Margin | None = None
    """conv2d: on each side; default (kernel - 1) // 2."""
    groups: Size = 1
    heads: Size | None = None
    kv_heads: Size | None = None
    """Default as many as heads."""
    head_dim: Size | None = None
    sequence: Size | None = None
    """attention, lstm: tokens per sample."""
    causal: bool = False
    elements: Size | None = None
    """elementwise: outputs per sample."""
    operands: Size = 1
    """elementwise: inputs that are read for each output."""
    kept: Margin | None = None
    """elementwise: inputs kept for the backward pass, for each output; default all operands, 0 for a sum."""
    mask: Margin = 0
    """elementwise: bytes kept beside each output, 1 of dropout."""
    vocabulary: Size | None = None
    hidden: Size | None = None
    """lstm: width of the state."""
    flops: Flop | None = None
    """custom: of one forward pass of one sample."""
    bytes: Bytes | None = None
    """custom: read and written in it."""
    parameters: Annotated[Integer, Field(ge=0)] = 0
    """custom: weights to train."""

    @property
    def margin(self) -> int:
        """Padding on each side of a convolution's input."""
        return (int(self.kernel or 1) - 1) // 2 if self.padding is None else self.padding

    def windows(self, size: int) -> int:
        """Outputs of a convolution along a side of ``size``."""
        return positions(size, kernel=int(self.kernel or 1), stride=self.stride, padding=self.margin)


class Custom(Group):
    """Operations one by one, in order."""

    family: Literal["custom"]
    ops: tuple[OpSpec, ...]


def custom_faults(model: Custom, path: str) -> Iterator[Fault]:
    """Operations that lack a size, have one that means nothing, or sizes that do not fit."""
    if not model.ops:
        yield Fault(f"{path}.ops", "needs at least one operation")
    for index, op in enumerate(model.ops):
        at, needed = f"{path}.ops.{index}", REQUIRED[op.op]
        missing = [size for size in needed if getattr(op, size) is None]
        if missing:
            yield Fault(at, f"{op.op} needs {' and '.join(missing)}")
        for extra in sorted(op.model_fields_set - {"op", "name", "repeat", *needed, *OPTIONAL.get(op.op, ())}):
            yield Fault(f"{at}.{extra}", f"means nothing for {op.op}")
        if not missing:
            yield from _misfits(op, at)


def _misfits(op: OpSpec, path: str) -> Iterator[Fault]:
    if op.op == "attention" and op.heads and op.kv_heads and op.heads % op.kv_heads:
        yield Fault(f"{path}.kv_heads", f"{op.kv_heads} does not divide the {op.heads} heads")
    if op.op == "conv2d" and op.inputs and op.outputs and op.height and op.width:
        if op.inputs % op.groups or op.outputs % op.groups:
            yield Fault(f"{path}.groups", f"{op.groups} does not divide {op.inputs} inputs and {op.outputs} outputs")
        if not op.windows(op.height) or not op.windows(op.width):
            yield Fault(f"{path}.kernel", f"{op.kernel} does not fit into a map of {op.height} x {op.width}")
