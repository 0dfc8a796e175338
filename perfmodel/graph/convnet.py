"""Convolutional networks: AlexNet, VGG, ResNet, Inception from their layers.

The operations are those that PyTorch executes with cuDNN, one kernel each: the rectifier works in place; a residual is added in place; a concatenation copies.

A map that the backward pass needs is counted once. A rectifier keeps its output, which the next layer saves
too without a copy. Any other map is counted by the first layer that reads it: a convolution, linear layer or
pool keeps its input (of a global pool only the sizes matter), batch norm the output of its convolution. A
sum and a concatenation keep nothing, a maximum pool the index of each maximum, dropout its mask.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfmodel.graph.graph import Block, Graph
from perfmodel.graph.ops import Conv2d, Elementwise, Linear, Loss, Norm, Op
from perfmodel.specs.common import ELEMENT_BYTES
from perfmodel.specs.convnet import Shape, output, pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfmodel.specs.convnet import Convnet, Layer
    from perfmodel.units import Bytes, Count

Ops = tuple[Op, ...]

RECTIFIED = {"conv", "linear", "residual"}
"""Kinds of layer that a rectifier follows, unless they say otherwise."""
STREAMED, PERSISTENT = 3.4, 2.3
"""Times that a map crosses memory in the forward pass of batch norm, with elementwise kernels as the measure. It is read
twice and written; in traces of ResNets in fp32 (PyTorch) cuDNN takes 3.3 (V100) and 3.5 times (RTX 2080 Ti) as long as
for one pass of an elementwise kernel, backward 6.0 and 5.6 for two maps read twice and one written. A persistent kernel
reads each map once; it is taken to be as far from two passes as the other is from three (derived)."""
INDEX = 8
"""Bytes of the index of a maximum: PyTorch keeps 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Map:
    """What one layer hands to the next."""

    shape: Shape
    image: bool = False
    """The input of the network, of which no gradient is needed."""
    kept: bool = False
    """An op before has counted it as saved for the backward pass."""


@dataclass(frozen=True, slots=True)
class _Builder:
    """What all layers of one network share."""

    batch: Count
    element: Bytes
    norm: bool
    merged: bool
    """Rectifiers and sums ride along with the kernel before."""
    copied: bool
    """Convolutions copy their maps to channels last."""
    passes: float
    """Of batch norm."""

    def chain(self, layers: Iterable[Layer], entering: Map, *, closing: bool) -> tuple[Ops, Map]:
        """Layers in order; where it is ``closing``, the last one is not rectified."""
        ops: Ops = ()
        for _, layer, last in _unrolled(layers):
            made, entering = self.layer(layer, entering, closing=closing and last)
            ops = (*ops, *made)
        return ops, entering

    def layer(self, layer: Layer, entering: Map, *, closing: bool) -> tuple[Ops, Map]:
        """A layer with its rectifier and dropout, and the map that leaves it."""
        ops, leaving = self.core(layer, entering)
        rectified = not closing if layer.activation is None else layer.activation
        if rectified and layer.kind in RECTIFIED:
            ops = (*ops, self.elementwise("relu", leaving.shape, kept=1, backward=3, merged=self.merged))
            leaving = replace(leaving, kept=True)
        if layer.dropout:
            ops = (*ops, self.elementwise("dropout", leaving.shape, mask=1, backward=2))
            leaving = replace(leaving, kept=False)
        return ops, leaving

    def core(self, layer: Layer, entering: Map) -> tuple[Ops, Map]:
        """A layer alone."""
        match layer.kind:
            case "conv":
                return self.conv(layer, entering)
            case "linear":
                return self.linear(layer, entering)
            case "pool":
                return self.pool(layer, entering)
            case "residual":
                return self.residual(layer, entering)
            case "branches":
                return self.branches(layer, entering)
        return self.auxiliary(layer, entering)

    def conv(self, layer: Layer, entering: Map) -> tuple[Ops, Map]:
        """A convolution and its batch norm."""
        before, after = entering.shape, output(layer, entering.shape)
        normed = self.norm if layer.norm is None else layer.norm
        height, width = pair(layer.kernel)
        conv = Conv2d(
            f"conv {height}x{width}", self.batch, before.channels, after.channels, after.height, after.width,
            before.area, height * width, self.element, layer.groups,
            bias=not normed if layer.bias is None else layer.bias,
            first=entering.image, input_kept=entering.kept, copied=self.copied,
        )  # fmt: skip
        rows, passes = self.batch * after.area, self.passes
        norm = Norm(
            "batch norm",
            rows,
            after.channels,
            self.element,
            affine=2,
            passes=passes,
            rowwise=False,
            split="none",
            singly=2 if self.copied else 0,
        )
        return (conv, norm) if normed else (conv,), Map(after)

    def linear(self, layer: Layer, entering: Map) -> tuple[Ops, Map]:
        """A product with the flattened map; flattening costs nothing."""
        after = output(layer, entering.shape)
        product = Linear(
            "linear", self.batch, entering.shape.elements, after.channels, self.element,
            bias=layer.bias is not False, first=entering.image, input_kept=entering.kept,
        )  # fmt: skip
        return (product,), Map(after)

    def pool(self, layer: Layer, entering: Map) -> tuple[Ops, Map]:
        """A pool reads each element once, however much its windows overlap: the cache serves the rest."""
        after = output(layer, entering.shape)
        share = entering.shape.elements / after.elements
        keeps = not entering.kept and layer.pool != "global"
        made = self.elementwise(
            f"{layer.pool} pool", after,
            reads=share, mask=INDEX if layer.pool == "max" else 0, kept=share if keeps else 0, backward=1 + share,
        )  # fmt: skip
        return (made,), Map(after)

    def residual(self, layer: Layer, entering: Map) -> tuple[Ops, Map]:
        """A branch and its shortcut, then their sum."""
        branch, leaving = self.chain(layer.residual or (), entering, closing=True)
        shortcut, _ = self.chain(layer.shortcut or (), replace(entering, kept=True), closing=True)
        forks = _fork(2, entering.shape, leaving.shape)
        add = self.elementwise("add", leaving.shape, reads=2, backward=forks, merged=self.merged)
        return (*branch, *shortcut, add), Map(leaving.shape)

    def branches(self, layer: Layer, entering: Map) -> tuple[Ops, Map]:
        """Branches over one input, of which the first keeps it, then their concatenation."""
        ops: Ops = ()
        branches = layer.branches or ()
        for number, branch in enumerate(branches):
            start = replace(entering, kept=entering.kept or number > 0)
            ops = (*ops, *self.chain(branch, start, closing=False)[0])
        after = output(layer, entering.shape)
        forks = _fork(len(branches), entering.shape, after)
        return (*ops, self.elementwise("concatenate", after, backward=forks)), Map(after)

    def auxiliary(self, layer: Layer, entering: Map) -> tuple[Ops, Map]:
        """A side classifier with its loss, and the input as it was."""
        ops, classes = self.chain(layer.auxiliary or (), entering, closing=True)
        return (*ops, self.loss("auxiliary loss", classes.shape)), replace(entering, kept=True)

    def loss(self, name: str, classes: Shape) -> Loss:
        """Softmax and cross-entropy."""
        return Loss(name, self.batch, classes.elements, self.element, split="none")

    def elementwise(
        self, name: str, shape: Shape, *,
        reads: float = 1, mask: int = 0, kept: float = 0, backward: float, merged: bool = False,
    ) -> Elementwise:  # fmt: skip
        """A kernel that writes a map of ``shape``."""
        return Elementwise(
            name, self.batch * shape.elements, self.element,
            reads=reads, mask=mask, kept=kept, backward_traffic=backward, split="none", merged=merged,
        )  # fmt: skip


def convnet(
    model: Convnet, *, microbatch: Count, element: Bytes, merged: bool = False,
    channels_last: bool = False, persistent: bool = True,
) -> Graph:  # fmt: skip
    """Blocks of one microbatch of images; every layer is one, and repetitions that are equal share one.

    Args:
        model: the layers.
        microbatch: images, a number or a column.
        element: bytes of one activation.
        merged: rectifiers and sums ride along with the kernel before.
        channels_last: maps lie as tensor cores want them; else half-precision ones are copied. In fp32 and tf32
            cuDNN has kernels for both orders.
        persistent: batch norm keeps half-precision maps on the chip that lie so.
    """
    half = bool(element < ELEMENT_BYTES["fp32"])
    passes = PERSISTENT if half and channels_last and persistent else STREAMED
    build = _Builder(microbatch, element, model.norm, merged, copied=half and not channels_last, passes=passes)
    flow = Map(Shape(model.channels, model.image, model.image), image=True)
    made: dict[tuple[int, Map, bool], tuple[Layer, Ops, Map]] = {}
    repeats: Counter[tuple[int, Map, bool]] = Counter()
    for index, layer, last in _unrolled(model.layers):
        key = (index, flow, last)
        if key not in made:
            made[key] = (layer, *build.layer(layer, flow, closing=last))
        repeats[key] += 1
        _, _, flow = made[key]
    body = [
        Block(layer.name or f"{key[0] + 1} {layer.kind}", ops, repeats[key]) for key, (layer, ops, _) in made.items()
    ]
    loss = Block("loss", (build.loss("loss", flow.shape),))
    return Graph(prologue=(), body=(*body, loss), epilogue=(), boundary=0)


def _unrolled(layers: Iterable[Layer]) -> Iterator[tuple[int, Layer, bool]]:
    """Each repetition of each layer, with its number, and whether it is the very last."""
    each = [(index, layer) for index, layer in enumerate(layers) for _ in range(layer.repeat)]
    for step, (index, layer) in enumerate(each, start=1):
        yield index, layer, step == len(each)


def _fork(readers: int, source: Shape, written: Shape) -> float:
    """Backward traffic where ``readers`` read one map and their gradients are summed, two read and one written.

    In elements for each one that the joining op writes, whose own gradient passes on untouched.
    """
    return 3 * (readers - 1) * source.elements / written.elements
