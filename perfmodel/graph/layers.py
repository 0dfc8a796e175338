"""Convolutions, recurrences, and work that a file states as such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.graph.kernels import SPLITS, Convolution, Fused, Gemm, Repeated, Stream
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from perfmodel.graph.kernels import Direction
    from perfmodel.graph.split import Kernels, Split

WINOGRAD = {9.0: 36 / 16, 25.0: 100 / 36}
"""Multiplications that Winograd's algorithm saves, by the area of the window: of windows one pixel apart, F(2 x 2, 3 x 3)
needs 16 for 4 outputs in place of 36, F(2 x 2, 5 x 5) 36 in place of 100. Lavin and Gray, Fast algorithms for
convolutional neural networks, CVPR 2016 (arXiv:1509.09308), section 4.1: (m + r - 1)^2 for m^2 outputs of r x r."""


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
    copied: bool = False
    """Maps lie in another order than the product wants, which copies those that go in and writes what comes out as it
    is wanted: in profiles of half-precision training with channels first, cuDNN's nchwToNhwcKernel takes 12 to 14 % of the
    time (PaddlePaddle, issue 19425: ResNet-50 on V100), and nhwcToNchwKernel next to none."""
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
        filters = self.inputs * self.outputs * self.kernel_area / self.groups
        return self._input + self._output + self.element * filters

    @property
    def _input(self) -> Bytes:
        return self.element * self.batch * self.inputs * self.input_area

    @property
    def _output(self) -> Bytes:
        return self.element * self.batch * self.outputs * self.height * self.width

    def forward(self) -> Kernels:
        """Output pixels x output channels, over input channels x kernel; PyTorch adds a bias in a pass of its own."""
        pixels = self.batch * self.height * self.width
        depth = self.inputs * self.kernel_area / self.groups
        product = self._implicit(self.name, pixels, self.outputs / self.groups, depth)
        bias = (Stream(f"{self.name} bias", 2 * pixels * self.outputs * self.element),) if self.bias else ()
        return (*self._copy(self.name, self._input), product, *bias)

    def backward(self) -> Kernels:
        """Gradients of the input (unless it is the image), of the filters and of the bias."""
        pixels = self.batch * self.height * self.width
        outputs, depth = self.outputs / self.groups, self.inputs * self.kernel_area / self.groups
        name = f"{self.name} weight gradient"
        copy = self._copy(name, self._input + self._output)
        weight = (*copy, self._implicit(name, depth, outputs, pixels, "filter_gradient"))
        bias = (Stream(f"{self.name} bias gradient", pixels * self.outputs * self.element),) if self.bias else ()
        if self.first:
            return (*weight, *bias)
        name = f"{self.name} input gradient"
        area = self.kernel_area * self.height * self.width / self.input_area
        inputs = self.inputs / self.groups
        gradient = self._implicit(name, self.batch * self.input_area, inputs, outputs * area, "input_gradient")
        return (*self._copy(name, self._output), gradient, *weight, *bias)

    def _copy(self, name: str, size: Bytes) -> tuple[Stream, ...]:
        """Maps read and written in the order that the product wants."""
        return (Stream(f"{name} layout", 2 * size),) if self.copied else ()

    def _implicit(
        self, name: str, rows: Count, columns: Count, depth: Count, direction: Direction = "forward"
    ) -> Convolution | Fused:
        """The product of a pass; depthwise, with one channel in each group, there is none, and moving the maps binds."""
        if self.groups == self.inputs > 1:
            return Fused(name, 2 * rows * columns * depth * self.groups, self._traffic, "convolution")
        dense = self.height * self.width == self.input_area and self.groups == 1
        saving = WINOGRAD.get(float(self.kernel_area), 1.0) if dense else 1.0
        splits = SPLITS if direction == "filter_gradient" else 1
        return Convolution(name, rows, columns, depth, self._traffic, self.groups, saving, splits, direction)


@dataclass(frozen=True, slots=True)
class Lstm:
    """A layer of long short-term memory over a sequence, all of whose steps one call of a library launches (cudnnRNNForwardTraining)."""

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
        step = self._steps(Gemm(f"{self.name} step", self.batch, gates, self.hidden, self.element))
        cell = self._steps(Stream(f"{self.name} cell", self.batch * 7 * self.hidden * self.element))
        return (Gemm(f"{self.name} inputs", rows, gates, self.inputs, self.element), step, cell)

    def backward(self) -> Kernels:
        """The steps in reverse; the gradients of all weights at once."""
        gates, rows = 4 * self.hidden, self.batch * self.sequence
        step = self._steps(Gemm(f"{self.name} step backward", self.batch, self.hidden, gates, self.element))
        traffic = self.batch * 14 * self.hidden * self.element
        return (
            step,
            self._steps(Stream(f"{self.name} cell backward", traffic)),
            Gemm(f"{self.name} input gradient", rows, self.inputs, gates, self.element),
            Gemm(f"{self.name} weight gradient", self.inputs + self.hidden, gates, rows, self.element),
        )

    def _steps(self, kernel: Gemm | Stream) -> Repeated:
        return Repeated(kernel, self.sequence, one_call=True)


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
