"""A model as blocks of operations; a pipeline cuts between the blocks of the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.graph.ops import is_frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.graph.ops import Op
    from perfmodel.units import Bytes, Count, Flop


@dataclass(frozen=True, slots=True)
class Block:
    """Operations in order, several times over."""

    name: str
    ops: tuple[Op, ...]
    repeat: int = 1
    places: tuple[int, ...] = ()
    """Which layers of the body its repetitions are, counted from 0, where the body has several kinds."""

    @property
    def parameters(self) -> Count:
        """Weights of one repetition."""
        return sum(op.parameters for op in self.ops)

    @property
    def trained(self) -> Count:
        """Of them, those that are trained."""
        return sum(op.parameters for op in self.ops if not is_frozen(op))


@dataclass(frozen=True, slots=True)
class Graph:
    """One microbatch through a model, unsharded."""

    prologue: tuple[Block, ...]
    """What only the first pipeline stage has: embeddings."""
    body: tuple[Block, ...]
    """Equal blocks that the stages share."""
    epilogue: tuple[Block, ...]
    """What only the last stage has: final norm, head, loss."""
    boundary: Bytes
    """Activations that cross from one block of the body to the next, of one microbatch."""
    tied: Count = 0
    """Parameters of the prologue that the epilogue uses too, and so must hold a copy of in a pipeline."""
    tokens: Count | None = None
    """Of one microbatch; None where the model has none."""
    uneven: bool = False
    """Blocks of the body take unequal times, so that which of them a stage has matters."""

    def blocks(self) -> Iterator[Block]:
        """All blocks in order."""
        yield from (*self.prologue, *self.body, *self.epilogue)

    @property
    def layers(self) -> int:
        """Repetitions of the body."""
        return sum(block.repeat for block in self.body)

    @property
    def parameters(self) -> Count:
        """Of the whole model, trained or frozen."""
        return sum(block.repeat * block.parameters for block in self.blocks())

    @property
    def trained(self) -> Count:
        """Of them, those that are trained."""
        return sum(block.repeat * block.trained for block in self.blocks())

    def flops(self) -> Flop:
        """Forward and backward of one microbatch, as executed without recomputation."""
        return sum(
            block.repeat * kernel.flops
            for block in self.blocks()
            for op in block.ops
            for kernel in (*op.forward(), *op.backward())
        )
