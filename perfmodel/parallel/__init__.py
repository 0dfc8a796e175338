"""Graph x strategy -> what one device computes, sends and holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfmodel.graph.adapters import spared
from perfmodel.graph.ops import Experts, Linear, Tables, is_frozen
from perfmodel.graph.tensors import weight_tensors
from perfmodel.parallel import context, expert, tables, tensor
from perfmodel.parallel.layout import Group, Layout, arrange
from perfmodel.parallel.messages import Message
from perfmodel.parallel.rules import replicas

if TYPE_CHECKING:
    from perfmodel.graph import Block, Graph
    from perfmodel.graph.ops import Op
    from perfmodel.specs import Strategy
    from perfmodel.units import Bytes, Count

__all__ = ["Group", "Layout", "LocalBlock", "LocalOp", "Message", "Share", "arrange", "divide", "replicas"]


@dataclass(frozen=True, slots=True)
class LocalOp:
    """One device's part of an operation, with what it exchanges."""

    op: Op
    forward: tuple[Message, ...] = ()
    backward: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalBlock:
    """One device's part of a block."""

    name: str
    ops: tuple[LocalOp, ...]
    repeat: Count
    places: tuple[int, ...] = ()
    """Which layers of the model these are, where it has several kinds."""

    @property
    def parameters(self) -> Count:
        """That this device holds of one repetition, without those of embedding tables, whose states are their own."""
        return sum(local.op.parameters for local in self.ops if not isinstance(local.op, Tables))

    @property
    def spared(self) -> Bytes:
        """What the weights of one repetition take less than in the precision that computes."""
        return sum(spared(local.op) for local in self.ops if isinstance(local.op, Linear))

    @property
    def expert_parameters(self) -> Count:
        """Of them, those of routed experts."""
        return sum(local.op.parameters for local in self.ops if isinstance(local.op, Experts))

    @property
    def experts(self) -> Count:
        """Routed experts that this device holds in one repetition; 1 where there are none."""
        held = [local.op.experts for local in self.ops if isinstance(local.op, Experts)]
        return sum(held) if held else 1

    @property
    def gradients(self) -> Count:
        """Elements of weight gradients that one repetition makes: shared weights have one here too."""
        trained = self.trained
        return trained.parameters + sum(
            op.inputs * op.outputs for op in (local.op for local in trained.ops) if isinstance(op, Linear) and op.shared
        )

    @property
    def trained(self) -> LocalBlock:
        """Its operations whose weights are trained, or that have none."""
        return replace(self, ops=tuple(local for local in self.ops if not is_frozen(local.op)))

    @property
    def saved(self) -> Bytes:
        """Activations that one repetition keeps for the backward pass."""
        return sum(local.op.saved for local in self.ops)


@dataclass(frozen=True, slots=True)
class Share:
    """What one pipeline stage of one replica has of the model."""

    prologue: tuple[LocalBlock, ...]
    body: tuple[LocalBlock, ...]
    """With the repetitions of one stage."""
    epilogue: tuple[LocalBlock, ...]
    boundary: Bytes
    """Activations that this device hands to the next block."""
    tied: Count
    uneven: bool = False
    """Blocks of the body take unequal times, so that which of them a stage has matters."""

    @property
    def layers(self) -> Count:
        """Repetitions of the body on one stage."""
        return sum(block.repeat for block in self.body)

    @property
    def products(self) -> Count:
        """Operations of the body on one stage that multiply with weights; the experts of a layer are one."""
        return sum(b.repeat * sum(isinstance(local.op, Linear | Experts) for local in b.ops) for b in self.body)

    @property
    def tables(self) -> tuple[Tables, ...]:
        """Embedding tables, each all that one device has of it."""
        return tuple(local.op for block in self.body for local in block.ops if isinstance(local.op, Tables))

    @property
    def tensors(self) -> Count:
        """Weight tensors of one replica's stage, both ends counted: in a pipeline no less than any stage has."""
        blocks = (*self.prologue, *self.body, *self.epilogue)
        return sum(b.repeat * sum(weight_tensors(local.op) for local in b.ops) for b in blocks)

    @property
    def trained(self) -> Share:
        """What of it is trained; the share itself where no weights are frozen."""
        blocks = (*self.prologue, *self.body, *self.epilogue)
        if not any(is_frozen(local.op) for block in blocks for local in block.ops):
            return self
        prologue, body, epilogue = (
            tuple(b.trained for b in part) for part in (self.prologue, self.body, self.epilogue)
        )
        return replace(self, prologue=prologue, body=body, epilogue=epilogue, tied=0)


def divide(graph: Graph, layout: Layout, strategy: Strategy) -> Share:
    """The share of one device in each part of the graph."""
    sequence = layout.tp if strategy.sequence_parallel else 1
    form = context.form_of(strategy)

    def local(op: Op) -> LocalOp:
        piece = context.shard(op, form, ranks=layout.cp)
        held = expert.shard(tensor.shard(piece, ranks=layout.tp, sequence=sequence), layout, strategy)
        held = tables.shard(held, layout, strategy.spreads_tables)
        vectors, gradients = (
            tables.messages(held, layout, strategy.spreads_tables, backward=backward) for backward in (False, True)
        )
        tokens = expert.messages(piece, held, layout, strategy)
        spread, pieces = strategy.sequence_parallel, strategy.tensor_overlap == "passes"
        forward = tensor.forward_messages(piece, layout.tensor, sequence_parallel=spread, pieces=pieces)
        backward = tensor.backward_messages(
            piece, layout.tensor, sequence_parallel=spread, overlap=strategy.tensor_overlap != "none", pieces=pieces
        )
        return LocalOp(
            held,
            (*context.messages(held, form, layout.context, backward=False), *forward, *tokens, *vectors),
            (*context.messages(held, form, layout.context, backward=True), *backward, *tokens, *gradients),
        )

    def blocks(of: tuple[Block, ...], stages: Count) -> tuple[LocalBlock, ...]:
        return tuple(LocalBlock(b.name, tuple(map(local, b.ops)), b.repeat / stages, b.places) for b in of)

    return Share(
        blocks(graph.prologue, 1),
        blocks(graph.body, layout.pp / layout.cut.fullness),
        blocks(graph.epilogue, 1),
        graph.boundary / layout.cp / sequence,
        graph.tied / layout.tp,
        graph.uneven,
    )
