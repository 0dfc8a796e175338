"""Softmax and cross-entropy, by the kernels of a framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.graph.kernels import Pace, Stream
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from perfmodel.graph.split import Kernels, Split
    from perfmodel.specs.strategy import LossKernels


@dataclass(frozen=True, slots=True)
class Loss:
    """Softmax over the classes and cross-entropy, in fp32."""

    name: str
    rows: Count
    vocabulary: Count
    element: Bytes
    split: Split = "vocabulary"
    kernels: LossKernels = "softmax"
    """Whose: PyTorch's softmax, a step of it each, or one that reads the logits as they are, and may write their gradient over them."""

    @property
    def parameters(self) -> Count:
        """None."""
        return 0

    @property
    def saved(self) -> Bytes:
        """The logits, in fp32 unless one kernel reads them as they are."""
        return (4 if self.kernels in {"softmax", "separate"} else self.element) * self._logits

    def copies(self, habit: Count) -> Count:
        """Of the logits in fp32 that exist beside them: by the framework's habit; of one kernel only the gradient, as wide as they are."""
        match self.kernels:
            case "fused":
                return self.element / 4
            case "in-place":
                return 0.0
            case _:
                return habit

    def forward(self) -> Kernels:
        """Passes through the logits.

        softmax: takes as long as steps that stream would, 56 bytes of a logit in fp32 with the backward pass (52 in 16 bits), though
        PyTorch's kernels move 36 (SoftMax.cu); derived from Gavel's language model on P100 and V100 (14 calibration rows within 5 %, median; 36 are 11 % off).
        separate: cast, maximum, difference, exponential, sum, quotient (Megatron-LM, core/tensor_parallel/cross_entropy.py). The
        kernel of the maximum also tracks where it is, and those with an operand of each row compute addresses: one element at a time.
        fused: read for maximum and sum (FlashAttention 1.0.9, csrc/xentropy). in-place: read for both, then again and written as
        the gradient (Transformer Engine 2.11, common/triton/cross_entropy.py). With its backward pass the latter was timed to
        take 3.3 ps a logit on B200, and 18.6 of separate steps (SimuMax, configs/system/b200_bf16_ceperm.json); taken to go at the pace of
        rows, which makes 3.4 and 14 (derived).
        """
        match self.kernels:
            case "softmax":
                return (Stream(self.name, (self.element + 36) * self._logits, reduces=True),)
            case "separate":
                return (
                    Stream(self.name, (self._cast + 8 + 4) * self._logits, reduces=True),
                    self._stream(f"{self.name} maximum", 4, "rows"),
                    self._stream(f"{self.name} difference", 8, "strided"),
                    self._stream(f"{self.name} quotient", 8, "strided"),
                )
            case "fused":
                return (self._stream(self.name, 2 * self.element, "rows"),)
            case "in-place":
                return (self._stream(self.name, 3 * self.element, "rows"),)

    def backward(self) -> Kernels:
        """Passes through the gradient of the logits.

        softmax: as forward. separate: scaled row by row, cast. fused: made from the logits. in-place: scaled.
        """
        name = f"{self.name} backward"
        match self.kernels:
            case "softmax":
                return (Stream(name, (self.element + 12) * self._logits),)
            case "separate":
                scale = self._stream(f"{self.name} scale", 8, "strided")
                return (scale, self._stream(name, self._cast)) if self._cast else (scale,)
            case _:
                return (self._stream(name, 2 * self.element),)

    @property
    def _logits(self) -> Count:
        return self.rows * self.vocabulary

    @property
    def _cast(self) -> Bytes:
        """Read and written for each logit, where they are not in fp32."""
        return 0 if self.element == 4 else self.element + 4

    def _stream(self, name: str, each: Bytes, pace: Pace | None = None) -> Stream:
        return Stream(name, each * self._logits, pace=pace, elements=self._logits)
