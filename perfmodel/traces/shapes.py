"""Operators with shapes -> kernels of ours: products, convolutions, attention and kernels that only move bytes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from perfmodel.graph.attention import ALIGNMENT
from perfmodel.graph.kernels import Gemm, Stream
from perfmodel.graph.ops import Attention, Conv2d
from perfmodel.specs.common import ELEMENT_BYTES, STORED_BYTES, Precision
from perfmodel.validation.ops import Measured
from perfmodel.validation.tables import InexpressibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfmodel.traces.classes import Class
    from perfmodel.traces.trace import Signature

    Shape = tuple[int, ...]
    Known = Mapping[tuple[Shape, Shape], Shape]

PRECISIONS: dict[str, Precision] = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "half": "fp16", "bfloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8", "c10::Float8_e5m2": "fp8", "c10::Float8_e4m3fnuz": "fp8",
}  # fmt: skip
WIDTHS = {
    **{name: ELEMENT_BYTES[precision] for name, precision in PRECISIONS.items()},
    "long": 8.0,
    "long int": 8.0,
    "int": 4.0,
    "bool": 1.0,
}
TF32 = ("tf32", "s1688")
"""In the names of kernels that multiply numbers stored in fp32 on tensor cores: 16 x 8 x 8 is the shape of tf32."""
LAYOUT = ("nchwtonhwc", "nhwctonchw", "batched_transpose", "nchw2nhwc", "nhwc2nchw")


@dataclass(frozen=True, slots=True)
class Helper:
    """A kernel that libraries run around the product of a convolution, with a launch of its own."""

    marks: tuple[str, ...]
    """In names of kernels of the call, each in one at least."""
    name: str
    tensors: Literal["operands", "begun", "sums", "pixels", "added"]
    """What it handles: operands and the result, results that a kernel may add to, results whose sums are split, maps of a
    product of single pixels, or what blocks add their parts to."""
    elements: int
    """Moved for each of the tensors' elements, at the width of the maps."""
    wide: int = 0
    """Likewise in fp32."""


HELPERS = (
    Helper(("batched_transpose",), "layout", "operands", 2),
    Helper(("batched_transpose", "grouped_conv_fwd"), "layout", "begun", 2),
    Helper(("batched_transpose", "xdlops_bwd_weight"), "layout", "begun", 2),
    Helper(("SubTensorOpWithScalar",), "split sum", "sums", 0, 1),
    Helper(("SubTensorOpWithCast",), "split sum", "sums", 1, 1),
    Helper(("NCHW2CNHW",), "pixels", "pixels", 2),
    Helper(("scalePackedTensor",), "zeros", "added", 1),
)
"""MIOpen transposes every operand and the result to channels last, where cuDNN copies the maps that go in alone, and before
a kernel of Composable Kernel what the result held too (ROCm/MIOpen, implicitgemm_ck_util.hpp); it zeroes
sums of a split inner dimension in fp32 before the product, and casts them after. A window of one pixel with a stride is a
plain product between two copies that bring the pixels together and back (ROCm/MIOpen, solver/gemm.cpp). cuDNN's first
algorithm for the gradient of the input adds up with atomics, from zeros."""
IMAGE = 4
"""Channels at most of an image, whose gradient nobody needs."""
PRODUCTS = {
    "aten::mm": 0,
    "aten::addmm": 1,
    "aten::bmm": 0,
    "aten::baddbmm": 1,
    "aten::_scaled_mm": 0,
    "aten::linear": 0,
    "aten::mkldnn_linear": 0,
}
"""Products, by the place of their first factor."""
CONVOLUTIONS = {
    "aten::cudnn_convolution": (2, 3), "aten::miopen_convolution": (3, 4), "aten::mkldnn_convolution": (3, 4),
    "aten::cudnn_convolution_relu": (4, 3), "aten::_slow_conv2d_forward": (5, 4),
}  # fmt: skip
"""Forward passes, by the places of padding and stride."""
BACKWARD = {
    "aten::convolution_backward": (0, 1, 2),
    "aten::cudnn_convolution_backward": (1, 0, 2),
    "aten::miopen_convolution_backward": (1, 0, 2),
}
"""Backward passes, by the places of the output's gradient, the input and the filters."""
ATTENTION = {
    "aten::_scaled_dot_product_flash_attention": (0, 4), "aten::_scaled_dot_product_cudnn_attention": (0, 6),
    "aten::_scaled_dot_product_efficient_attention": (0, 6), "aten::_scaled_dot_product_flash_attention_for_cpu": (0, 4),
    "aten::_scaled_dot_product_flash_attention_backward": (1, 11), "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (1, 7),
}  # fmt: skip
"""Fused attention over (sample, head, position, width), by the places of the queries and of the causal mask."""
ELEMENTWISE = {
    "aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::sub", "aten::div", "aten::div_", "aten::gelu", "aten::silu", "aten::relu",
    "aten::relu_", "aten::clamp_min", "aten::clamp_min_", "aten::threshold_backward", "aten::gelu_backward", "aten::silu_backward",
    "aten::copy_", "aten::sigmoid", "aten::tanh", "aten::exp", "aten::pow", "aten::neg", "aten::addcmul_", "aten::addcdiv_",
}  # fmt: skip
REDUCTIONS = {
    "aten::_softmax",
    "aten::_log_softmax",
    "aten::native_layer_norm",
    "aten::_softmax_backward_data",
    "aten::_log_softmax_backward_data",
}


def expressed(signature: Signature, kernels: frozenset[str], outputs: Known) -> tuple[Class, Measured]:
    """What an operator of PyTorch executes, and the class of its main kernel; raises InexpressibleError where we have no words.

    Args:
        signature: the operator as it was called.
        kernels: names of the kernels that it ran, which tell tf32 and copies to another layout.
        outputs: shapes of maps that convolutions give, by their input and filters: old traces tell them in the backward pass alone.
    """
    for names, made in _WORDS:
        if signature.op in names:
            return made(signature, kernels, outputs)
    raise InexpressibleError(signature.op)


def outputs_of(signature: Signature) -> tuple[tuple[Shape, Shape], Shape] | None:
    """What a backward pass tells of the convolution: its input and filters, and the output."""
    places = BACKWARD.get(signature.op)
    if places is None:
        return None
    try:
        out, entering, filters = (_shape(signature, place, 4) for place in places)
    except InexpressibleError:
        return None
    return (entering, filters), out


def _shape(signature: Signature, place: int, *lengths: int) -> Shape:
    """An input's shape of one of these numbers of dimensions."""
    given = signature.dims[place] if place < len(signature.dims) else None
    if not isinstance(given, tuple) or len(given) not in lengths:
        raise InexpressibleError(f"{signature.op} without shapes")
    if not all(type(size) is int and 0 < size < 2**40 for size in given):
        raise InexpressibleError(f"{signature.op} of empty tensors")
    return given


def _precision(signature: Signature, place: int, kernels: frozenset[str]) -> Precision:
    kind = signature.types[place] if place < len(signature.types) else ""
    if kind not in PRECISIONS:
        raise InexpressibleError(f"{signature.op} of {kind or 'tensors without a type'}")
    tensor_cores = any(mark in name for name in kernels for mark in TF32)
    return "tf32" if PRECISIONS[kind] == "fp32" and tensor_cores else PRECISIONS[kind]


def _argument(signature: Signature, place: int) -> Any:
    """A scalar argument; None where the trace does not say."""
    text = signature.concrete[place] if place < len(signature.concrete) else ""
    try:
        return ast.literal_eval(text) if text and len(text) < 100 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _product(signature: Signature, kernels: frozenset[str], _: Known) -> tuple[Class, Measured]:
    first = PRODUCTS[signature.op]
    precision = _precision(signature, first, kernels)
    linear = signature.op.endswith("linear")
    left, right = (
        _shape(signature, first, 1, 2, 3, 4, 5) if linear else _shape(signature, first, 2, 3),
        _shape(signature, first + 1, 2, 3),
    )
    batch = prod(left[:-2]) if len(right) == 3 else 1
    rows, columns = (prod(left[:-1]), right[0]) if linear else (left[-2], right[-1])
    stored, element = STORED_BYTES[precision], ELEMENT_BYTES[precision]
    aligned = batch == 1 or element > 2 or not any(element * size % ALIGNMENT for size in (left[-1], columns))
    made = Gemm("gemm", rows, columns, left[-1], stored, batch, element if element < stored else None, aligned)
    return "GEMM", Measured("gemm", precision, (made,))


def _conv(entering: Shape, filters: Shape, out: Shape, precision: Precision, **more: Any) -> Conv2d:
    return Conv2d(
        "conv", entering[0], entering[1], filters[0], out[2], out[3], entering[2] * entering[3], filters[2] * filters[3],
        ELEMENT_BYTES[precision], max(entering[1] // filters[1], 1), **more,
    )  # fmt: skip


def _convolution(signature: Signature, kernels: frozenset[str], outputs: Known) -> tuple[Class, Measured]:
    entering, filters = _shape(signature, 0, 4), _shape(signature, 1, 4)
    precision = _precision(signature, 0, kernels)
    padding, stride = (_argument(signature, place) for place in CONVOLUTIONS[signature.op])
    if isinstance(padding, list) and isinstance(stride, list) and len(padding) == len(stride) == 2 and all(stride):
        area = [(entering[2 + i] + 2 * padding[i] - filters[2 + i]) // stride[i] + 1 for i in range(2)]
        out = (entering[0], filters[0], *area)
    else:
        out = outputs.get((entering, filters), ())
    if len(out) != 4 or min(out) < 1:
        raise InexpressibleError(f"{signature.op} without strides")
    op = _conv(entering, filters, out, precision, copied=_copies(kernels))
    pixels = (entering[0], entering[1], *out[2:])
    also = _beside(
        kernels, precision, operands=(filters, out), begun=(out,), sums=(out,), pixels=(pixels, out), added=()
    )
    return "convolution", Measured("convolution", precision, (*op.forward(), *also))


def _convolution_backward(signature: Signature, kernels: frozenset[str], _: Known) -> tuple[Class, Measured]:
    out, entering, filters = (_shape(signature, place, 4) for place in BACKWARD[signature.op])
    precision = _precision(signature, 0, kernels)
    mask = _argument(signature, 10)
    wanted = mask if isinstance(mask, list) and len(mask) == 3 else [entering[1] > IMAGE, True, False]
    op = _conv(entering, filters, out, precision, copied=_copies(kernels), first=not wanted[0], bias=bool(wanted[2]))
    gradient = (entering,) if wanted[0] else ()
    pixels = (entering[0], entering[1], *out[2:])
    also = _beside(
        kernels, precision, operands=(*gradient, *(filters for _ in gradient), filters), begun=(filters,),
        sums=(entering, filters), pixels=(out, pixels), added=gradient,
    )  # fmt: skip
    return "convolution", Measured("convolution", precision, (*op.backward(), *also))


def _beside(kernels: frozenset[str], precision: Precision, **tensors: Sequence[Shape]) -> Iterator[Stream]:
    """The helpers that a call ran, by the names of its kernels; ``tensors`` are the shapes of those that each handles."""
    width = ELEMENT_BYTES[precision]
    for helper in HELPERS:
        if all(any(mark in name for name in kernels) for mark in helper.marks):
            each = helper.elements * width + helper.wide * ELEMENT_BYTES["fp32"]
            yield from (Stream(helper.name, each * prod(shape)) for shape in tensors[helper.tensors])


def _copies(kernels: frozenset[str]) -> bool:
    return any(mark in name.lower() for name in kernels for mark in LAYOUT)


def _attention(signature: Signature, kernels: frozenset[str], _: Known) -> tuple[Class, Measured]:
    first, causal = ATTENTION[signature.op]
    queries, keys = _shape(signature, first, 4), _shape(signature, first + 1, 4)
    precision = _precision(signature, first, kernels)
    batch, heads, length, width = queries
    masked = _argument(signature, causal)
    if masked is None:
        raise InexpressibleError(f"{signature.op} that may be causal")
    op = Attention(
        "attention", batch, length, keys[2], heads, keys[1], width, STORED_BYTES[precision], causal=masked is True,
        fused=True, dropout=False, window=None,
    )  # fmt: skip
    return "attention", Measured("attention", precision, op.backward() if "backward" in signature.op else op.forward())


def _stream(signature: Signature, _: frozenset[str], __: Known) -> tuple[Class, Measured]:
    """Each tensor read once, and one as large as the largest written."""
    pairs = zip(signature.dims, signature.types, strict=False)
    tensors = [
        (prod(dims), WIDTHS[kind])
        for dims, kind in pairs
        if kind in WIDTHS and isinstance(dims, tuple) and _sizes(dims)
    ]
    if not tensors:
        raise InexpressibleError(f"{signature.op} without shapes")
    reduces = signature.op in REDUCTIONS
    largest, width = max(tensors)
    read = tensors[1:] if signature.op == "aten::copy_" else tensors
    traffic = sum(size * element for size, element in read) + largest * (
        tensors[0][1] if signature.op == "aten::copy_" else width
    )
    kernel = Stream(signature.op, traffic, reduces=reduces)
    return ("normalisation" if reduces else "elementwise"), Measured(
        "reduction" if reduces else "stream", "fp32", (kernel,)
    )


def _sizes(dims: tuple[Any, ...]) -> bool:
    return all(type(size) is int and 0 < size < 2**40 for size in dims)


_WORDS: tuple[tuple[Any, Callable[[Signature, frozenset[str], Known], tuple[Class, Measured]]], ...] = (
    (PRODUCTS, _product), (CONVOLUTIONS, _convolution), (BACKWARD, _convolution_backward), (ATTENTION, _attention),
    (ELEMENTWISE | REDUCTIONS, _stream),
)  # fmt: skip
KINDS: tuple[frozenset[str], ...] = tuple(frozenset(names) for names, _ in _WORDS)
"""Operators of one kind, one set for each."""
WORDS = frozenset().union(*KINDS)
"""Operators that can be expressed."""
