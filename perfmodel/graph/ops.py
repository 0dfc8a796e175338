"""The operations of a model: what each computes forward and backward, and what it keeps in between.

Sizes are those of one microbatch, unsharded; `perfmodel.parallel` returns copies with smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.graph.attention import Attention
from perfmodel.graph.experts import Experts
from perfmodel.graph.kernels import SPLITS, Gemm, Pace, Stream
from perfmodel.graph.layers import Conv2d, Lstm, Opaque
from perfmodel.graph.statespace import Scan
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from perfmodel.graph.split import Kernels, Split

__all__ = [
    "Attention",
    "Conv2d",
    "Elementwise",
    "Embedding",
    "Experts",
    "Linear",
    "Loss",
    "Lstm",
    "Norm",
    "Op",
    "Opaque",
    "Scan",
    "is_frozen",
]


@dataclass(frozen=True, slots=True)
class Linear:
    """A product with a weight matrix."""

    name: str
    rows: Count
    inputs: Count
    outputs: Count
    element: Bytes
    bias: bool = False
    split: Split = "none"
    saved_over: Count = 1
    """Ranks that share the saved input."""
    first: bool = False
    """The first layer of a network needs no gradient of its input."""
    shared: bool = False
    """The weights belong to another op, which counts them."""
    input_kept: bool = False
    """Another op counts the input as saved."""
    operand: Bytes | None = None
    """Operands are cast to this size for the product (fp8, fp4); None computes as they are stored."""
    gathered: Count = 1
    """Ranks that each cast their part of what tensor parallelism gathers: the input of a column split, the gradient of a row split."""
    normed: bool = False
    """The norm before it casts its input on the way."""
    frozen: bool = False
    """The weights are not trained."""

    @property
    def travelling(self) -> Bytes:
        """Size of an element that is gathered: narrow operands travel narrow."""
        return self.element if self.operand is None else self.operand

    @property
    def parameters(self) -> Count:
        """Weights and biases; a row-split bias stays whole on every rank."""
        return 0 if self.shared else self.inputs * self.outputs + self.bias * self.outputs

    @property
    def saved(self) -> Bytes:
        """The input, for the gradient of the weights."""
        return self.rows * self.inputs * self.element / self.saved_over * (not (self.input_kept or self.frozen))

    def forward(self) -> Kernels:
        """One product; the bias rides along."""
        product = self._gemm(self.name, self.rows, self.outputs, self.inputs)
        return (*self._cast("cast", self.inputs, "column", normed=self.normed, turned=not self.frozen), product)

    def backward(self) -> Kernels:
        """Gradients of the input and, where they are trained, of the weights."""
        gradient = self._gemm(f"{self.name} input gradient", self.rows, self.inputs, self.outputs, of_input=True)
        cast = self._cast("cast backward", self.outputs, "row")
        if self.frozen:
            return (*cast, gradient)
        weight = self._gemm(
            f"{self.name} weight gradient", self.inputs, self.outputs, self.rows, SPLITS, of_weight=True
        )
        bias = (Stream(f"{self.name} bias gradient", self.rows * self.outputs * self.element),) if self.bias else ()
        return (*cast, weight, *bias) if self.first else (*cast, gradient, weight, *bias)

    def _gemm(
        self, name: str, rows: Count, columns: Count, depth: Count, splits: int = 1, *, of_weight: bool = False,
        of_input: bool = False,
    ) -> Gemm:  # fmt: skip
        return Gemm(
            name, rows, columns, depth, self.element,
            operand=self.operand, splits=splits, is_weight_gradient=of_weight, is_input_gradient=of_input,
        )  # fmt: skip

    def _cast(self, name: str, width: Count, gathered: Split, *, normed: bool = False, turned: bool = True) -> Kernels:
        """Read a tensor, write it narrow by rows and by columns: products want it both ways.

        Where it is ``gathered``, each rank casts its part by rows, and all of it is turned once it is there. A tensor that a
        norm cast is only turned; one that makes no gradient of weights need not be.
        """
        if self.operand is None or (normed and not turned):
            return ()
        parts = self.gathered if self.split == gathered else 1
        casting = 0.0 if normed else (self.element + self.operand) / parts
        turning = turned * np.where((np.asarray(parts) > 1) | normed, 2, 1) * self.operand
        return (Stream(f"{self.name} {name}", self.rows * width * (casting + turning)),)


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer, root-mean-square or batch norm."""

    name: str
    rows: Count
    width: Count
    element: Bytes
    affine: int = 2
    """Vectors of trained parameters: scale and shift, or scale alone."""
    rowwise: bool = True
    """Each row has statistics of its own; those of batch norm go over the whole map, which cuDNN streams."""
    passes: Count = 2
    """Times that the map crosses memory forward: read and write; batch norm reads twice."""
    split: Split = "sequence"
    saved_over: Count = 1
    single: bool = False
    """Of a framework's general kernels: one element at a time, and the gradient of the parameters in a pass of its own."""
    composed: bool = False
    """Written out in operations, each a kernel on whole maps."""
    singly: int = 0
    """Times that kernels go over a map one element at a time, forward and backward: of batch norm, whose channels lie apart."""
    written: Bytes | None = None
    """Of an element that it writes, where it casts it for the product after it; None writes what it reads."""
    frozen: bool = False
    """Scale and shift are not trained."""

    @property
    def parameters(self) -> Count:
        """Scale and shift."""
        return self.affine * self.width

    @property
    def saved(self) -> Bytes:
        """The input."""
        return self.rows * self.width * self.element / self.saved_over

    def forward(self) -> Kernels:
        """Read and write."""
        if self.composed:
            return (self._composed(self.name, 20),)
        spared = 0.0 if self.written is None else 1 - self.written / self.element
        return (self._stream(self.name, self.passes - spared),)

    def backward(self) -> Kernels:
        """Read the input and the gradient, write the gradient; batch norm reads both twice, and so do general kernels."""
        if self.composed:
            return (self._composed(f"{self.name} backward", 52),)
        backward = self._stream(f"{self.name} backward", 2 * self.passes - 1)
        alone = self.single and not self.frozen
        return (backward, self._stream(f"{self.name} parameter gradient", 2)) if alone else (backward,)

    def _composed(self, name: str, passes: Count) -> Stream:
        """Of a root-mean-square norm in 16 bits, counted from PyTorch's rms_norm before it was one kernel and its gradients (derived).

        Forward: to fp32, square, mean, product with the root, product with the weights, back to 16 bits: 40 bytes an element.
        Backward: the same in reverse, gradients of weights and of the root in passes of their own, square through a power,
        sum of two gradients: 104 bytes (aten/src/ATen/native/layer_norm.cpp, PyTorch 2.4).
        """
        return Stream(name, passes * self.rows * self.width * self.element)

    def _stream(self, name: str, passes: Count) -> Stream:
        elements = self.rows * self.width
        pace: Pace | None = "rows" if self.single or self.singly else None
        return Stream(name, passes * elements * self.element, self.rowwise, pace, max(1, self.singly) * elements)


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An activation, a residual with dropout, a pool, a concatenation."""

    name: str
    elements: Count
    element: Bytes
    reads: Count = 1
    """Elements read for each one written."""
    mask: int = 0
    """Bytes written and kept beside each element: 1 of a dropout mask, 8 of the index of a maximum."""
    kept: Count = 0
    """Elements kept for the backward pass for each one written."""
    backward_traffic: Count = 2
    """Elements read and written backward for each output element; 0 where the backward pass is free."""
    split: Split = "sequence"
    merged: bool = False
    """The kernel before computes it on its way out: only further operands are read."""
    broadcast: bool = False
    """One operand is repeated, which makes kernels compute the address of each element."""

    @property
    def parameters(self) -> Count:
        """None."""
        return 0

    @property
    def saved(self) -> Bytes:
        """Inputs where the gradient needs them, and the mask."""
        return self.elements * (self.kept * self.element + self.mask)

    def forward(self) -> Kernels:
        """Read the operands, write the result and the mask."""
        if self.merged:
            return (Stream(self.name, self.elements * (self.reads - 1) * self.element),) if self.reads > 1 else ()
        traffic = self.elements * ((self.reads + 1) * self.element + self.mask)
        return (Stream(self.name, traffic, pace="strided" if self.broadcast else None, elements=self.elements),)

    def backward(self) -> Kernels:
        """Read the gradient and what was kept, write the gradient of the input."""
        traffic = self.elements * (self.backward_traffic * self.element + self.mask)
        free = not self.backward_traffic or (self.merged and self.kept)
        return () if free else (Stream(f"{self.name} backward", traffic),)


@dataclass(frozen=True, slots=True)
class Embedding:
    """A table of vectors, one looked up for each token."""

    name: str
    rows: Count
    width: Count
    vocabulary: Count
    element: Bytes
    split: Split = "vocabulary"
    frozen: bool = False
    """The table is not trained."""

    @property
    def parameters(self) -> Count:
        """The table."""
        return self.vocabulary * self.width

    @property
    def saved(self) -> Bytes:
        """The indices, which are small."""
        return 8 * self.rows

    def forward(self) -> Kernels:
        """Read a row and write it."""
        return (self._gather(self.name, 2),)

    def backward(self) -> Kernels:
        """Zero the gradient of the table; sort the indices; read the gradient of the output, write the rows that occur.

        The radix sort of PyTorch's `embedding_dense_backward` takes three digits of 8 bits, each a pass that reads and
        writes an index and a position of 8 bytes.
        """
        if self.frozen:
            return ()
        zero = Stream(f"{self.name} zero", self.vocabulary * self.width * self.element)
        sort = Stream(f"{self.name} sort", 3 * 2 * (8 + 8) * self.rows)
        return (zero, sort, self._gather(f"{self.name} backward", 1 + np.minimum(self.vocabulary / self.rows, 1)))

    def _gather(self, name: str, passes: Count) -> Stream:
        elements = self.rows * self.width
        return Stream(name, passes * elements * self.element, pace="gather", elements=elements)


@dataclass(frozen=True, slots=True)
class Loss:
    """Softmax over the classes and cross-entropy, in fp32."""

    name: str
    rows: Count
    vocabulary: Count
    element: Bytes
    split: Split = "vocabulary"

    @property
    def parameters(self) -> Count:
        """None."""
        return 0

    @property
    def saved(self) -> Bytes:
        """The logits in fp32."""
        return 4 * self.rows * self.vocabulary

    def forward(self) -> Kernels:
        """Convert to fp32, find the maximum, subtract it, exponentiate, sum, divide: each a pass through memory."""
        traffic = self.rows * self.vocabulary * (self.element + 4 + 4 + 8 + 8 + 4 + 8)
        return (Stream(self.name, traffic, reduces=True),)

    def backward(self) -> Kernels:
        """Scale the softmax in place, and convert it."""
        return (Stream(f"{self.name} backward", self.rows * self.vocabulary * (8 + 4 + self.element)),)


Op = Linear | Attention | Norm | Elementwise | Embedding | Experts | Loss | Conv2d | Lstm | Opaque | Scan


def is_frozen(op: Op) -> bool:
    """Whether its weights are not trained."""
    return isinstance(op, Linear | Norm | Embedding | Experts | Scan) and op.frozen
