"""How many tensors the weights of an operation are, as a framework's optimiser sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.ops import Conv2d, Embedding, Experts, Linear, Lstm, Norm, Opaque, Scan

if TYPE_CHECKING:
    from perfmodel.graph.ops import Op
    from perfmodel.units import Count

LSTM_TENSORS = 4
"""Of a layer: weights of inputs and of hidden states, and a bias with each, as PyTorch and cuDNN keep them."""
SCAN_TENSORS = 6
"""Filters and bias of the convolution, bias of the step, decay, skip, scale of the norm (state-spaces/mamba, modules/mamba2.py)."""


def weight_tensors(op: Op) -> Count:
    """Weights and bias of a product or convolution, scale and shift of a norm, one of a table; experts one by one.

    >>> weight_tensors(Linear("q", rows=8, inputs=4, outputs=4, element=2, bias=True))
    2
    """
    match op:
        case Linear(shared=True):
            return 0
        case Linear() | Conv2d():
            return 1 + op.bias
        case Norm():
            return op.affine
        case Lstm():
            return LSTM_TENSORS
        case Scan():
            return SCAN_TENSORS
        case Experts():
            return op.experts * (2 + op.gated) * (1 + op.bias)
        case Embedding():
            return 1
        case Opaque():
            return int(op.parameters > 0)
        case _:
            return 0
