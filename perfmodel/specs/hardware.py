"""A machine: its devices, the network that joins them, its hosts, price and power."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Fraction, Text
from perfmodel.specs.common import Group, Positive, Precision, Share, Size, SpecFile
from perfmodel.specs.network import Tier, network_faults
from perfmodel.units import Bytes, BytesPerSecond, DollarsPerSecond, FlopPerSecond, Hertz, Seconds, Watts
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_FLASH = {"flash-1": (0.5, 0.5), "flash-triton": (1 / 1.4, 0.5)}
"""Rates of the first FlashAttention, and of it in Triton, over those of the second, forward and backward; that is about twice as fast as
the first, and as Triton's backward, and 1.3 to 1.5 times as fast as Triton's forward (arXiv:2307.08691, section 4.1)."""


class Compute(Group):
    """How fast a device can calculate at best."""

    cores: Size
    """Units that work on one tile each: streaming multiprocessors, compute units, matrix units, CPU cores."""
    peak: dict[Precision, FlopPerSecond] = Field(min_length=1)
    """Dense peak of the matrix path, by precision of the operands; 1 multiply-add = 2 FLOP."""


class Memory(Group):
    """The memory that holds weights and activations."""

    capacity: Bytes
    bandwidth: BytesPerSecond


class Cache(Group):
    """A level of cache shared by the whole device."""

    name: str
    capacity: Bytes
    bandwidth: BytesPerSecond | None = None


class MatmulEfficiency(Group):
    """Constants of `perfmodel.formulas.matmul.tiled_matmul`."""

    fraction: Share
    """Of the peak, in a large and square product."""
    tile_balance: Annotated[Fraction, Field(ge=0)]
    """Tile intensity (rows x columns / (rows + columns)) below which a core waits for operands."""
    depth_half: Annotated[Fraction, Field(ge=0)]
    """Inner dimension at which half of the time goes to filling and draining a tile."""
    depth_time: Seconds = 0.0
    """Least time of a core for one of the inner dimension, however small the tile."""
    tiles: tuple[tuple[Size, Size], ...] = (
        (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (32, 32),
    )  # fmt: skip
    """Tile shapes that the library chooses from, rows x columns."""
    overlap: Annotated[Fraction, Field(ge=1)] = 100.0
    """How well a kernel computes and moves at once: 1 one after the other, 100 as good as perfectly."""
    memory_fraction: Share | None = None
    """Of the memory bandwidth, that products reach; None is that of elementwise kernels."""
    sustained: Annotated[Fraction, Field(gt=0, le=1.25)] = 1.0
    """Of the rate of the benchmark, kept up in hours of training: clocks fall under power and heat, of the benchmark too."""
    gradients: Share = 1.0
    """Of the rate of forward products, what those of gradients with narrow operands reach: on Hopper, whose fp8 units keep few bits
    of a sum, frameworks have partial sums of gradients added up outside of them."""


class Convolution(Group):
    """What a convolution, computed as a product, has otherwise than products."""

    fraction: Share
    """Of the peak, in a large forward pass."""
    input_gradient: Share = 1.0
    """Share of that rate which the gradient of the input reaches."""
    filter_gradient: Share = 1.0
    """Likewise, of the filters."""
    tile_balance: Annotated[Fraction, Field(ge=0)] | None = None
    """As of products; None is theirs."""
    depth_half: Annotated[Fraction, Field(ge=0)] | None = None
    """As of products; None is theirs."""


class FusedAttention(Group):
    """Constants of `perfmodel.formulas.attention.flash_attention`."""

    fraction: Share
    """Of the peak, forward, over long rows of keys."""
    keys_half: Annotated[Fraction, Field(ge=0)] = 0.0
    """Keys at which half of the time is filling and draining."""
    softmax_width: Annotated[Fraction, Field(ge=0)] = 0.0
    """Columns of products that take as long as one exponential."""
    overlap: Annotated[Fraction, Field(ge=1)] = 100.0
    """As of products."""
    memory_fraction: Share | None = None
    """As of products."""
    backward: Share = 1.0
    """Share of the forward pass's rate that the backward pass reaches."""
    block: Size = 128
    """Queries that a core takes at a time."""


class Streaming(Group):
    """Share of the memory bandwidth that a large elementwise kernel reaches."""

    fraction: Share


class Reduction(Group):
    """Share of the memory bandwidth that kernels which reduce rows reach: norms, softmax, losses."""

    fraction: Share


class Lookup(Group):
    """Share of the memory bandwidth that kernels reach which gather or change rows of embedding tables, in whole sectors."""

    fraction: Share


class Pace(Group):
    """Elements that the device finishes in a second in kernels which handle them one at a time."""

    strided: Hertz
    """Copies between layouts and operands that are broadcast: addresses are computed for each element."""
    rows: Hertz
    """Norms of rows that do not load several elements at once."""
    gather: Hertz
    """Lookups in a table, and their gradients."""


class Launch(Group):
    """Least time of one kernel, from its launch to its end."""

    time: Seconds


class Contention(Group):
    """What kernels and messages cost one another where they run at the same time."""

    slowdown: Annotated[Fraction, Field(ge=1, lt=2)]
    """Factor on both, as long as both run: messages take cores and memory bandwidth."""


class Products(Spec):
    """How much of a peak products reach."""

    matmul: MatmulEfficiency
    convolution: Convolution


class OtherProducts(Spec):
    """Where the products of one precision reach another share than the device's first; None takes that of the device."""

    matmul: MatmulEfficiency | None = None
    convolution: Convolution | None = None


class Efficiency(Products):
    """How much of its peaks the device reaches, and what a kernel costs at least."""

    precisions: dict[Precision, OtherProducts] = Field(default_factory=dict)
    """Of precisions that other units compute, as fp32 beside tensor cores for fp16, or the same units otherwise, as tf32."""
    attention: FusedAttention
    """Of the best kernel for the device."""
    attention_kernels: dict[Literal["flash-2", "cudnn"], FusedAttention] = Field(default_factory=dict)
    """Of other kernels, by the names that strategies use."""
    streaming: Streaming
    reduction: Reduction
    launch: Launch
    lookup: Lookup | None = None
    """None is that of elementwise kernels."""
    pace: Pace | None = None
    """None where memory alone binds."""
    contention: Contention | None = None
    """None where messages move without the cores, as on TPUs."""

    def fused_attention(self, kind: str) -> FusedAttention:
        """Those of a kernel that a strategy names."""
        if kind in FIRST_FLASH:
            second, (forward, backward) = self.fused_attention("flash-2"), FIRST_FLASH[kind]
            slower = {"fraction": second.fraction * forward, "backward": second.backward * backward / forward}
            return second.model_copy(update=slower)
        return self.attention_kernels.get(kind, self.attention)  # type: ignore[call-overload, no-any-return]

    def products(self, precision: Precision) -> Products:
        """Those of one precision."""
        own = self.precisions.get(precision)
        if own is None:
            return self
        return Products.model_construct(
            matmul=own.matmul or self.matmul, convolution=own.convolution or self.convolution
        )


class Power(Group):
    """Electric power of one device."""

    idle: Watts
    active: Watts


class Device(Spec):
    """One accelerator, or one CPU socket or cloud machine where that computes."""

    name: Text
    kind: Literal["gpu", "tpu", "npu", "cpu"]
    """npu: another accelerator with a compiler of its own, as Trainium and Gaudi."""
    compute: Compute
    memory: Memory
    caches: tuple[Cache, ...] = ()
    efficiency: Efficiency
    power: Power | None = None


class Storage(Group):
    """Drives of one host (NVMe), all of them together."""

    capacity: Bytes
    read: BytesPerSecond
    write: BytesPerSecond


class Copies(Group):
    """How fast a host takes what leaves its devices, when all of them send at once."""

    fraction: Share = 0.8
    """Of the link of a device, that copies of pinned memory reach."""
    uplink: BytesPerSecond | None = None
    """Of a switch that several devices share, as copies reach it, per direction; None: nothing is shared."""
    uplink_devices: Size = 1
    """Devices that share one."""
    update: BytesPerSecond | None = None
    """Of the host's memory, all its cores together, that an optimiser which steps there reaches."""


USUAL_COPIES = Copies.model_construct(source="", status="assumed")
"""Of a host that states none."""


class Thread(Group):
    """One thread of a host, which launches the kernels of a device."""

    speed: Positive
    """Relative to EPYC 7742's, at which the times of frameworks are stated."""


USUAL_THREAD = Thread.model_construct(speed=1.0, source="", status="assumed")
"""Of a host that states none."""


class Host(Group):
    """The computer that drives some of the devices."""

    name: str
    devices: Size
    """Devices in one host."""
    cores: Size | None = None
    memory: Bytes | None = None
    memory_bandwidth: BytesPerSecond | None = None
    device_link: BytesPerSecond | None = None
    """Between the host's memory and one device, per direction."""
    thread: Thread | None = None
    """None: as fast as EPYC 7742's."""
    copies: Copies | None = None
    """None: each device has its link for itself, and reaches 0.8 of it, as A100 (26 of 31.5 GB/s) and H100 (51 of 63) do."""
    storage: Storage | None = None

    @property
    def takes(self) -> Copies:
        """How fast it takes what leaves its devices, or the usual."""
        return self.copies or USUAL_COPIES

    @property
    def launcher(self) -> Thread:
        """What launches kernels, or the usual."""
        return self.thread or USUAL_THREAD


class Price(Group):
    """What one device costs, its share of the host included."""

    per_device: DollarsPerSecond


class Hardware(SpecFile):
    """A machine, from one device up to the largest network it can be part of."""

    device: Device
    network: tuple[Tier, ...] = ()
    """From the innermost tier to the outermost."""
    host: Host
    price: Price | None = None

    @property
    def reach(self) -> int:
        """The most devices that the network joins."""
        return self.network[-1].devices if self.network else 1

    def faults(self) -> Iterator[Fault]:
        """Also: tiers out of order, a torus that does not multiply out, zero peaks, idle above active."""
        yield from super().faults()
        yield from network_faults(self.network)
        positive = {
            "device.memory.capacity": self.device.memory.capacity,
            "device.memory.bandwidth": self.device.memory.bandwidth,
            **{f"device.compute.peak.{name}": rate for name, rate in self.device.compute.peak.items()},
        }
        for path, value in positive.items():
            if not value > 0:
                yield Fault(path, "must be greater than 0", value)
        power = self.device.power
        if power and power.idle > power.active:
            yield Fault("device.power.idle", "is above the active power", power.idle)
