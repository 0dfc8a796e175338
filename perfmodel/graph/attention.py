"""The core of attention, fused or through memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.graph.kernels import FlashAttention, Gemm, Pace, Repeated, Stream
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from perfmodel.graph.split import Kernels, Split


TOGETHER = 4
"""Score matrices of one block in Megatron-LM's kernel of scale, mask and softmax, which needs a multiple of them
(megatron/model/fused_softmax.py, is_kernel_available)."""
WIDENED = {"forward": (6, 8, 8, 4, 6), "backward": (6, 6, 8, 8, 6)}
"""Bytes that a 16-bit score adds where that kernel does not apply: to fp32, mask, scale, a softmax twice as wide, back; backward alike."""
ALIGNMENT = 16
"""Bytes to which the rows of a batched product must be aligned for the matrix units of GPUs.

NVIDIA, Matrix multiplication background user's guide, DU-09798-001, section 3: 8 elements in fp16, 4 in tf32.
"""


@dataclass(frozen=True, slots=True)
class Attention:
    """The core of attention: scores, softmax, dropout, weighted sum of the values."""

    name: str
    batch: Count
    queries: Count
    keys: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    element: Bytes
    causal: bool
    fused: bool
    dropout: bool
    merged: bool = True
    """Scale, mask and softmax are one kernel; else the scores cross memory for each of them."""
    split: Split = "heads"
    saved_over: Count = 1
    """Ranks that share the saved keys and values."""
    value_dim: Count | None = None
    """Of the values, where it differs from `head_dim` of queries and keys (multi-head latent attention)."""
    window: Count | None = None
    """Keys that a query sees at most (sliding window)."""
    sample: Count | None = None
    """Keys of the sample that a query belongs to, where a sequence is packed of several; None: all."""
    shared_by: Count = 1
    """Heads of queries to which each head of keys and values was copied before; 1 where the kernel reads them as they are."""
    blocks: Count = 1
    """Equal parts of the keys that a fused kernel takes one after another, each result merged with those before."""

    @property
    def parameters(self) -> Count:
        """None: the projections are `Linear`."""
        return 0

    @property
    def scores(self) -> Count:
        """Elements of the score matrices."""
        return self.batch * self.heads * self.queries * self.keys

    @property
    def pairs(self) -> Count:
        """Scores within the window, whether or not a later token is masked."""
        window = self.keys if self.window is None else np.minimum(self.window, self.keys)
        return self.batch * self.heads * self.queries * window

    @property
    def seen_pairs(self) -> Count:
        """Scores that are no later token's either."""
        return self.batch * self.heads * self.queries * self._seen

    @property
    def pair_width(self) -> Count:
        """Inner dimensions of the two products that a score takes part in forward."""
        return self.head_dim + self._value_dim

    @property
    def inputs(self) -> Bytes:
        """Queries, keys and values, as they are kept."""
        return self._query * self.element + self._key_value * self.element / self.saved_over

    @property
    def copies(self) -> Bytes:
        """What its inputs take more than the heads that were copied."""
        return self._key_value * self.element / self.saved_over * (1 - 1 / self.shared_by)

    @property
    def saved(self) -> Bytes:
        """Queries, keys, values and either the scores or the output with its normaliser."""
        if self.fused:
            return self.inputs + self._output * self.element + 4 * self.batch * self.heads * self.queries
        return self.inputs + self.scores * (self.element * (1 + self.dropout) + self.dropout)

    @property
    def recomputable(self) -> Bytes:
        """What selective recomputation drops: everything between the scores and the output."""
        return 0 if self.fused else self.scores * (self.element * (1 + self.dropout) + self.dropout)

    def forward(self) -> Kernels:
        """Fused in one kernel, or through memory; unfused, the heads of the output are put side by side again."""
        if self.fused:
            return self._fused(self.name, self.head_dim + self._value_dim, tensors=1)
        softmax = self._rows("softmax", 2)
        scale = () if self.merged else self._scale_and_mask()
        dropout = (Stream("attention dropout", (2 * self.element + 1) * self.scores),) if self.dropout else ()
        scores = self._gemm("attention scores", self.queries, self.keys, self.head_dim)
        context = self._gemm("attention context", self.queries, self._value_dim, self.keys)
        layout = self._output if self.merged else self._query + self._output + self._key_value
        return (
            scores,
            *scale,
            softmax,
            *self._widened("forward"),
            *dropout,
            context,
            self._copy("attention layout", layout),
        )

    def backward(self) -> Kernels:
        """Four products, and softmax and dropout backwards; fused kernels recompute the scores.

        Unfused, the gradients of queries and keys are scaled, and those of all three joined to one.
        """
        q, k, d, v = self.queries, self.keys, self.head_dim, self._value_dim
        if self.fused:
            return self._fused(f"{self.name} backward", 3 * d + 2 * v, tensors=2, backward=True)
        dropout = (Stream("attention dropout backward", (2 * self.element + 1) * self.scores),) if self.dropout else ()
        scale = () if self.merged else (Stream("attention scale backward", 2 * self.element * self.scores),)
        return (
            self._gemm("attention context gradient", q, k, v),
            self._gemm("attention value gradient", k, v, q),
            *dropout,
            self._rows("softmax backward", 3),
            *self._widened("backward"),
            *scale,
            self._gemm("attention query gradient", q, d, k),
            self._gemm("attention key gradient", k, d, q),
            *self._joined(),
        )

    def _scale_and_mask(self) -> Kernels:
        """The mask is one for all heads and queries: its kernel computes the address of each element."""
        size = 2 * self.element * self.scores
        mask = Stream("attention mask", size, pace="strided", elements=self.scores)
        return (Stream("attention scale", size), mask)

    def _widened(self, way: str) -> Kernels:
        """Separate passes in fp32, where the number of score matrices rules out one kernel for scale, mask and softmax."""
        apart = np.where(np.asarray(self.batch * self.heads) % TOGETHER > 0, 1, 0)
        if not self.merged or self.element != 2 or not np.any(apart):
            return ()
        streams = (Stream(f"attention scores {way} in fp32", size * self.scores) for size in WIDENED[way])
        return tuple(Repeated(stream, apart) for stream in streams)

    def _joined(self) -> Kernels:
        """The gradients of queries, keys and values, laid out by token again and summed for the input."""
        outer, key_value = self._query + self._output, self._key_value
        if self.merged:
            return (Stream("attention layout backward", 2 * self.element * (outer + 1.5 * key_value)),)
        copy = self._copy("attention layout backward", outer + key_value)
        return (copy, Stream("attention input sum", 3 * self.element * key_value))

    def _rows(self, name: str, passes: int) -> Stream:
        """Softmax; the kernels of Megatron-LM load several elements at once, those of PyTorch one by one."""
        pace: Pace | None = None if self.merged else "rows"
        return Stream(name, passes * self.element * self.scores, True, pace, self.scores)  # noqa: FBT003 - reduces

    def _copy(self, name: str, elements: Count) -> Stream:
        """Heads first or tokens first; frameworks that merge kernels avoid all such copies but one, which is fast."""
        return Stream(name, 2 * self.element * elements, pace=None if self.merged else "strided", elements=elements)

    @property
    def _value_dim(self) -> Count:
        return self.head_dim if self.value_dim is None else self.value_dim

    @property
    def _query(self) -> Count:
        return self.batch * self.queries * self.heads * self.head_dim

    @property
    def _output(self) -> Count:
        return self.batch * self.queries * self.heads * self._value_dim

    @property
    def _key_value(self) -> Count:
        return self.batch * self.keys * self.kv_heads * (self.head_dim + self._value_dim)

    @property
    def _seen(self) -> Count:
        """Keys that a query sees on average: of a causal triangle half, of a window in it all but the corner.

        Samples of a packed sequence are such triangles of their own, whose other pairs fused kernels skip: the work is that of
        the squares of their lengths (NVIDIA, NeMo Framework user guide, sequence packing).
        """
        keys = self.keys if self.sample is None else np.minimum(self.sample, self.keys)
        window = keys if self.window is None else np.minimum(self.window, keys)
        return window * (1 - window / (2 * keys)) if self.causal else window

    def _gemm(self, name: str, rows: Count, columns: Count, depth: Count) -> Gemm:
        # rows of queries, keys and values are as long as a head, those of the scores as long as the keys
        aligned = bool(np.all(self.element * np.array([self.head_dim, self.keys]) % ALIGNMENT == 0))
        return Gemm(name, rows, columns, depth, self.element, count=self.batch * self.heads, aligned=aligned)

    def _fused(self, name: str, width: Count, tensors: int, *, backward: bool = False) -> Kernels:
        query, key = self._query + self._output, self._key_value / self.blocks
        traffic = tensors * self.element * (query + key)
        seen = self._seen / self.blocks
        block = FlashAttention(name, self.batch * self.heads, self.queries, seen, width, traffic, backward)
        if np.all(np.asarray(self.blocks) == 1):
            return (block,)
        return (Repeated(block, self.blocks), *self._merged_blocks(backward=backward))

    def _merged_blocks(self, *, backward: bool) -> Kernels:
        """Sums over blocks, kept in fp32: forward of outputs, backward of the gradients of queries, keys and values."""
        elements = self._query + self._key_value / self.blocks if backward else self._output
        merge = Stream("attention merge backward" if backward else "attention merge", (2 * 4 + self.element) * elements)
        return (Repeated(merge, self.blocks - 1),)
