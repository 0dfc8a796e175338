"""Words that all operations share."""

from __future__ import annotations

from typing import Literal

from perfmodel.graph.kernels import Kernel

Kernels = tuple[Kernel, ...]
Split = Literal["none", "column", "row", "heads", "vocabulary", "tensor", "sequence"]
"""What tensor parallelism divides. *Tensor* regions lie between a column- and a row-split product;
*sequence* regions (norm, dropout, residual) are replicated, or split along the sequence."""
