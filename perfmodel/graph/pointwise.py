"""Operations that stream a map: norms, and what is computed element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.graph.kernels import Pace, Stream
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from perfmodel.graph.split import Kernels, Split


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
