"""The operations of a model: what each computes forward and backward, and what it keeps in between.

Sizes are those of one microbatch, unsharded; `perfmodel.parallel` returns copies with smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfmodel.graph.kernels import Convolution, FlashAttention, Fused, Gemm, Kernel, Repeated, Stream
from perfmodel.units import Bytes, Count

Kernels = tuple[Kernel, ...]
Split = Literal["none", "column", "row", "heads", "vocabulary", "tensor", "sequence"]
"""What tensor parallelism divides. *Tensor* regions lie between a column- and a row-split product;
*sequence* regions (norm, dropout, residual) are replicated, or split along the sequence."""


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

    @property
    def parameters(self) -> Count:
        """Weights and biases; a row-split bias stays whole on every rank."""
        return 0 if self.shared else self.inputs * self.outputs + self.bias * self.outputs

    @property
    def saved(self) -> Bytes:
        """The input, for the gradient of the weights."""
        return self.rows * self.inputs * self.element / self.saved_over * (not self.input_kept)

    def forward(self) -> Kernels:
        """One product; the bias rides along."""
        return (*self._cast("cast", self.inputs), self._gemm(self.name, self.rows, self.outputs, self.inputs))

    def backward(self) -> Kernels:
        """Gradients of the input and of the weights."""
        weight = self._gemm(f"{self.name} weight gradient", self.inputs, self.outputs, self.rows)
        gradient = self._gemm(f"{self.name} input gradient", self.rows, self.inputs, self.outputs)
        bias = (Stream(f"{self.name} bias gradient", self.rows * self.outputs * self.element),) if self.bias else ()
        cast = self._cast("cast backward", self.outputs)
        return (*cast, weight, *bias) if self.first else (*cast, gradient, weight, *bias)

    def _gemm(self, name: str, rows: Count, columns: Count, depth: Count) -> Gemm:
        return Gemm(name, rows, columns, depth, self.element, operand=self.operand)

    def _cast(self, name: str, width: Count) -> Kernels:
        """Read a tensor, write it narrow by rows and by columns: products want it both ways."""
        if self.operand is None:
            return ()
        return (Stream(f"{self.name} {name}", self.rows * width * (self.element + 2 * self.operand)),)


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

    @property
    def parameters(self) -> Count:
        """None: the projections are `Linear`."""
        return 0

    @property
    def scores(self) -> Count:
        """Elements of the score matrices."""
        return self.batch * self.heads * self.queries * self.keys

    @property
    def saved(self) -> Bytes:
        """Queries, keys, values and either the scores or the output with its normaliser."""
        query, key_value = self._query * self.element, self._key_value * self.element / self.saved_over
        if self.fused:
            return query + key_value + query + 4 * self.batch * self.heads * self.queries
        return query + key_value + self.scores * (self.element * (1 + self.dropout) + self.dropout)

    @property
    def recomputable(self) -> Bytes:
        """What selective recomputation drops: everything between the scores and the output."""
        return 0 if self.fused else self.scores * (self.element * (1 + self.dropout) + self.dropout)

    def forward(self) -> Kernels:
        """Fused in one kernel, or through memory; unfused, the heads of the output are put side by side again."""
        if self.fused:
            return (self._fused(self.name, products=2, tensors=1),)
        softmax = Stream("softmax", 2 * self.element * self.scores, reduces=True)
        scale = () if self.merged else (Stream("attention scale and mask", 4 * self.element * self.scores),)
        dropout = (Stream("attention dropout", (2 * self.element + 1) * self.scores),) if self.dropout else ()
        scores = self._gemm("attention scores", self.queries, self.keys, self.head_dim)
        context = self._gemm("attention context", self.queries, self.head_dim, self.keys)
        return (scores, *scale, softmax, *dropout, context, Stream("attention layout", 2 * self.element * self._query))

    def backward(self) -> Kernels:
        """Four products, and softmax and dropout backwards; fused kernels recompute the scores.

        Unfused, the gradients of queries and keys are scaled, and those of all three joined to one.
        """
        if self.fused:
            return (self._fused(f"{self.name} backward", products=5, tensors=2),)
        q, k, d = self.queries, self.keys, self.head_dim
        dropout = (Stream("attention dropout backward", (2 * self.element + 1) * self.scores),) if self.dropout else ()
        scale = () if self.merged else (Stream("attention scale backward", 2 * self.element * self.scores),)
        return (
            self._gemm("attention context gradient", q, k, d),
            self._gemm("attention value gradient", k, d, q),
            *dropout,
            Stream("softmax backward", 3 * self.element * self.scores, reduces=True),
            *scale,
            self._gemm("attention query gradient", q, d, k),
            self._gemm("attention key gradient", k, d, q),
            Stream("attention layout backward", 2 * self.element * (2 * self._query + 1.5 * self._key_value)),
        )

    @property
    def _query(self) -> Count:
        return self.batch * self.queries * self.heads * self.head_dim

    @property
    def _key_value(self) -> Count:
        return 2 * self.batch * self.keys * self.kv_heads * self.head_dim

    def _gemm(self, name: str, rows: Count, columns: Count, depth: Count) -> Gemm:
        return Gemm(name, rows, columns, depth, self.element, count=self.batch * self.heads)

    def _fused(self, name: str, products: int, tensors: int) -> FlashAttention:
        seen = self.keys * (0.5 if self.causal else 1.0)
        traffic = tensors * self.element * (2 * self._query + self._key_value)
        return FlashAttention(name, self.batch * self.heads, self.queries, seen, self.head_dim, products, traffic)


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
        return (Stream(self.name, self.passes * self.rows * self.width * self.element, self.rowwise),)

    def backward(self) -> Kernels:
        """Read the input and the gradient, write the gradient; batch norm reads both twice."""
        traffic = (2 * self.passes - 1) * self.rows * self.width * self.element
        return (Stream(f"{self.name} backward", traffic, self.rowwise),)


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
        return (Stream(self.name, self.elements * ((self.reads + 1) * self.element + self.mask)),)

    def backward(self) -> Kernels:
        """Read the gradient and what was kept, write the gradient of the input."""
        traffic = self.elements * (self.backward_traffic * self.element + self.mask)
        free = not self.backward_traffic or (self.merged and self.kept)
        return () if free else (Stream(f"{self.name} backward", traffic),)


@dataclass(frozen=True, slots=True)
class Embedding:
    """A table of vectors, one looked up for each token."""

    name: str
    rows: Count
    width: Count
    vocabulary: Count
    element: Bytes
    split: Split = "vocabulary"

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
        return (Stream(self.name, 2 * self.rows * self.width * self.element),)

    def backward(self) -> Kernels:
        """Read the gradient, add it to the rows of the table."""
        return (Stream(f"{self.name} backward", 3 * self.rows * self.width * self.element),)


@dataclass(frozen=True, slots=True)
class Loss:
    """Softmax over the classes and cross-entropy, in fp32."""

    name: str
    rows: Count
    vocabulary: Count
    element: Bytes
    split: Split = "vocabulary"

    @property
    def parameters(self) -> Count:
        """None."""
        return 0

    @property
    def saved(self) -> Bytes:
        """The logits in fp32."""
        return 4 * self.rows * self.vocabulary

    def forward(self) -> Kernels:
        """Convert to fp32, find the maximum, subtract it, exponentiate, sum, divide: each a pass through memory."""
        traffic = self.rows * self.vocabulary * (self.element + 4 + 4 + 8 + 8 + 4 + 8)
        return (Stream(self.name, traffic, reduces=True),)

    def backward(self) -> Kernels:
        """Scale the softmax in place, and convert it."""
        return (Stream(f"{self.name} backward", self.rows * self.vocabulary * (8 + 4 + self.element)),)


@dataclass(frozen=True, slots=True)
class Conv2d:
    """A two-dimensional convolution."""

    name: str
    batch: Count
    inputs: Count
    outputs: Count
    height: Count
    width: Count
    """Of the output map."""
    input_area: Count
    """Height x width of the input map."""
    kernel_area: Count
    element: Bytes
    groups: Count = 1
    bias: bool = False
    first: bool = False
    """The first layer of a network needs no gradient of its input."""
    input_kept: bool = False
    """Another op counts the input as saved."""
    split: Split = "none"

    @property
    def parameters(self) -> Count:
        """Filters and biases."""
        return self.inputs * self.outputs * self.kernel_area // self.groups + self.bias * self.outputs

    @property
    def saved(self) -> Bytes:
        """The input."""
        return self.batch * self.inputs * self.input_area * self.element * (not self.input_kept)

    @property
    def _traffic(self) -> Bytes:
        maps = self.batch * (self.inputs * self.input_area + self.outputs * self.height * self.width)
        return self.element * (maps + self.inputs * self.outputs * self.kernel_area / self.groups)

    def forward(self) -> Kernels:
        """Output pixels x output channels, over input channels x kernel; PyTorch adds a bias in a pass of its own."""
        pixels = self.batch * self.height * self.width
        depth = self.inputs * self.kernel_area / self.groups
        product = self._implicit(self.name, pixels, self.outputs / self.groups, depth)
        bias = (Stream(f"{self.name} bias", 2 * pixels * self.outputs * self.element),) if self.bias else ()
        return (product, *bias)

    def backward(self) -> Kernels:
        """Gradients of the input (unless it is the image), of the filters and of the bias."""
        pixels = self.batch * self.height * self.width
        outputs, depth = self.outputs / self.groups, self.inputs * self.kernel_area / self.groups
        weight = self._implicit(f"{self.name} weight gradient", depth, outputs, pixels)
        bias = (Stream(f"{self.name} bias gradient", pixels * self.outputs * self.element),) if self.bias else ()
        if self.first:
            return (weight, *bias)
        area = self.kernel_area * self.height * self.width / self.input_area
        inputs = self.inputs / self.groups
        gradient = self._implicit(
            f"{self.name} input gradient", self.batch * self.input_area, inputs, outputs * area
        )
        return (gradient, weight, *bias)

    def _implicit(self, name: str, rows: Count, columns: Count, depth: Count) -> Convolution:
        dense = self.kernel_area == 9 and self.height * self.width == self.input_area and self.groups == 1
        return Convolution(name, rows, columns, depth, self._traffic, self.groups, winograd=dense)


@dataclass(frozen=True, slots=True)
class Lstm:
    """A layer of long short-term memory over a sequence."""

    name: str
    batch: Count
    sequence: Count
    inputs: Count
    hidden: Count
    element: Bytes
    split: Split = "none"

    @property
    def parameters(self) -> Count:
        """Four gates, each with input and recurrent weights and two biases."""
        return 4 * self.hidden * (self.inputs + self.hidden + 2)

    @property
    def saved(self) -> Bytes:
        """Input, gates, cell and hidden state at every step."""
        return self.batch * self.sequence * (self.inputs + 6 * self.hidden) * self.element

    def forward(self) -> Kernels:
        """The inputs of all steps at once, then one product and one pass over the gates for each step."""
        gates, rows = 4 * self.hidden, self.batch * self.sequence
        step = Repeated(Gemm(f"{self.name} step", self.batch, gates, self.hidden, self.element), self.sequence)
        cell = Repeated(Stream(f"{self.name} cell", self.batch * 7 * self.hidden * self.element), self.sequence)
        return (Gemm(f"{self.name} inputs", rows, gates, self.inputs, self.element), step, cell)

    def backward(self) -> Kernels:
        """The steps in reverse; the gradients of all weights at once."""
        gates, rows = 4 * self.hidden, self.batch * self.sequence
        step = Repeated(Gemm(f"{self.name} step backward", self.batch, self.hidden, gates, self.element), self.sequence)
        traffic = self.batch * 14 * self.hidden * self.element
        return (
            step,
            Repeated(Stream(f"{self.name} cell backward", traffic), self.sequence),
            Gemm(f"{self.name} input gradient", rows, self.inputs, gates, self.element),
            Gemm(f"{self.name} weight gradient", self.inputs + self.hidden, gates, rows, self.element),
        )


@dataclass(frozen=True, slots=True)
class Opaque:
    """Work that a file states as such: FLOPs and bytes; backward takes twice of both."""

    name: str
    flops: Count
    traffic: Bytes
    parameters: Count = 0
    split: Split = "none"

    @property
    def saved(self) -> Bytes:
        """Half of the traffic: the inputs."""
        return self.traffic / 2

    def forward(self) -> Kernels:
        """As stated."""
        return (Fused(self.name, self.flops, self.traffic),)

    def backward(self) -> Kernels:
        """Gradients of inputs and weights: twice the forward pass."""
        return (Fused(f"{self.name} backward", 2 * self.flops, 2 * self.traffic),)


Op = Linear | Attention | Norm | Elementwise | Embedding | Loss | Conv2d | Lstm | Opaque
