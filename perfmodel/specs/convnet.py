"""A convolutional network as layers, and the shapes that its maps take on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Integer, Text
from perfmodel.specs.common import Group, Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

Margin = Annotated[Integer, Field(ge=0)]
Pair = tuple[Size, Size] | Size
"""One number for both directions, or [height, width]."""

OPTIONS = {
    "conv": ("kernel", "stride", "padding", "groups", "bias", "norm", "activation"),
    "linear": ("bias", "activation"),
    "pool": ("kernel", "stride", "padding", "output", "ceil"),
    "residual": ("shortcut", "activation"),
    "branches": (),
    "auxiliary": (),
}
"""The kinds of layer, and what may be said of each; `name`, `dropout` and `repeat` of all."""

MAX_LAYERS = 100_000
"""A file is untrusted: repetitions inside repetitions could fill the memory."""


class Layer(Spec):
    """One layer; exactly one of conv, linear, pool, residual, branches, auxiliary."""

    conv: Size | None = None
    """Output channels of a convolution."""
    linear: Size | None = None
    """Output features of a fully connected layer (the map is flattened first)."""
    pool: Literal["max", "average", "global"] | None = None
    """Over windows, or (global) the average over areas such that the output has the size `output`."""
    residual: tuple[Layer, ...] | None = None
    """A branch that is added to its input, or to what `shortcut` makes of it."""
    shortcut: tuple[Layer, ...] | None = None
    """What the input passes through before the residual is added; default nothing."""
    branches: tuple[tuple[Layer, ...], ...] | None = None
    """Branches that see the same input; their channels are concatenated. An empty one passes the input on."""
    auxiliary: tuple[Layer, ...] | None = None
    """A side classifier, whose output goes to a loss of its own; the map itself goes on unchanged."""
    name: Text = ""
    """Shown in reports; default the number of the layer and its kind."""
    kernel: Pair = 1
    stride: Pair = 1
    """Of pools too: 1 unless given."""
    padding: tuple[Margin, Margin] | Margin | None = None
    """On each side; default (kernel - 1) // 2 for convolutions (at stride 1 the map keeps its size), 0 for pools."""
    output: Size | None = None
    """Height and width after a global pool; default 1."""
    ceil: bool = False
    """A pool rounds its output size up."""
    groups: Size = 1
    bias: bool | None = None
    """Default yes, except where batch norm follows."""
    norm: bool | None = None
    """Batch norm after a convolution; default as the model says."""
    activation: bool | None = None
    """Rectifier after a convolution, linear layer or sum; default yes, except at the end of the network, of an
    auxiliary classifier, of a residual and of its shortcut (their sum is rectified)."""
    dropout: bool = False
    """Dropout after all that."""
    repeat: Size = 1

    @property
    def kind(self) -> str:
        """Which of the kinds it is."""
        return next(kind for kind in OPTIONS if getattr(self, kind) is not None)

    @property
    def margins(self) -> tuple[int, int]:
        """Padding above and below, left and right."""
        if self.padding is not None:
            return pair(self.padding)
        height, width = pair(self.kernel)
        return ((height - 1) // 2, (width - 1) // 2) if self.conv else (0, 0)


class Convnet(Group):
    """A convolutional network, layer by layer."""

    family: Literal["convnet"]
    image: Size
    """Height and width of the input."""
    channels: Size = 3
    norm: bool = True
    """Convolutions are followed by batch norm unless they say otherwise."""
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one sample's map."""

    channels: int
    height: int
    width: int

    @property
    def area(self) -> int:
        """Pixels."""
        return self.height * self.width

    @property
    def elements(self) -> int:
        """Numbers in it."""
        return self.channels * self.area

    def __str__(self) -> str:
        return f"{self.channels} x {self.height} x {self.width}"


class MisfitError(ValueError):
    """A layer cannot take the map it gets."""

    def __init__(self, fault: Fault) -> None:
        """Keep which layer, and why."""
        self.fault = fault
        super().__init__(f"{fault.path}: {fault.message}")


def pair(value: tuple[int, int] | int) -> tuple[int, int]:
    """Height and width of what may be given as one number.

    >>> pair(3), pair((1, 7))
    ((3, 3), (1, 7))
    """
    return value if isinstance(value, tuple) else (value, value)


def positions(size: int, *, kernel: int, stride: int, padding: int, ceil: bool = False) -> int:
    """How many windows fit along one side of a map, as PyTorch counts them; 0 where none does.

    >>> positions(224, kernel=7, stride=2, padding=3)
    112
    >>> positions(112, kernel=3, stride=2, padding=0, ceil=True)
    56
    """
    free = size + 2 * padding - kernel
    if free < 0:
        return 0
    if not ceil:
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - ((count - 1) * stride >= size + padding)  # a window may not start in the far padding


def output(layer: Layer, shape: Shape, path: str = "layer") -> Shape:
    """What one repetition of ``layer`` makes of a map of ``shape``; raises MisfitError."""
    match layer.kind:
        case "conv":
            channels = int(layer.conv or 0)
            if shape.channels % layer.groups or channels % layer.groups:
                message = f"{layer.groups} groups do not divide {shape.channels} input and {channels} output channels"
                raise MisfitError(Fault(path, message))
            return _windows(layer, channels, shape, path)
        case "linear":
            return Shape(int(layer.linear or 0), 1, 1)
        case "pool" if layer.pool == "global":
            return Shape(shape.channels, layer.output or 1, layer.output or 1)
        case "pool":
            return _windows(layer, shape.channels, shape, path)
        case "residual":
            return _sum(layer, shape, path)
        case "branches":
            return _concatenation(layer, shape, path)
    through(layer.auxiliary or (), shape, f"{path}.auxiliary")
    return shape


def through(layers: tuple[Layer, ...], shape: Shape, path: str) -> Shape:
    """The shape after ``layers`` in order; raises MisfitError."""
    for index, layer in enumerate(layers):
        for _ in range(layer.repeat):
            before, shape = shape, output(layer, shape, f"{path}.{index}")
            if shape == before:
                break
    return shape


def convnet_faults(model: Convnet, path: str) -> Iterator[Fault]:
    """Layers that contradict themselves; if there are none, the first that does not fit its input."""
    found = list(_layers_faults(model.layers, f"{path}.layers"))
    if not model.layers:
        found = [Fault(f"{path}.layers", "needs at least one layer")]
    if not found and (count := _unrolled(model.layers)) > MAX_LAYERS:
        found = [Fault(f"{path}.layers", f"repeat {count} layers in all, more than {MAX_LAYERS}")]
    yield from found
    if not found:
        try:
            through(model.layers, Shape(model.channels, model.image, model.image), f"{path}.layers")
        except MisfitError as misfit:
            yield misfit.fault


def _windows(layer: Layer, channels: int, shape: Shape, path: str) -> Shape:
    height, width = (
        positions(size, kernel=kernel, stride=stride, padding=padding, ceil=layer.ceil)
        for size, kernel, stride, padding in zip(
            (shape.height, shape.width), pair(layer.kernel), pair(layer.stride), layer.margins, strict=True
        )
    )
    if not height or not width:
        kernel = " x ".join(map(str, pair(layer.kernel)))
        raise MisfitError(Fault(path, f"a window of {kernel} does not fit into a map of {shape}"))
    return Shape(channels, height, width)


def _sum(layer: Layer, shape: Shape, path: str) -> Shape:
    branch = through(layer.residual or (), shape, f"{path}.residual")
    other = through(layer.shortcut or (), shape, f"{path}.shortcut")
    if branch != other:
        name = "its shortcut" if layer.shortcut else "its input (there is no shortcut)"
        raise MisfitError(Fault(path, f"the residual is {branch}, but {name} is {other}"))
    return branch


def _concatenation(layer: Layer, shape: Shape, path: str) -> Shape:
    branches = layer.branches or ()
    made = [through(branch, shape, f"{path}.branches.{number}") for number, branch in enumerate(branches)]
    if len({(each.height, each.width) for each in made}) > 1:
        raise MisfitError(Fault(path, f"branches of different size: {', '.join(map(str, made))}"))
    return Shape(sum(each.channels for each in made), made[0].height, made[0].width)


def _unrolled(layers: tuple[Layer, ...]) -> int:
    return sum(layer.repeat * (1 + sum(map(_unrolled, _inside(layer).values()))) for layer in layers)


def _inside(layer: Layer) -> dict[str, tuple[Layer, ...]]:
    """Chains of layers within a layer, by their path."""
    chains = {kind: getattr(layer, kind) or () for kind in ("residual", "shortcut", "auxiliary")}
    return chains | {f"branches.{number}": branch for number, branch in enumerate(layer.branches or ())}


def _layers_faults(layers: tuple[Layer, ...], path: str) -> Iterator[Fault]:
    for index, layer in enumerate(layers):
        yield from _layer_faults(layer, f"{path}.{index}")
        for name, chain in _inside(layer).items():
            yield from _layers_faults(chain, f"{path}.{index}.{name}")


def _layer_faults(layer: Layer, path: str) -> Iterator[Fault]:
    kinds = [kind for kind in OPTIONS if getattr(layer, kind) is not None]
    if len(kinds) != 1:
        found = f", not {' and '.join(kinds)}" if kinds else ""
        yield Fault(path, f"must be exactly one of {', '.join(OPTIONS)}{found}")
        return
    kind, allowed = kinds[0], {*OPTIONS[kinds[0]]}
    if layer.residual == () or layer.auxiliary == ():
        yield Fault(f"{path}.{kind}", "needs at least one layer")
    if layer.branches is not None and len(layer.branches) < 2:
        yield Fault(f"{path}.{kind}", "needs at least two branches")
    if layer.pool:
        kind = f"{layer.pool} pool"
        allowed = {"output"} if layer.pool == "global" else allowed - {"output"}
        if "kernel" in allowed - layer.model_fields_set:
            yield Fault(path, f"{kind} needs a kernel")
    for option in sorted(layer.model_fields_set - allowed - {kinds[0], "name", "dropout", "repeat"}):
        yield Fault(f"{path}.{option}", f"means nothing for {kind}")
