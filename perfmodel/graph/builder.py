"""The parts of a transformer's layers, its embedding and its heads, as operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.graph.heads import vocabulary
from perfmodel.graph.latent import latent_projections
from perfmodel.graph.mixture import mixture
from perfmodel.graph.ops import Attention, Elementwise, Embedding, Linear, Norm, Op
from perfmodel.graph.statespace import state_space
from perfmodel.specs.common import ELEMENT_BYTES

if TYPE_CHECKING:
    from perfmodel.graph.split import Split
    from perfmodel.specs.statespace import Part
    from perfmodel.specs.strategy import Grain, LossKernels
    from perfmodel.specs.workload import Transformer
    from perfmodel.units import Bytes, Count

Ops = tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Builder:
    """What all parts of one model share."""

    model: Transformer
    batch: Count
    sequence: int
    element: Bytes
    operand: Bytes | None
    fused: bool
    elementwise: Grain
    sample: int | None = None
    """Tokens of one sample, where a sequence is packed of several."""
    heads_copied: bool = False
    """Heads of keys and values are copied to the heads of queries that share them."""
    row_scales: bool = False
    """Narrow operands have a scale for each row."""
    loss: LossKernels = "softmax"
    """Whose kernels compute softmax and cross-entropy of a vocabulary."""

    @property
    def merged(self) -> bool:
        """Neighbouring kernels are one."""
        return self.elementwise == "merged"

    @property
    def composed(self) -> bool:
        """Norms, rotary positions and gated activations are written out in operations."""
        return self.elementwise == "composed"

    @property
    def tokens(self) -> Count:
        """Of one microbatch."""
        return self.batch * self.sequence

    def linear(
        self, name: str, inputs: int, outputs: int, split: Split, rows: Count | None = None, **kw: bool
    ) -> Linear:
        """A product with weights."""
        rows = self.tokens if rows is None else rows
        bias = kw.pop("bias", self.model.bias)
        # the layers of the body alone run narrow; frameworks keep embedding and head wide
        operand = self.operand if split in {"column", "row", "sequence"} and name != "logits" else None
        return Linear(
            name, rows, inputs, outputs, self.element,
            bias=bias, split=split, operand=operand, row_scales=self.row_scales, **kw,
        )  # fmt: skip

    @property
    def casts_norms(self) -> bool:
        """Norms cast for the product after them: to fp8, in one kernel (Transformer Engine, module/layernorm_linear.py)."""
        return self.merged and self.operand == ELEMENT_BYTES["fp8"] and not self.row_scales

    def norm(
        self,
        name: str,
        rows: Count | None = None,
        width: int | None = None,
        split: Split = "sequence",
        *,
        casts: bool = False,
    ) -> Norm:
        """Of whole tokens, or of parts that are `width` wide; before a product that takes nothing else."""
        affine = 2 if self.model.norm == "layernorm" else 1
        rows, width = self.tokens if rows is None else rows, width or self.model.hidden
        composed = self.composed and self.model.norm == "rmsnorm"
        return Norm(
            name, rows, width, self.element, affine, split=split, single=not self.merged, composed=composed,
            written=self.operand if casts and self.casts_norms else None,
        )  # fmt: skip

    def residual(self, name: str) -> Ops:
        """Dropout and sum, in one kernel where they are merged; backward also the sum of the two gradients."""
        elements, dropout = self.tokens * self.model.hidden, self.model.dropout
        if not dropout:
            return (Elementwise(name, elements, self.element, reads=2, backward_traffic=3),)
        if self.merged:
            return (Elementwise(name, elements, self.element, reads=2, mask=1, backward_traffic=5),)
        return (
            Elementwise(f"{name} dropout", elements, self.element, mask=1, backward_traffic=2),
            Elementwise(name, elements, self.element, reads=2, backward_traffic=3),
        )

    def graph_operations(self, scores: Count) -> Ops:
        """What a layer moves beyond the kernels of an eager framework, where each operation of its code is a kernel.

        Counted from google-research/bert, modeling.py, and its gradients (derived). Each norm: mean, squared difference,
        mean, then scale and shift on whole maps, 13 passes more forward and 19 backward; the gelu by tanh: power, three
        products, two sums, tanh, two products, 16 and 24; both in fp32, as automatic mixed precision leaves means and
        powers. Each dropout: random numbers, comparison, cast, two products, 5 and 3. Softmax backward: 6. Five biases.
        """
        if self.elementwise != "primitive":
            return ()
        x = self.tokens * self.model.hidden

        def moves(name: str, elements: Count, forward: int, backward: int, element: Bytes) -> Op:
            return Elementwise(name, elements, element, reads=forward - 1, backward_traffic=backward, split="tensor")

        wide = max(self.element, ELEMENT_BYTES["fp32"])
        return (
            moves("norm operations", 2 * x, 13, 19, wide),
            moves("gelu operations", self.tokens * self.model.ffn, 16, 24, wide),
            moves("dropout operations", 2 * x + scores, 5, 3, self.element),
            moves("softmax operations", scores, 0, 6, self.element),
            moves("bias operations", 5 * x, 2, 0, self.element),
        )

    def attention(self, *, causal: bool, keys: int | None = None, window: int | None = None) -> Ops:
        """Norm, projections, core, output projection, residual; ``keys`` of an encoder make it cross-attention."""
        m = self.model
        prefix = "cross-attention" if keys else "attention"
        values = m.latent.value if m.latent else m.head
        shared = m.heads / m.kv if self.heads_copied else 1
        core = Attention(
            f"{prefix} core", self.batch, self.sequence, keys or self.sequence, m.heads, m.kv * shared, m.head,
            self.element, causal, self.fused, m.dropout, self.merged,
            value_dim=values if values != m.head else None, window=window, sample=self.sample, shared_by=shared,
        )  # fmt: skip
        return (
            self.norm(f"{prefix} norm", casts=not (keys or m.latent)),
            *(latent_projections(self, m.latent) if m.latent else self.projections(prefix, keys)),
            *self.copies(shared, keys),
            core,
            self.linear(f"{prefix} output", m.heads * values, m.hidden, "row", input_kept=self.fused),
            *self.residual(f"{prefix} residual"),
        )

    def projections(self, prefix: str, keys: int | None) -> Ops:
        """Queries, keys and values, norms of their heads and rotary positions."""
        m = self.model
        width, kv_width = m.heads * m.head, m.kv * m.head
        if keys:
            products: Ops = (
                self.linear(f"{prefix} query", m.hidden, width, "column"),
                self.linear(f"{prefix} key value", m.hidden, 2 * kv_width, "column", rows=self.batch * keys),
            )
        else:
            products = (
                self.linear(f"{prefix} qkv", m.hidden, width + 2 * kv_width, "column", normed=self.casts_norms),
            )
        norms: Ops = ()
        if m.head_norm:
            norms = tuple(
                self.norm(f"{name} norm", self.tokens * heads, m.head, split="heads")
                for name, heads in (("query", m.heads), ("key", m.kv))
            )
        rotary: Ops = ()
        if m.positions == "rotary":
            # written out: to fp32, complex product, back: 20 bytes an element (torchtitan, apply_rotary_emb)
            passes = 10 if self.composed else 2
            elements = self.tokens * (width + kv_width)
            rotary = (
                Elementwise(
                    "rotary", elements, self.element, reads=passes - 1, backward_traffic=passes, split="tensor"
                ),
            )
        return (*products, *norms, *rotary)

    def copies(self, shared: float, keys: int | None) -> Ops:
        """Keys and values of each head for all queries that share it; backward their gradients are summed."""
        if shared == 1:
            return ()
        elements = 2 * self.batch * (keys or self.sequence) * self.model.heads * self.model.head
        one = 1 / shared
        return (
            Elementwise("heads copied", elements, self.element, reads=one, backward_traffic=1 + one, split="tensor"),
        )

    def mlp(self) -> Ops:
        """Norm, up, activation, down, residual."""
        return (
            self.norm("mlp norm", casts=True),
            *self.perceptron("mlp", self.model.ffn, normed=self.casts_norms),
            *self.residual("mlp residual"),
            *self.graph_operations(self.batch * self.model.heads * self.sequence**2),
        )

    def perceptron(self, name: str, width: int, *, input_kept: bool = False, normed: bool = False) -> Ops:
        """Up, activation, down; another operation may keep the input."""
        m = self.model
        gated = m.activation == "swiglu"
        # written out: the activation, then the product with the gate
        apart = gated and self.composed
        activation = Elementwise(
            m.activation, self.tokens * width, self.element,
            reads=1 + gated + 2 * apart, kept=1 + gated, backward_traffic=3 + 2 * gated + 4 * apart, split="tensor",
        )  # fmt: skip
        return (
            self.linear(f"{name} up", m.hidden, (1 + gated) * width, "column", input_kept=input_kept, normed=normed),
            *self.bias(f"{name} up bias", (1 + gated) * width),
            activation,
            self.linear(f"{name} down", width, m.hidden, "row"),
        )

    def layer(self, parts: tuple[Part, ...]) -> Ops:
        """One layer: attention, then a multilayer perceptron or a mixture of experts; or one part of a hybrid model."""
        return tuple(op for part in parts for op in self.part(part))

    def part(self, part: Part) -> Ops:
        """What stands between a norm and a residual, with both."""
        m = self.model
        if part == "mixture" and m.experts:
            return mixture(self, m.experts)
        if part == "state space" and m.state_space:
            return state_space(self, m.state_space)
        if part == "perceptron":
            return self.mlp()
        return self.attention(causal=m.causal, window=m.window if part == "windowed attention" else None)

    def bias(self, name: str, width: int) -> Ops:
        """The sum with a bias that goes into an activation, where no kernel does both; its gradient belongs to the product."""
        if self.merged or not self.model.bias:
            return ()
        return (
            Elementwise(name, self.tokens * width, self.element, backward_traffic=0, split="tensor", broadcast=True),
        )

    def lookup(self) -> Ops:
        """Token embedding, or patches projected to tokens, with positions."""
        m = self.model
        first: Ops
        if m.patches:
            p = m.patches
            pixels = p.channels * p.patch**2
            rows = self.batch * (p.image // p.patch) ** 2
            first = (
                self.linear("patch embedding", pixels, m.hidden, "none", rows=rows, bias=True, first=True),
                Embedding("class token", self.batch, m.hidden, 1, self.element, split="none"),
            )
        else:
            first = (Embedding("token embedding", self.tokens, m.hidden, vocabulary(m), self.element),)
        added: Ops = ()
        if m.positions == "learned":
            rows = m.max_positions or self.sequence
            added = (Embedding("position embedding", self.sequence, m.hidden, rows, self.element, split="none"),)
        if m.token_types:
            added += (Embedding("segment embedding", self.tokens, m.hidden, m.token_types, self.element, split="none"),)
        if not added:
            return first
        return (*first, *added, *self.residual("embedding sum"))

    def relative(self) -> Ops:
        """One table of relative position biases for each stack (T5)."""
        m = self.model
        if m.positions != "relative":
            return ()
        pairs = self.sequence**2
        return (Embedding("relative positions", pairs, m.heads, m.max_positions or 32, self.element, split="none"),)
