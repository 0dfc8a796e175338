"""State-space layers: the chunked scan of Mamba-2, and the layer around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.graph.kernels import Chunked, Repeated, Stream
from perfmodel.specs.common import ELEMENT_BYTES
from perfmodel.units import Bytes, Count, Flop

if TYPE_CHECKING:
    from perfmodel.graph.builder import Builder
    from perfmodel.graph.ops import Op
    from perfmodel.graph.split import Kernels, Split
    from perfmodel.specs.statespace import StateSpace

WIDE = ELEMENT_BYTES["fp32"]
BLOCK = 128
"""Rows and columns of the pairs of a chunk that kernels take at a time; they skip blocks of later tokens alone (mamba_ssm,
ssd_chunk_scan.py)."""
COUNTED = 7
"""FLOP for each channel, number of its state and token that Megatron-LM counts for a scan (training.py, mamba_layer_flops)."""


@dataclass(frozen=True, slots=True)
class Scan:
    r"""Convolution, chunked scan with gate, and grouped norm of a Mamba-2 layer, as Megatron-Core calls mamba_ssm's kernels.

    .. math:: h_t = a_t h_{t-1} + \Delta_t B_t x_t^T, \quad y_t = (C_t h_t + D x_t) \, \sigma(z_t)

    Within a chunk of c tokens as products, c x c pairs that decay with their distance; between chunks through the states.

    References:
        Dao and Gu, Transformers are SSMs, 2024, section 6, https://arxiv.org/abs/2405.21060. Kernels, what each reads and writes,
        and what the backward pass makes again: state-spaces/mamba at e9594ce, mamba_ssm/ops/triton/ssd_combined.py,
        MambaSplitConv1dScanCombinedFn; NVIDIA/Megatron-LM at d98e8a6, megatron/core/ssm/mamba_mixer.py.
    """

    name: str
    batch: Count
    sequence: Count
    heads: Count
    groups: Count
    head_dim: Count
    state: Count
    chunk: Count
    kernel: Count
    element: Bytes
    split: Split = "heads"
    frozen: bool = False
    """Its parameters are not trained."""

    @property
    def parameters(self) -> Count:
        """Filters and biases of the convolution; decay, step and skip of each head; the norm's scale."""
        return self._convolved * (self.kernel + 1) + 3 * self.heads + self.outputs

    @property
    def inputs(self) -> Count:
        """Numbers of a token that come in: gate z, values x, what writes B, what reads C, and the step of each head."""
        return self.outputs + self._convolved + self.heads

    @property
    def outputs(self) -> Count:
        """Numbers of a token that leave: the width of all heads."""
        return self.heads * self.head_dim

    @property
    def tokens(self) -> Count:
        """Of a microbatch."""
        return self.batch * self.sequence

    @property
    def saved(self) -> Bytes:
        """What comes in, the scan before and after the gate, and the norm's root for each group; all else is made again."""
        return self.tokens * ((self.inputs + 2 * self.outputs) * self.element + WIDE * self.groups)

    @property
    def within(self) -> Bytes:
        """What exists beside that in the backward pass: gradients, what was convolved, and states, once wide and twice narrow."""
        numbers = self.inputs + self.outputs + 2 * self._convolved
        return self.tokens * numbers * self.element + self._states * (WIDE + 2 * self.element)

    @property
    def counted(self) -> Flop:
        """What conventions count, as a recurrence."""
        return COUNTED * self.tokens * self.outputs * self.state

    def forward(self) -> Kernels:
        """What leads to the scan; the scan, which writes its result before and after the gate; the norm."""
        x, c, h = self._values, self._reads, self.element * self._states
        return (
            *self._turned("layout"),
            *self._chunks(),
            self._kernel("scan", 4 * x + c + h + self._pairs, self._by_state + self._by_pairs),
            self._kernel("norm", 2 * x),
        )

    def backward(self) -> Kernels:
        """The norm's and the gate's; what led to the scan once more; gradients of states, of what went in, and of the decays."""
        x, b, c, h = self._values, self._reads, self._reads, self.element * self._states
        # gradients of what heads of a group share are added up in fp32
        added = self.tokens * self.groups * self.state * WIDE
        return (
            self._kernel("norm backward", 3 * x),
            self._kernel("gate backward", 5 * x),
            *self._chunks(),
            self._kernel("states gradient", x + c + h, self._by_state),
            self._kernel("passing backward", 4 * h),
            self._kernel("values gradient", 3 * x + b + h + self._pairs, self._by_state + self._by_pairs),
            self._kernel("writing gradient", x + b + h + added, self._by_state),
            self._kernel("reading gradient", x + c + h + added, self._by_state),
            self._kernel("pairs gradient", 2 * x + self._pairs, self._by_pairs),
            self._kernel("groups gradient", 2 * self._pairs + 2 * (b + added), 2 * self._of_pairs),
            self._kernel("decays gradient", 2 * x + self._pairs, self._by_pairs),
            self._kernel("decays backward", 6 * self._steps),
            self._kernel("convolution backward", 3 * self.tokens * self._convolved * self.element),
            *self._turned("layout backward"),
        )

    def _chunks(self) -> Kernels:
        """What leads to the scan: states of chunks that are handed on, and pairs of tokens within them."""
        x, b, c = self._values, self._reads, self._reads
        return (
            self._kernel("convolution", 2 * self.tokens * self._convolved * self.element),
            self._kernel("decays", (2 + self.element / WIDE) * self._steps),
            self._kernel("states", x + b + WIDE * self._states, self._by_state),
            self._kernel("passing", (WIDE + self.element) * self._states),
            self._kernel("pairs", b + c + self._pairs, self._of_pairs),
        )

    def _turned(self, what: str) -> Kernels:
        """Sequence first to sample first and back, a copy where there are several samples."""
        several = np.where(np.asarray(self.batch) > 1, 1, 0)
        if not np.any(several):
            return ()
        elements = self.tokens * (self.inputs + self.outputs)
        copy = Stream(f"{self.name} {what}", 2 * self.element * elements, pace="strided", elements=elements)
        return (Repeated(copy, several),)

    def _kernel(self, what: str, traffic: Bytes, flops: Flop = 0.0) -> Chunked:
        return Chunked(f"{self.name} {what}", flops, traffic)

    @property
    def _convolved(self) -> Count:
        """Numbers of a token that go through the convolution."""
        return self.outputs + 2 * self.groups * self.state

    @property
    def _values(self) -> Bytes:
        return self.tokens * self.outputs * self.element

    @property
    def _reads(self) -> Bytes:
        """What reads from the states, or as much that writes into them."""
        return self.tokens * self.groups * self.state * self.element

    @property
    def _steps(self) -> Bytes:
        return self.tokens * self.heads * WIDE

    @property
    def _pairs(self) -> Bytes:
        """Products of what reads and what writes, of all pairs in a chunk."""
        return self.tokens * self.groups * self.chunk * WIDE

    @property
    def _states(self) -> Count:
        """Numbers of the states at the ends of all chunks."""
        return self.batch * np.ceil(self.sequence / np.asarray(self.chunk)) * self.outputs * self.state

    @property
    def _by_state(self) -> Flop:
        """Of values with the states of their chunks."""
        return 2 * self.tokens * self.outputs * self.state

    @property
    def _by_pairs(self) -> Flop:
        """Of values with the pairs of their chunks, without blocks of later tokens alone."""
        return self.tokens * self.outputs * (self.chunk + np.minimum(self.chunk, BLOCK))

    @property
    def _of_pairs(self) -> Flop:
        """Of the pairs themselves, which a group of heads shares."""
        return 2 * self.tokens * self.groups * self.state * self.chunk


def state_space(build: Builder, shape: StateSpace) -> tuple[Op, ...]:
    """Norm, projection, convolution with scan and norm, projection, residual."""
    hidden = build.model.hidden
    scan = Scan(
        "state space", build.batch, build.sequence, shape.heads, shape.groups, shape.head_dim, shape.state, shape.chunk,
        shape.kernel, build.element,
    )  # fmt: skip
    return (
        build.norm("state space norm"),
        build.linear("state space in", hidden, int(scan.inputs), "column"),
        scan,
        build.linear("state space out", int(scan.outputs), hidden, "row"),
        *build.residual("state space residual"),
    )
