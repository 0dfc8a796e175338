"""Kernels on a device, as terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.formulas.attention import flash_attention
from perfmodel.formulas.embedding import tiered_lookup
from perfmodel.formulas.matmul import tiled_matmul
from perfmodel.formulas.roofline import chunked, fused, paced, streaming
from perfmodel.formulas.split import split_product
from perfmodel.graph.kernels import (
    Chunked,
    Convolution,
    FlashAttention,
    Fused,
    Gemm,
    Kernel,
    Lookup,
    Repeated,
    Stream,
)
from perfmodel.specs.common import ELEMENT_BYTES, WIDE
from perfmodel.timeline import Part, Repeat, Term, term

if TYPE_CHECKING:
    from perfmodel.graph.kernels import Direction
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device
    from perfmodel.specs.strategy import Attention as AttentionKind
    from perfmodel.units import BytesPerSecond, Number

SCAN_PACE = 9.0e9
"""Bytes per second that one core of a GPU gets through in the Triton kernels of mamba_ssm.

Fitted to 22 calibration rows of hybrids (megatron-bridge, dgxc-benchmarking) on H100, GB200, GB300 and B300: their median error is
9 to 10 % from 8.6 to 9.3 GB/s and larger on either side. Checks: TileLang's chunk scan on H800 moves 10.3 GB/s with each core
(tile-ai/tilelang, benchmark/mamba2/README.md: 1.278 ms for 8 x 8192 tokens).
"""


@dataclass(frozen=True)
class Processor:
    """A device at one precision: turns kernels into terms."""

    device: Device
    precision: Precision
    attention: AttentionKind = "flash"
    sustained: bool = True
    """At the clocks of hours of training; else at those of a short benchmark."""
    link: BytesPerSecond = float("inf")
    """Bytes a second to the memory of the host, for rows of tables that are there."""

    @property
    def wide(self) -> Precision:
        """What computes all but the products of a job with narrow operands."""
        wide = WIDE.get(self.precision, self.precision)
        return wide if wide in self.device.compute.peak else self.precision

    @property
    def slowdown(self) -> float:
        """Of kernels and messages that run at the same time."""
        contention = self.device.efficiency.contention
        return contention.slowdown if contention else 1.0

    def _served(self, traffic: Number, fraction: Number) -> tuple[Number, Number]:
        """The bandwidth that serves a kernel, and the share of it that it reaches.

        Those of memory, or of the smallest cache of stated bandwidth that holds all that the kernel moves: what came before has
        left it there.
        """
        bandwidth: Number = self.device.memory.bandwidth
        for cache in sorted(self.device.caches, key=lambda one: -one.capacity):
            if cache.bandwidth is not None:
                inside = np.asarray(traffic) <= cache.capacity
                bandwidth, fraction = np.where(inside, cache.bandwidth, bandwidth), np.where(inside, 1.0, fraction)
        return bandwidth, fraction

    def _memory_at(self, fraction: float | None) -> dict[str, Any]:
        return {
            "bandwidth": self.device.memory.bandwidth,
            "streaming_fraction": self.device.efficiency.streaming.fraction if fraction is None else fraction,
            "launch": self.device.efficiency.launch.time,
        }

    @cached_property
    def _narrow_tiles(self) -> dict[str, Any]:
        return self._tiles(self.precision)

    @cached_property
    def _gradient_tiles(self) -> dict[str, Any]:
        """Of gradients with narrow operands."""
        narrow = self._narrow_tiles
        return {
            **narrow,
            "fraction": narrow["fraction"] * self.device.efficiency.products(self.precision).matmul.gradients,
        }

    @cached_property
    def _wide_tiles(self) -> dict[str, Any]:
        return self._tiles(self.wide)

    @cached_property
    def _vector_tiles(self) -> dict[str, Any]:
        """Of products that the matrix units refuse; TPUs and CPUs pad them instead."""
        vector = self.device.kind == "gpu" and "fp32" in self.device.compute.peak
        return self._tiles("fp32") if vector else self._wide_tiles

    def _tiles(self, precision: Precision) -> dict[str, Any]:
        efficiency = self.device.efficiency.products(precision).matmul
        tiles = np.array(efficiency.tiles, dtype=float)
        return {
            "peak": self.device.compute.peak[precision],
            "cores": self.device.compute.cores,
            "tile_rows": tiles[:, 0],
            "tile_columns": tiles[:, 1],
            "fraction": efficiency.fraction,
            "sustained": efficiency.sustained if self.sustained else 1.0,
            "tile_balance": efficiency.tile_balance,
            "depth_half": efficiency.depth_half,
            "depth_time": efficiency.depth_time,
            "overlap": efficiency.overlap,
            **self._memory_at(efficiency.memory_fraction),
        }

    def time(self, kernel: Kernel, prefix: str = "", kind: str = "") -> Part:
        """The time of one kernel; ``prefix`` and ``kind`` rename what is executed again."""
        name = f"{prefix}{kernel.name}"
        match kernel:
            case Gemm(apart=True):
                one = replace(kernel, count=1, apart=False)
                return self.time(Repeated(one, kernel.count, one_call=True), prefix, kind)
            case Gemm():
                return self._product(name, kernel, kind or "matmul", self._tiles_of(kernel))
            case Convolution():
                return self._convolution(name, kernel, kind or "convolution")
            case FlashAttention():
                return self._attention(name, kernel, kind or "attention")
            case Fused():
                return self._fused(name, kernel, kind or kernel.kind)
            case Chunked():
                return self._chunked(name, kernel, kind or "state space")
            case Stream():
                return self._stream(name, kernel, kind or "memory-bound")
            case Lookup():
                return self._lookup(name, kernel, kind or "memory-bound")
            case Repeated():
                return Repeat(name, self.time(kernel.kernel, prefix, kind), kernel.times, kernel.one_call)

    def _tiles_of(self, kernel: Gemm) -> dict[str, Any]:
        """Of the units that compute a product."""
        if not kernel.aligned:
            return self._vector_tiles
        if kernel.operand is None:
            return self._wide_tiles
        return self._gradient_tiles if kernel.is_gradient else self._narrow_tiles

    def _product(self, name: str, kernel: Gemm, kind: str, tiles: dict[str, Any]) -> Term:
        if kernel.splits > 1 and self.device.kind == "gpu":
            return self._split_product(name, kernel, kind, tiles)
        bandwidth, _ = self._served(kernel.traffic, 1.0)
        return term(
            name, tiled_matmul, kind=kind,
            rows=kernel.rows, columns=kernel.columns, depth=kernel.depth, count=kernel.count,
            traffic=kernel.traffic, **tiles | {"bandwidth": bandwidth},
        )  # fmt: skip

    def _convolution(self, name: str, kernel: Convolution, kind: str) -> Term:
        """The faster of the direct algorithm and, where GPU libraries multiply in fp32, of Winograd's.

        The transforms are taken to hide behind the products. Beside fp32 tensor cores of tf32 no faster than the plain
        units leave room for it, as on GeForce boards.
        """
        direct, plain = self._rate(self.wide), self._rate("fp32")
        if self.device.kind == "gpu" and self.wide in {"fp32", "tf32"} and kernel.saving * plain > direct:
            spared = replace(kernel, depth=kernel.depth / kernel.saving)
            return self._split_product(name, spared, kind, self._plain_convolution[kernel.direction])
        return self._split_product(name, kernel, kind, self._direct_convolution[kernel.direction])

    def _split_product(self, name: str, kernel: Gemm | Convolution, kind: str, tiles: dict[str, Any]) -> Term:
        return term(
            name, split_product, kind=kind,
            rows=kernel.rows, columns=kernel.columns, depth=kernel.depth, count=kernel.count,
            traffic=kernel.traffic, splits=kernel.splits, partial=ELEMENT_BYTES["fp32"], **tiles,
        )  # fmt: skip

    def _rate(self, precision: Precision) -> float:
        """Of large convolutions; 0 where the device does not state the precision."""
        peak = self.device.compute.peak.get(precision, 0.0)
        return float(peak * self.device.efficiency.products(precision).convolution.fraction)

    @cached_property
    def _direct_convolution(self) -> dict[Direction, dict[str, Any]]:
        return self._convolution_tiles(self.wide)

    @cached_property
    def _plain_convolution(self) -> dict[Direction, dict[str, Any]]:
        return self._convolution_tiles("fp32")

    def _convolution_tiles(self, precision: Precision) -> dict[Direction, dict[str, Any]]:
        """Constants of products but for those that convolutions have of their own, by direction."""
        group = self.device.efficiency.products(precision).convolution
        own = {"tile_balance": group.tile_balance, "depth_half": group.depth_half}
        tiles = self._tiles(precision) | {name: value for name, value in own.items() if value is not None}
        shares: dict[Direction, float] = {
            "forward": 1.0, "input_gradient": group.input_gradient, "filter_gradient": group.filter_gradient,
        }  # fmt: skip
        return {direction: {**tiles, "fraction": group.fraction * share} for direction, share in shares.items()}

    def _attention(self, name: str, kernel: FlashAttention, kind: str) -> Term:
        group = self.device.efficiency.fused_attention(self.attention)
        return term(
            name, flash_attention, kind=kind, heads=kernel.heads, queries=kernel.queries, keys=kernel.keys,
            width=kernel.width, softmaxes=1, traffic=kernel.traffic,
            peak=self.device.compute.peak[self.wide], cores=self.device.compute.cores, block=group.block,
            fraction=group.fraction * group.backward if kernel.backward else group.fraction,
            softmax_width=group.softmax_width, keys_half=group.keys_half, overlap=group.overlap,
            **self._memory_at(group.memory_fraction),
        )  # fmt: skip

    def _fused(self, name: str, kernel: Fused, kind: str) -> Term:
        return term(
            name, fused, kind=kind, work=kernel.flops, traffic=kernel.traffic,
            compute_rate=self.device.compute.peak[self.wide],
            fraction=self.device.efficiency.products(self.wide).matmul.fraction, **self._memory_at(None),
        )  # fmt: skip

    def _chunked(self, name: str, kernel: Chunked, kind: str) -> Term:
        """Cores of other processors than GPUs are taken to keep up with their memory."""
        if self.device.kind != "gpu":
            return self._fused(name, Fused(kernel.name, kernel.flops, kernel.traffic), kind)
        return term(
            name, chunked, kind=kind, work=kernel.flops, traffic=kernel.traffic,
            compute_rate=self.device.compute.peak[self.wide],
            fraction=self.device.efficiency.products(self.wide).matmul.fraction, cores=self.device.compute.cores,
            pace=SCAN_PACE, **self._memory_at(None),
        )  # fmt: skip

    def _stream(self, name: str, kernel: Stream, kind: str) -> Term:
        efficiency = self.device.efficiency
        group = efficiency.reduction if kernel.reduces else efficiency.streaming
        moved: dict[str, Any] = {
            "traffic": kernel.traffic, **dict(zip(("bandwidth", "fraction"), self._served(kernel.traffic, group.fraction), strict=True)),
            "launch": efficiency.launch.time,
        }  # fmt: skip
        if kernel.pace is None or efficiency.pace is None:
            return term(name, streaming, kind=kind, **moved)
        rate = getattr(efficiency.pace, kernel.pace)
        return term(name, paced, kind=kind, elements=kernel.elements, rate=rate, **moved)

    def _lookup(self, name: str, kernel: Lookup, kind: str) -> Term:
        efficiency = self.device.efficiency
        return term(
            name, tiered_lookup, kind=kind, traffic=kernel.traffic, missed=kernel.missed,
            bandwidth=self.device.memory.bandwidth, fraction=(efficiency.lookup or efficiency.streaming).fraction,
            link=self.link, launch=efficiency.launch.time,
        )  # fmt: skip
