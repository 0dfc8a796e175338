"""1F1B: as few forward passes as fill the pipeline, then one backward, one forward; plain, or interleaved over chunks.

With several chunks on a stage microbatches pass in groups of as many as there are stages, each group through the first
chunk, then through the next, as in Megatron-LM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.schedule.gpipe import bubble
from perfmodel.schedule.passes import arranged, forward_pass, whole_backward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.schedule.passes import Order, Slot

__all__ = ["bubble", "order"]


def order(stages: int, chunks: int, microbatches: int) -> Order:
    """Passes of each stage; with several chunks microbatches in multiples of the stages."""
    return arranged(_stage(stage, stages, chunks, microbatches) for stage in range(stages))


def _stage(stage: int, stages: int, chunks: int, microbatches: int) -> Iterator[Slot]:
    total = microbatches * chunks
    fill = min(total, _warm_up(stages - stage - 1, stages, chunks))
    for k in range(fill + total):
        if k < total:
            microbatch, chunk = place(k, stages, chunks)
            yield forward_pass(microbatch, chunk * stages + stage)
        if k >= fill:
            microbatch, chunk = place(k - fill, stages, chunks)
            yield whole_backward(microbatch, (chunks - 1 - chunk) * stages + stage)


def _warm_up(after: int, stages: int, chunks: int) -> int:
    """Forward passes before the first pair; ``after`` are the stages that follow."""
    return after if chunks == 1 else 2 * after + (chunks - 1) * stages


def place(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """Microbatch and chunk of the k-th forward pass of a stage."""
    if chunks == 1:
        return k, 0
    group, within = divmod(k, stages * chunks)
    chunk, inside = divmod(within, stages)
    return group * stages + inside, chunk
