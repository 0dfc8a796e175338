"""The operations of a model: what each computes forward and backward, and what it keeps in between.

Sizes are those of one microbatch, unsharded; `perfmodel.parallel` returns copies with smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.graph.attention import Attention
from perfmodel.graph.experts import Experts
from perfmodel.graph.kernels import SPLITS, Gemm, Stream
from perfmodel.graph.layers import Conv2d, Lstm, Opaque
from perfmodel.graph.loss import Loss
from perfmodel.graph.pointwise import Elementwise, Norm
from perfmodel.graph.statespace import Scan
from perfmodel.graph.tables import Pairs, Tables
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
    "Pairs",
    "Scan",
    "Tables",
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
    row_scales: bool = False
    """Each row of a narrow operand has a scale of its own."""
    frozen: bool = False
    """The weights are not trained."""
    stored: Bytes | None = None
    """Bytes of a frozen weight that is kept in fewer bits than it computes with, and written out for each product."""

    @property
    def travelling(self) -> Bytes:
        """Size of an element that is gathered: narrow operands travel narrow, unless each row has a scale."""
        return self.element if self.operand is None or self.row_scales else self.operand

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
        cast = self._cast("cast", self.inputs, "column", normed=self.normed, turned=not self.frozen)
        return (*cast, *self._write_out(), self._gemm(self.name, self.rows, self.outputs, self.inputs))

    def backward(self) -> Kernels:
        """Gradients of the input and, where they are trained, of the weights."""
        gradient = self._gemm(f"{self.name} input gradient", self.rows, self.inputs, self.outputs, of_input=True)
        cast = self._cast("cast backward", self.outputs, "row")
        if self.frozen:
            return (*cast, *self._write_out(), gradient)
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

    def _write_out(self) -> Kernels:
        """Read the weights as they are kept, write them as they compute."""
        if self.stored is None:
            return ()
        traffic = self.inputs * self.outputs * (self.stored + self.element)
        return (Stream(f"{self.name} weights written out", traffic),)

    def _cast(self, name: str, width: Count, gathered: Split, *, normed: bool = False, turned: bool = True) -> Kernels:
        """Read a tensor, write it narrow by rows and by columns: products want it both ways.

        Where it is ``gathered``, each rank casts its part by rows, and all of it is turned once it is there. A tensor that a
        norm cast is only turned; one that makes no gradient of weights need not be. With scales by rows all of it is cast by
        every rank, for each product anew: a row fits on the chip, but the largest of a column is sought in a pass of its own
        (derived from torchao/float8/float8_linear.py, `axiswise_dim`).
        """
        if self.operand is None or (normed and not turned):
            return ()
        if self.row_scales:
            each = (1 + turned) * (self.element + self.operand) + turned * self.element
            return (Stream(f"{self.name} {name}", self.rows * width * each),)
        parts = self.gathered if self.split == gathered else 1
        casting = 0.0 if normed else (self.element + self.operand) / parts
        turning = turned * np.where((np.asarray(parts) > 1) | normed, 2, 1) * self.operand
        return (Stream(f"{self.name} {name}", self.rows * width * (casting + turning)),)


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


Op = (
    Linear
    | Attention
    | Norm
    | Elementwise
    | Embedding
    | Experts
    | Loss
    | Conv2d
    | Lstm
    | Opaque
    | Scan
    | Tables
    | Pairs
)


def is_frozen(op: Op) -> bool:
    """Whether its weights are not trained."""
    return isinstance(op, Linear | Norm | Embedding | Experts | Scan) and op.frozen
