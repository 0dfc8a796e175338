"""Memory that the devices of a pipeline stage need."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.memory import in_flight_1f1b, sharded
from perfmodel.graph.ops import Attention

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfmodel.parallel import Layout, LocalBlock, Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Strategy
    from perfmodel.specs.strategy import Recompute
    from perfmodel.units import Bytes, Count


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on one device at the fullest moment, by class; numbers, or columns over stages."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    activations: Bytes
    """Kept for the backward passes of the microbatches in flight."""
    recomputed: Bytes
    """Of the layer that is being recomputed."""
    output: Bytes
    """Head: its input, logits and loss."""

    @property
    def total(self) -> Bytes:
        """Sum of all classes."""
        total: Bytes = sum(getattr(self, f.name) for f in fields(self))
        return total

    @property
    def states(self) -> Bytes:
        """What is kept from one step to the next: it hangs on factorisation and sharding, not on batch and recomputation."""
        return self.weights + self.gradients + self.optimizer

    @property
    def passing(self) -> Bytes:
        """What comes and goes with each microbatch, which sharding of states does not change."""
        return self.activations + self.recomputed + self.output


@dataclass(frozen=True, slots=True)
class Holdings:
    """What one device would hold of each part of the model, before states are sharded and microbatches are in flight."""

    body: Count
    """Parameters of one stage of the body, on one device."""
    prologue: Count
    """Parameters that only the first stage has."""
    epilogue: Count
    """Parameters that only the last stage has."""
    tied: Count
    """Parameters of the first stage that the last one holds a copy of."""
    kept: Bytes
    """Activations of one microbatch that the body of a stage keeps."""
    recomputed: Bytes
    """Activations of the layer that is being recomputed."""
    entering: Bytes
    """Activations of one microbatch in the prologue."""
    head: Bytes
    """Activations of one microbatch in the epilogue."""

    def parameters(self, *, first: Count, last: Count) -> Count:
        """Of one stage: its part of the body, what the ends hold, and the second copy of tied weights."""
        copy = np.where(np.asarray(first), 0, self.tied)
        return self.body + np.where(first, self.prologue, 0) + np.where(last, self.epilogue + copy, 0)


def holdings(share: Share, recompute: Recompute) -> Holdings:
    """Sums over the operations of one device's share.

    Activations are those that the operations declare (Korthikanti et al., 2022, sections 4.1 and 4.2,
    is reproduced exactly), less what recomputation drops.
    """
    body, prologue, epilogue = (
        sum(b.repeat * b.parameters for b in blocks) for blocks in (share.body, share.prologue, share.epilogue)
    )
    kept, again = _body_activations(share.body, share.boundary, recompute)
    entering, head = (sum(b.repeat * b.saved for b in blocks) for blocks in (share.prologue, share.epilogue))
    return Holdings(body, prologue, epilogue, share.tied, kept, again, entering, head)


def footprint(share: Share, state: State, layout: Layout, strategy: Strategy, stage: Count) -> Footprint:
    """What ``stage`` (counted from 0; a number or a column) holds."""
    return footprint_of(holdings(share, strategy.recompute), state, layout, strategy, stage)


def footprint_of(held: Holdings, state: State, layout: Layout, strategy: Strategy, stage: Count) -> Footprint:
    """What ``stage`` holds: states by their sharding, activations by the microbatches in flight.

    Left out: allocator reserve and the framework's context.
    """
    first, last = np.asarray(stage) == 0, np.asarray(stage) == layout.pp - 1
    parameters = held.parameters(first=first, last=last)
    zero, shards = strategy.zero, layout.shard_group
    flights = _in_flight(layout, strategy, stage)
    return Footprint(
        weights=sharded(size=parameters * state.weight, ranks=shards, on=zero >= 3),
        gradients=sharded(size=parameters * state.gradient, ranks=shards, on=zero >= 2),
        optimizer=sharded(size=parameters * state.optimizer, ranks=shards, on=zero >= 1),
        activations=flights * (held.kept + np.where(first, held.entering, 0)),
        recomputed=held.recomputed + np.zeros_like(flights),
        output=np.where(last, held.head, 0),
    )


def telling_stages(stages: Count) -> tuple[Count, ...]:
    """Stages of which one is the fullest, for a number of stages that may be a column.

    Stages between the ends hold equal weights and, the nearer to the first, no fewer microbatches: so the first, the second
    and the last are enough.
    """
    last = np.asarray(stages) - 1
    return np.zeros_like(last), np.minimum(1, last), last


def _in_flight(layout: Layout, strategy: Strategy, stage: Count) -> Count:
    if strategy.schedule == "gpipe":
        return layout.microbatches + np.zeros_like(np.asarray(stage, dtype=float))
    return in_flight_1f1b(stage=stage, stages=layout.pp, chunks=layout.vpp, microbatches=layout.microbatches)


def _body_activations(body: Iterable[LocalBlock], boundary: Bytes, recompute: Recompute) -> tuple[Bytes, Bytes]:
    """Kept of one microbatch by all layers of a stage, and held by one layer while it is recomputed."""
    kept: Bytes = 0.0
    again: Bytes = 0.0
    for block in body:
        if recompute == "full":
            kept = kept + block.repeat * boundary
            again = np.maximum(again, block.saved)
        elif recompute == "selective":
            dropped = _recomputable(block)
            kept = kept + block.repeat * (block.saved - dropped)
            again = np.maximum(again, dropped)
        else:
            kept = kept + block.repeat * block.saved
    return kept, again


def _recomputable(block: LocalBlock) -> Bytes:
    return sum(local.op.recomputable for local in block.ops if isinstance(local.op, Attention))
