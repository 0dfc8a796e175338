"""What a process takes from its device: tensors, what the allocator keeps beyond them, and what it does not know of, as ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.memory import reserved_memory

if TYPE_CHECKING:
    from perfmodel.cost.capacity import Footprint
    from perfmodel.parallel import Layout
    from perfmodel.specs import Hardware, Strategy
    from perfmodel.units import Bytes, Count

GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class Range:
    """Least, in the middle of cases, and most of nine in ten; numbers, or columns over stages."""

    low: Bytes
    typical: Bytes
    high: Bytes


NONE = Range(0.0, 0.0, 0.0)
CONTEXT = {"gpu": Range(0.4 * GIB, 1.0 * GIB, 1573 * 2.0**20), "tpu": NONE, "npu": NONE, "cpu": NONE}
"""Of one process on a device of a kind: the driver's structures and the code of kernels. 1,271 MiB on V100 and 1,573 MiB on
A100 with PyTorch's kernels loaded at once (BigScience, chronicles-prequel.md of tr11-176B-ml, read off nvidia-smi); since
CUDA 11.7 kernels are loaded as they are called, which the lower end assumes. XLA reports what is left of TPU memory."""

CONNECTION = float((1 << 22) + 120 * 640 * 8 * 8 + 8 * 512 * 8 * 16)
"""Buffers of one connection of NCCL: 4 MiB of the simple protocol, LL128's and LL's (NCCL, src/init.cc: DEFAULT_BUFFSIZE,
DEFAULT_LL128_BUFFSIZE, DEFAULT_LL_BUFFSIZE)."""
CONNECTIONS = Range(8, 24, 64)
"""Of one communicator: channels times neighbours that a device receives from, one of a ring, up to three of a tree (assumed)."""


def reserved(footprint: Footprint, strategy: Strategy) -> Range:
    """Of the allocator: at least what tensors take, usually some of what they took at another moment too."""
    habits, tensors = strategy.allocates, footprint.total

    def taken(share: float, kept: Bytes) -> Bytes:
        return reserved_memory(allocated=tensors, share=share, outside=kept)

    return Range(
        tensors, taken(float(habits.reserve), footprint.idle), taken(float(habits.reserve_most), footprint.idle)
    )


def device(footprint: Footprint, hardware: Hardware, strategy: Strategy, layout: Layout) -> Range:
    """Of the device, as nvidia-smi shows it: with context and buffers of collectives."""
    inner, context, groups = reserved(footprint, strategy), CONTEXT[hardware.device.kind], _communicators(layout)
    return Range(
        inner.low + context.low,
        inner.typical + context.typical + groups * CONNECTIONS.typical * CONNECTION,
        inner.high + context.high + groups * CONNECTIONS.high * CONNECTION,
    )


def room(hardware: Hardware) -> float:
    """Bytes that tensors find on a device at best: its memory without the least context."""
    return float(hardware.device.memory.capacity) - float(CONTEXT[hardware.device.kind].low)


def _communicators(layout: Layout) -> Count:
    """Groups of more than one device that a device belongs to."""
    sizes = (layout.tp, layout.cp, layout.dp, layout.pp, layout.ep)
    return sum((np.asarray(size) > 1) * 1.0 for size in sizes)
