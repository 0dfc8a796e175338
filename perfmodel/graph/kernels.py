"""What a device executes: the smallest unit that has a time. Sizes are numbers or columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perfmodel.units import Bytes, Count, Flop

Pace = Literal["strided", "rows", "gather"]
"""Why a kernel handles its elements one at a time: strides or broadcast operands, whole rows, indices."""

Direction = Literal["forward", "input_gradient", "filter_gradient"]
"""Which of a convolution's three products a kernel computes; libraries have kernels for each."""

SPLITS = 128
"""Parts at most of a sum over samples or pixels: as many as large devices have cores."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """``count`` products of (rows x depth) by (depth x columns) in one launch."""

    name: str
    rows: Count
    columns: Count
    depth: Count
    element: Bytes
    count: Count = 1
    operand: Bytes | None = None
    """Of an operand that was cast to the narrow precision of the job; None computes in the wide one."""
    aligned: bool = True
    """Rows begin at multiples of 16 bytes, which matrix units need; else the product runs on the vector units."""
    splits: int = 1
    """Parts that the inner dimension may be computed in at the same time: the samples of a weight's gradient."""
    is_weight_gradient: bool = False
    """A fused kernel adds it to the sum over microbatches."""
    output: Bytes | None = None
    """Moved for each element of the result, where that is more than writing it."""
    is_input_gradient: bool = field(default=False, repr=False)
    """Left out of what is printed, by which timings are held out; so is `apart`."""
    apart: bool = field(default=False, repr=False)
    """The products run one after another, each in waves of its own."""

    @property
    def is_gradient(self) -> bool:
        """Of weights or of inputs."""
        return self.is_weight_gradient or self.is_input_gradient

    @property
    def flops(self) -> Flop:
        """Multiply-adds count twice."""
        return 2 * self.rows * self.columns * self.depth * self.count

    @property
    def traffic(self) -> Bytes:
        """Operands read and output written, each once."""
        m, n, k = self.rows, self.columns, self.depth
        operand = self.element if self.operand is None else self.operand
        output = self.element if self.output is None else self.output
        return self.count * (operand * (m * k + k * n) + output * m * n)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution as the matrix product that computes it implicitly."""

    name: str
    rows: Count
    columns: Count
    depth: Count
    traffic: Bytes
    """Maps and filters, each once; the unfolded matrix never exists in memory."""
    count: Count = 1
    """Groups."""
    saving: float = 1.0
    """Multiplications of the direct algorithm for each one that Winograd's leaves; 1 where it does not apply."""
    splits: int = 1
    """Parts that the inner dimension may be computed in at the same time: the pixels of a filter's gradient."""
    direction: Direction = "forward"

    @property
    def flops(self) -> Flop:
        """Of the direct algorithm."""
        return 2 * self.rows * self.columns * self.depth * self.count


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """Fused attention, forward or backward."""

    name: str
    heads: Count
    """Over all samples."""
    queries: Count
    keys: Count
    """That a query sees on average."""
    width: Count
    """Inner dimensions of the products that a score takes part in, added up."""
    traffic: Bytes
    backward: bool = False

    @property
    def flops(self) -> Flop:
        """Of the pairs that are computed."""
        return 2 * self.heads * self.queries * self.keys * self.width


@dataclass(frozen=True, slots=True)
class Fused:
    """A kernel of which only FLOP and bytes are known."""

    name: str
    flops: Flop
    traffic: Bytes
    kind: str = "custom"


@dataclass(frozen=True, slots=True)
class Chunked:
    """A kernel of a chunked scan: products of small chunks with decays between them, which each core makes one by one."""

    name: str
    flops: Flop
    traffic: Bytes


@dataclass(frozen=True, slots=True)
class Stream:
    """A kernel that only moves bytes."""

    name: str
    traffic: Bytes
    reduces: bool = False
    """Rows are reduced on the way: norm, softmax, loss."""
    pace: Pace | None = None
    """None moves several elements at once, which memory alone binds."""
    elements: Count = 0
    """That the kernel handles one at a time, where it has a pace."""

    @property
    def flops(self) -> Flop:
        """Not counted: elementwise work never binds, and no convention counts it."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Lookup:
    """A kernel that gathers or changes rows of tables."""

    name: str
    traffic: Bytes
    """Of the memory of the device, in whole sectors."""
    missed: Bytes = 0.0
    """Of rows in the memory of the host."""

    @property
    def flops(self) -> Flop:
        """Not counted, as of streams."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same kernel several times, each waiting for the one before: the steps of a recurrence, the blocks of a ring."""

    kernel: Gemm | Stream | FlashAttention
    times: Count
    one_call: bool = False
    """Whether a library launches all of them for one call of the framework."""

    @property
    def name(self) -> str:
        """Of the kernel."""
        return self.kernel.name

    @property
    def flops(self) -> Flop:
        """Of all times."""
        return self.times * self.kernel.flops

    @property
    def traffic(self) -> Bytes:
        """Of all times."""
        return self.times * self.kernel.traffic


Kernel = Gemm | Convolution | FlashAttention | Fused | Chunked | Stream | Lookup | Repeated
