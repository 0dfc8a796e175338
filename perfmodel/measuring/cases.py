"""What is timed: kernels with their sizes, small ones first, so that a machine too slow for all still tells of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.measuring.machine import Level

Kind = Literal[
    "launch", "level", "product", "stream", "reduction", "convolution", "attention", "strided", "rows", "gather"
]

PRODUCTS = (
    (64, 64, 64), (128, 128, 128), (256, 256, 256), (384, 384, 384), (512, 512, 512), (768, 768, 768), (1024, 1024, 1024), (1536, 1536, 1536),
    (8, 512, 512), (16, 2048, 2048), (32, 1024, 1024), (64, 1024, 1024), (64, 4096, 1024), (128, 1024, 1024), (256, 1024, 256),
    (256, 10, 512), (128, 300, 784), (300, 784, 128), (100, 300, 64), (33, 77, 1001), (512, 768, 3072), (512, 3072, 768), (768, 3072, 512),
    (1000, 1000, 100), (1024, 1024, 64), (1024, 1024, 16), (2048, 2048, 32), (2048, 64, 2048), (256, 8192, 256), (4096, 64, 576),
    (16384, 64, 147), (512, 16384, 128), (1024, 4096, 1024), (200, 800, 200), (20, 800, 200), (640, 640, 640),
    *((rows, *layer) for rows in (8, 16, 48, 96, 192, 384, 1536)
      for layer in ((256, 256), (512, 512), (1024, 512), (512, 1024), (2048, 1024), (768, 768))),
)  # fmt: skip
"""Rows, columns and depth, as networks have them: square, short, thin, of convolutions that are unfolded, and layers of several batches;
as many as all constants of products need."""
CONVOLUTIONS = (
    (8, 64, 64, 32, 3), (16, 64, 128, 16, 3), (16, 128, 128, 16, 3), (16, 256, 256, 8, 3), (32, 512, 512, 4, 3), (16, 3, 64, 32, 3),
    (16, 64, 64, 56, 1), (8, 256, 64, 28, 1), (4, 3, 64, 112, 7), (4, 128, 128, 28, 3), (32, 64, 64, 16, 3), (8, 128, 256, 14, 3),
)  # fmt: skip
"""Samples, input and output channels, side of the map, side of the filter; stride 1, the map keeps its size."""
ATTENTION = (
    (8, 8, 32, 64), (4, 2, 256, 64), (2, 16, 128, 32), (8, 12, 64, 64), (1, 16, 256, 128), (4, 4, 384, 64), (2, 6, 768, 64), (32, 4, 32, 32),
    (4, 8, 128, 64), (2, 12, 256, 64), (1, 12, 512, 64), (8, 4, 64, 32), (1, 8, 1024, 64), (4, 12, 128, 64), (2, 4, 512, 32), (16, 8, 64, 64),
)  # fmt: skip
"""Samples, heads, positions, width of a head."""
STREAMS = tuple(2.05 + 0.07 * step for step in range(12))
"""Traffic of kernels that stream, over the largest cache: less would be served by it; of caches of 32 MiB, more would be tensors that
the allocator of glibc returns to the system after each call, whose pages are then made anew."""
LEVELS = 0.5
"""Working set over the capacity of a cache whose bandwidth is timed."""
FROM_MEMORY = 4.0
"""Working set over the largest cache where memory is timed."""
LARGEST = 1 / 8
"""Of the memory, that one case may take."""
NO_CACHE = 32e6
"""Bytes of the largest cache where the system does not tell."""
WIDTH = 1024
"""Of rows that are reduced and looked up."""
SMALL = 2**20
"""Elements whose pace is timed: 4 MiB, which a cache holds, so that memory does not bind."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel to time."""

    kind: Kind
    sizes: tuple[int, ...]


def cases(caches: Sequence[Level], memory: float, *, torch: bool, ranks: int = 1) -> tuple[Case, ...]:
    """Everything that is timed, in order.

    Args:
        caches: of the machine.
        memory: of the machine, bytes.
        torch: whether PyTorch is there, which convolves and attends.
        ranks: processes that share the caches.
    """
    largest = max((level.capacity for level in caches), default=NO_CACHE)
    most = LARGEST * memory / ranks
    levels = [Case("level", (int(LEVELS * level.capacity / ranks),)) for level in caches]
    levels.append(Case("level", (int(min(FROM_MEMORY * largest, most)),)))
    paces = [Case("launch", (1,)), Case("strided", (SMALL,)), Case("rows", (SMALL,)), Case("gather", (SMALL,))]
    traffics = [min(times * largest / ranks, most) for times in STREAMS]
    moved = [Case("stream", (int(traffic / 12),)) for traffic in traffics]
    reduced = [Case("reduction", (int(traffic / (8 * WIDTH)),)) for traffic in traffics]
    products = [Case("product", sizes) for sizes in sorted(PRODUCTS, key=_work)]
    networks = [Case("convolution", sizes) for sizes in CONVOLUTIONS] + [
        Case("attention", sizes) for sizes in ATTENTION
    ]
    return (*levels, *paces, *products, *_alternating(moved, reduced), *(networks if torch else ()))


def _work(sizes: tuple[int, int, int]) -> int:
    rows, columns, depth = sizes
    return rows * columns * depth


def _alternating(one: Sequence[Case], other: Sequence[Case]) -> list[Case]:
    return [case for pair in zip(one, other, strict=True) for case in pair]
