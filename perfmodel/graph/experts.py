"""The feed-forward layer of a mixture of experts, as grouped products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.graph.kernels import Gemm, Repeated, Stream
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from perfmodel.graph.split import Kernels, Split
    from perfmodel.specs.strategy import Permutation


@dataclass(frozen=True, slots=True)
class Experts:
    """Experts of one device."""

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
    top_k: Count = 1
    """Experts that each token goes to."""
    bias: bool = False
    load: Count = 1.0
    """Tokens, or slots for them, of the busiest device over the mean."""
    own: Count = 1
    """Of the tokens that it computes, those that come from its own rank, which sorts them before they leave, and weights them."""
    again: Count = 0
    """Times that they are sorted once more, where they come from other devices to several experts."""
    imbalance: Count = 1.0
    """The load, where the experts are spread over devices."""
    groups: Count = 1
    """Of experts; a token goes to at most `top_groups` of them."""
    top_groups: Count = 1
    casts: bool = False
    """Casting to narrow operands is a pass of its own, as in training; serving engines keep weights and tokens narrow."""
    permutation: Permutation = "fused"
    """How tokens find their experts. `indexed`: general kernels gather, weigh in fp32 and scatter one element at a time; `one-hot`:
    products with masks that say which token of a sequence has which slot."""
    sequence: Count = 1
    """Tokens of a sequence, each of which has slots of its own."""
    capacity: Count | None = None
    """Slots of an expert over its mean share; None computes what comes."""
    frozen: bool = False
    """The weights are not trained."""
    apart: bool = False
    """Each expert has products of its own; else one launch computes those of all, with tiles that share waves."""
    squared: bool = False
    """The activation is a squared ReLU, which weights tokens in its own kernel though it has no gate."""

    @property
    def parameters(self) -> Count:
        """Weights of all experts, and their biases."""
        weights = self.hidden * self.inner * (2 + self.gated)
        biases = self.bias * (self.inner * (1 + self.gated) + self.hidden)
        return self.experts * (weights + biases)

    @property
    def active_parameters(self) -> Count:
        """Of the experts that one token goes to."""
        return self.parameters * self.top_k / self.experts

    @property
    def saved(self) -> Bytes:
        """Inputs of the products, where their weights are trained, and of the activation and the weighting of tokens.

        A gated activation, which has two inputs, weights tokens in the same kernel (Megatron-Core, transformer/moe/experts.py,
        `bias_act_func`), and so does a squared ReLU (core/fusions/fused_weighted_squared_relu.py); others do so by a product of
        their own, whose input is kept as well.
        """
        inputs = 0 if self.frozen else self.hidden + self.inner
        return self._computed * (inputs + (1 + self.gated + self.weighted_apart) * self.inner) * self.element

    @property
    def weighted_apart(self) -> bool:
        """A product of its own multiplies what the activation gives with the router's scores."""
        return not (self.gated or self.squared)

    def launches(self, *, backward: bool) -> Count:
        """Kernels beyond those below, where each expert has products of its own: gradients are two of each forward one."""
        products, casts = (4, 2) if backward else (2, 2)
        return (self.experts - 1) * (products + casts * (self.operand is not None))

    def forward(self) -> Kernels:
        """Tokens sorted by expert, up, activation, down, tokens back in their places."""
        up = (1 + self.gated) * self.inner
        return (
            *self._dispatch(),
            *self._cast("up cast", self.hidden),
            self._grouped("up", self._rows, up, self.hidden),
            self.activation(),
            *self._cast("down cast", self.inner),
            self._grouped("down", self._rows, self.hidden, self.inner),
            *self._combine(),
        )

    def activation(self) -> Stream:
        """Between the products."""
        width = (2 + self.gated) * self.inner
        return Stream(f"{self.name} activation", width * self._computed * self.element)

    def backward(self) -> Kernels:
        """Gradients of inputs and, where they are trained, of weights of both products, and of the activation."""
        up = (1 + self.gated) * self.inner
        kernels = (
            *self._combine_backward(),
            *self._cast("down gradient cast", self.hidden),
            self._grouped("down input gradient", self._rows, self.inner, self.hidden, of_input=True),
            self._grouped("down weight gradient", self.inner, self.hidden, self._rows, of_weight=True),
            Stream(f"{self.name} activation backward", (2 * up + self.inner) * self._computed * self.element),
            *self._cast("up gradient cast", up),
            self._grouped("up input gradient", self._rows, self.hidden, up, of_input=True),
            self._grouped("up weight gradient", self.hidden, up, self._rows, of_weight=True),
            *self._dispatch_backward(),
        )
        return tuple(k for k in kernels if not (self.frozen and isinstance(k, Gemm) and k.is_weight_gradient))

    @property
    def _busy(self) -> Count:
        """Experts that have a token at all, where tokens are spread evenly."""
        return np.minimum(self.experts, self._computed)

    @property
    def _computed(self) -> Count:
        return self.tokens * self.load

    @property
    def _rows(self) -> Count:
        return self._computed / self._busy

    def _cast(self, name: str, width: Count) -> Kernels:
        """As of `Linear`: read, written narrow by rows and by columns."""
        if self.operand is None or not self.casts:
            return ()
        return (Stream(f"{self.name} {name}", self._computed * width * (self.element + 2 * self.operand)),)

    def _dispatch(self) -> Kernels:
        """Tokens into the slots of their experts."""
        if self._masked:
            return (self._placed("dispatch", self._slots),)
        return (*self._routing("routing", 20, 10), self._sorting("sort"))

    def _combine(self) -> Kernels:
        """Results back in the places of their tokens, weighted."""
        if self._masked:
            return (self._placed("combine", self.sequence),)
        return (self._sorting("unsort"), *self._weighting("weighting", 20))

    def _combine_backward(self) -> Kernels:
        """Gradients of the results, and of the weights, which the mask of the combination holds."""
        if not self._masked:
            return (*self._weighting("weighting backward", 36), self._sorting("unsort backward"))
        weights = Gemm(
            f"{self.name} mask gradient", self.sequence, self._slots, self.hidden, self.element, count=self._sequences
        )
        return (self._placed("combine backward", self._slots), weights)

    def _dispatch_backward(self) -> Kernels:
        if self._masked:
            return (self._placed("dispatch backward", self.sequence),)
        return (self._sorting("sort backward"), *self._routing("routing backward", 15, 10))

    def _routing(self, name: str, kernels: int, for_capacity: int) -> Kernels:
        """Choice, softmax, maps, counts and balancing loss, each no longer than its launch, where one kernel does not do it all.

        Counted from Megatron-LM, core_v0.9.0, core/transformer/moe/moe_utils.py and router.py.
        """
        if self.permutation != "indexed":
            return ()
        several = kernels + (0 if self.capacity is None else for_capacity)
        return (Repeated(Stream(f"{self.name} {name}", 0.0), several, one_call=True),)

    @property
    def _masked(self) -> bool:
        return self.permutation == "one-hot"

    @property
    def _sequences(self) -> Count:
        return self.tokens / (self.top_k * self.sequence)

    @property
    def _slots(self) -> Count:
        """Of all experts, for the tokens of one sequence."""
        return self.sequence * self.top_k * self.load

    def _placed(self, name: str, rows: Count) -> Gemm:
        """The tokens of each sequence times a mask make its slots, or the slots its tokens.

        MaxText, layers/moe.py, dense_matmul: BSM,BSEC->EBCM and EBCM,BSEC->BSM; Lepikhin et al., GShard, 2020 (arXiv:2006.16668).
        """
        depth = self.sequence + self._slots - rows
        return Gemm(f"{self.name} {name}", rows, self.hidden, depth, self.element, count=self._sequences)

    def _sorting(self, name: str) -> Stream:
        """Rows read and written; a general kernel takes one element at a time, where tokens leave their order or come back to it."""
        elements = self._computed * self.hidden
        return Stream(
            f"{self.name} {name}", 2 * (self.own + self.again) * elements * self.element,
            pace="gather" if self.permutation == "indexed" else None, elements=self.own * elements,
        )  # fmt: skip

    def _weighting(self, name: str, bytes_each: Bytes) -> Kernels:
        """Products with the router's scores, where no other kernel makes them.

        To fp32, product, back: 6 + 8 + 6 bytes an element in 16 bits. Backward the same, and the gradient of the scores: 16
        more (derived from torchtitan/models/moe/moe.py).
        """
        if self.permutation != "indexed":
            return ()
        return (Stream(f"{self.name} {name}", bytes_each * self.own * self._computed * self.hidden),)

    def _grouped(
        self, name: str, rows: Count, columns: Count, depth: Count, *, of_weight: bool = False, of_input: bool = False
    ) -> Gemm:
        return Gemm(
            f"{self.name} {name}", rows, columns, depth, self.element,
            count=self._busy, operand=self.operand, is_weight_gradient=of_weight, is_input_gradient=of_input,
            apart=self.apart,
        )  # fmt: skip
