"""The feed-forward layer of a mixture of experts, as grouped products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.graph.kernels import Gemm, Stream
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from perfmodel.graph.split import Kernels, Split


@dataclass(frozen=True, slots=True)
class Experts:
    """Experts of one device: each product is one launch over all of them, with tiles of their own."""

    name: str
    tokens: Count
    """Pairs of a token and an expert that this device computes."""
    hidden: Count
    inner: Count
    experts: Count
    element: Bytes
    gated: bool = True
    """Two products go up, one of them through the activation."""
    operand: Bytes | None = None
    """Operands are cast to this size for the products; None computes as they are stored."""
    split: Split = "none"

    @property
    def parameters(self) -> Count:
        """Weights of all experts, without biases."""
        return self.experts * self.hidden * self.inner * (2 + self.gated)

    @property
    def saved(self) -> Bytes:
        """Inputs of the products and of the activation."""
        return self.tokens * (self.hidden + (2 + self.gated) * self.inner) * self.element

    def forward(self) -> Kernels:
        """Tokens sorted by expert, up, activation, down, tokens back in their places."""
        up = (1 + self.gated) * self.inner
        return (
            Stream(f"{self.name} sort", 2 * self.tokens * self.hidden * self.element),
            self._grouped("up", self._rows, up, self.hidden),
            Stream(f"{self.name} activation", (up + self.inner) * self.tokens * self.element),
            self._grouped("down", self._rows, self.hidden, self.inner),
            Stream(f"{self.name} unsort", 2 * self.tokens * self.hidden * self.element),
        )

    def backward(self) -> Kernels:
        """Gradients of inputs and weights of both products, and of the activation."""
        up = (1 + self.gated) * self.inner
        return (
            Stream(f"{self.name} unsort backward", 2 * self.tokens * self.hidden * self.element),
            self._grouped("down input gradient", self._rows, self.inner, self.hidden),
            self._grouped("down weight gradient", self.inner, self.hidden, self._rows, of_weight=True),
            Stream(f"{self.name} activation backward", (2 * up + self.inner) * self.tokens * self.element),
            self._grouped("up input gradient", self._rows, self.hidden, up),
            self._grouped("up weight gradient", self.hidden, up, self._rows, of_weight=True),
            Stream(f"{self.name} sort backward", 2 * self.tokens * self.hidden * self.element),
        )

    @property
    def _busy(self) -> Count:
        """Experts that have a token at all, where tokens are spread evenly."""
        return np.minimum(self.experts, self.tokens)

    @property
    def _rows(self) -> Count:
        return self.tokens / self._busy

    def _grouped(self, name: str, rows: Count, columns: Count, depth: Count, *, of_weight: bool = False) -> Gemm:
        return Gemm(
            f"{self.name} {name}", rows, columns, depth, self.element,
            count=self._busy, operand=self.operand, is_weight_gradient=of_weight,
        )  # fmt: skip
