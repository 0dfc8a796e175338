"""Models that a file states operation by operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.graph import Block, Graph
from perfmodel.graph.ops import Attention, Conv2d, Elementwise, Embedding, Linear, Loss, Lstm, Norm, Op, Opaque
from perfmodel.specs.custom import REQUIRED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs.custom import Custom, OpSpec
    from perfmodel.units import Bytes, Count


def custom(model: Custom, *, microbatch: Count, element: Bytes, fused: bool = True) -> Graph:
    """Blocks of one microbatch, one for each operation of the file.

    Every operation saves its own input: a file does not say which op reads what.

    Args:
        model: the operations, with sizes for one sample.
        microbatch: samples, a number or a column.
        element: bytes of one activation.
        fused: attention never writes its scores to memory.
    """
    body = tuple(
        block
        for index, spec in enumerate(model.ops)
        for block in _blocks(spec, microbatch, element, first=index == 0, fused=fused)
    )
    return Graph(prologue=(), body=body, epilogue=(), boundary=0)


def _blocks(spec: OpSpec, batch: Count, element: Bytes, *, first: bool, fused: bool) -> Iterator[Block]:
    """A first product needs no gradient of its input, but its repetitions do."""
    if first:
        yield Block(_name(spec), (_op(spec, batch, element, first=True, fused=fused),))
    if spec.repeat > first:
        op = _op(spec, batch, element, first=False, fused=fused)
        yield Block(_name(spec), (op,), spec.repeat - first)


def _op(spec: OpSpec, batch: Count, element: Bytes, *, first: bool, fused: bool) -> Op:
    name, size = _name(spec), {key: getattr(spec, key) for key in REQUIRED[spec.op]}
    match spec.op:
        case "matmul":
            rows = batch * size["rows"]
            return Linear(name, rows, size["inputs"], size["outputs"], element, bias=spec.bias, first=first)
        case "conv2d":
            return _conv(spec, batch, element, first=first)
        case "attention":
            heads, tokens = size["heads"], size["sequence"]
            return Attention(
                name, batch, tokens, tokens, heads, spec.kv_heads or heads, size["head_dim"], element,
                causal=spec.causal, fused=fused, dropout=False, split="none",
            )  # fmt: skip
        case "norm":
            return Norm(name, batch * size["rows"], size["width"], element, split="none")
        case "elementwise":
            return _elementwise(spec, batch * size["elements"], element)
        case "embedding":
            rows = batch * size["rows"]
            return Embedding(name, rows, size["width"], size["vocabulary"], element, split="none")
        case "lstm":
            return Lstm(name, batch, size["sequence"], size["inputs"], size["hidden"], element)
        case "softmax_loss":
            return Loss(name, batch * size["rows"], size["vocabulary"], element, split="none")
        case "custom":
            return Opaque(name, batch * size["flops"], batch * size["bytes"], spec.parameters)


def _conv(spec: OpSpec, batch: Count, element: Bytes, *, first: bool) -> Conv2d:
    inputs, outputs, height, width, kernel = (getattr(spec, key) for key in REQUIRED["conv2d"])
    return Conv2d(
        _name(spec), batch, inputs, outputs, spec.windows(height), spec.windows(width), height * width,
        kernel**2, element, spec.groups, bias=spec.bias, first=first,
    )  # fmt: skip


def _elementwise(spec: OpSpec, elements: Count, element: Bytes) -> Elementwise:
    """Backward reads the gradient and what was kept, and writes the gradient of every operand."""
    kept = spec.operands if spec.kept is None else spec.kept
    backward = 1 + kept + spec.operands
    return Elementwise(
        _name(spec), elements, element, reads=spec.operands, mask=spec.mask, kept=kept, backward_traffic=backward,
        split="none",
    )  # fmt: skip


def _name(spec: OpSpec) -> str:
    return spec.name or spec.op
