"""Kernels on a device, as terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.cost.split_depth import split_depth
from perfmodel.formulas.attention import flash_attention
from perfmodel.formulas.matmul import tiled_matmul
from perfmodel.formulas.roofline import fused, paced, streaming
from perfmodel.graph.kernels import Convolution, FlashAttention, Fused, Gemm, Kernel, Repeated, Stream
from perfmodel.specs.common import WIDE
from perfmodel.timeline import Part, Repeat, Term, term

if TYPE_CHECKING:
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device


@dataclass(frozen=True)
class Processor:
    """A device at one precision: turns kernels into terms."""

    device: Device
    precision: Precision

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

    @cached_property
    def _memory(self) -> dict[str, Any]:
        return {
            "bandwidth": self.device.memory.bandwidth,
            "streaming_fraction": self.device.efficiency.streaming.fraction,
            "launch": self.device.efficiency.launch.time,
        }

    @cached_property
    def _narrow_tiles(self) -> dict[str, Any]:
        return self._tiles(self.precision)

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
            "sustained": efficiency.sustained,
            "tile_half": efficiency.tile_half,
            "depth_half": efficiency.depth_half,
            **self._memory,
        }

    def time(self, kernel: Kernel, prefix: str = "", kind: str = "") -> Part:
        """The time of one kernel; ``prefix`` and ``kind`` rename what is executed again."""
        name = f"{prefix}{kernel.name}"
        match kernel:
            case Gemm():
                tiles = self._wide_tiles if kernel.operand is None else self._narrow_tiles
                gemm = split_depth(kernel, self.device.compute.cores) if self.device.kind == "gpu" else kernel
                return self._product(name, gemm, kind or "matmul", tiles if gemm.aligned else self._vector_tiles)
            case Convolution():
                fraction = self.device.efficiency.products(self.wide).convolution.fraction
                tiles = {**self._wide_tiles, "fraction": fraction}
                direct = not (kernel.winograd and self.wide == "fp32" and self.device.kind == "gpu")
                return self._product(name, kernel if direct else _winograd(kernel), kind or "convolution", tiles)
            case FlashAttention():
                return self._attention(name, kernel, kind or "attention")
            case Fused():
                return self._fused(name, kernel, kind or kernel.kind)
            case Stream():
                return self._stream(name, kernel, kind or "memory-bound")
            case Repeated():
                return Repeat(name, self.time(kernel.kernel, prefix, kind), kernel.times)

    def _product(self, name: str, kernel: Gemm | Convolution, kind: str, tiles: dict[str, Any]) -> Term:
        return term(
            name, tiled_matmul, kind=kind,
            rows=kernel.rows, columns=kernel.columns, depth=kernel.depth, count=kernel.count,
            traffic=kernel.traffic, **tiles,
        )  # fmt: skip

    def _attention(self, name: str, kernel: FlashAttention, kind: str) -> Term:
        group = self.device.efficiency.attention
        return term(
            name, flash_attention, kind=kind, heads=kernel.heads, queries=kernel.queries, keys=kernel.keys,
            head_dim=kernel.head_dim, products=kernel.products, traffic=kernel.traffic,
            peak=self.device.compute.peak[self.wide], cores=self.device.compute.cores, block=group.block,
            fraction=group.fraction * group.backward if kernel.backward else group.fraction,
            keys_half=group.keys_half, **self._memory,
        )  # fmt: skip

    def _fused(self, name: str, kernel: Fused, kind: str) -> Term:
        return term(
            name, fused, kind=kind, work=kernel.flops, traffic=kernel.traffic,
            compute_rate=self.device.compute.peak[self.wide],
            fraction=self.device.efficiency.products(self.wide).matmul.fraction, **self._memory,
        )  # fmt: skip

    def _stream(self, name: str, kernel: Stream, kind: str) -> Term:
        efficiency = self.device.efficiency
        group = efficiency.reduction if kernel.reduces else efficiency.streaming
        moved: dict[str, Any] = {
            "traffic": kernel.traffic, "bandwidth": self.device.memory.bandwidth, "fraction": group.fraction,
            "launch": efficiency.launch.time,
        }  # fmt: skip
        if kernel.pace is None or efficiency.pace is None:
            return term(name, streaming, kind=kind, **moved)
        rate = getattr(efficiency.pace, kernel.pace)
        return term(name, paced, kind=kind, elements=kernel.elements, rate=rate, **moved)


def _winograd(kernel: Convolution) -> Convolution:
    """The products that Winograd's F(2 x 2, 3 x 3) leaves: 16 multiplications for 4 outputs in place of 36.

    Lavin and Gray, Fast algorithms for convolutional neural networks, CVPR 2016 (arXiv:1509.09308), section 4.1.
    GPU libraries use it in fp32; the transforms are taken to hide behind the products.
    """
    return replace(kernel, depth=kernel.depth * 16 / 36)
