"""Memory that the devices of a pipeline stage need."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.memory import in_flight_1f1b, sharded
from perfmodel.graph.ops import Attention
from perfmodel.graph.recomputation import dropped
from perfmodel.parallel.expert import ExpertGroups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfmodel.parallel import Layout, LocalBlock, Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Strategy
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


def footprint(share: Share, state: State, layout: Layout, strategy: Strategy, stage: Count) -> Footprint:
    """What ``stage`` (counted from 0; a number or a column) holds.

    Activations are those that the operations declare (Korthikanti et al., 2022, sections 4.1 and 4.2,
    is reproduced exactly), times the microbatches in flight. Left out: allocator reserve and the
    framework's context.
    """
    first, last = np.asarray(stage) == 0, np.asarray(stage) == layout.pp - 1
    held = _on_stage(share, layout, stage)
    experts = expert_parameters(held, layout, last=last)
    parameters = stage_parameters(held, first=first, last=last) - experts
    zero, shards, expert_shards = strategy.zero, layout.shard_group, ExpertGroups(layout).shards_size
    kept, again = _body_activations(held.body, share.boundary, strategy)

    def held_state(size: Bytes, stage_of_zero: int) -> Bytes:
        on = zero >= stage_of_zero
        dense = sharded(size=parameters * size, ranks=shards, on=on)
        return dense + sharded(size=experts * size, ranks=expert_shards, on=on)

    flights = _in_flight(layout, strategy, stage)
    prologue = sum(b.repeat * b.saved for b in share.prologue)
    head = sum(b.repeat * b.saved for b in share.epilogue)
    return Footprint(
        weights=held_state(state.weight, 3),
        gradients=held_state(state.gradient, 2),
        optimizer=held_state(state.optimizer, 1),
        activations=flights * (kept + np.where(first, prologue, 0)),
        recomputed=again + np.zeros_like(flights),
        output=np.where(last, head, 0),
    )


def stage_parameters(share: Share, *, first: Count, last: Count) -> Count:
    """Of one device: its part of the body, what the ends hold, and the second copy of tied weights."""
    body, prologue, epilogue = (
        sum(b.repeat * b.parameters for b in blocks) for blocks in (share.body, share.prologue, share.epilogue)
    )
    copy = np.where(np.asarray(first), 0, share.tied)
    return body + np.where(first, prologue, 0) + np.where(last, epilogue + copy, 0)


def expert_parameters(share: Share, layout: Layout, *, last: Count) -> Count:
    """Of one device: its part of the routed experts; none where they are copied as everything else is."""
    body, epilogue = (sum(b.repeat * b.expert_parameters for b in blocks) for blocks in (share.body, share.epilogue))
    apart = (np.asarray(layout.ep) > 1) | (np.asarray(layout.etp) != layout.tp)
    return np.where(apart, body + np.where(last, epilogue, 0), 0)


def fullest(share: Share, layout: Layout) -> tuple[Count, Count]:
    """Parameters, and those of routed experts among them, of the stage with most: one of the ends, or the second."""
    found = []
    for stage in (0, np.minimum(1, layout.pp - 1), layout.pp - 1):
        held, last = _on_stage(share, layout, stage), np.asarray(stage) == layout.pp - 1
        experts = expert_parameters(held, layout, last=last)
        found.append((stage_parameters(held, first=np.asarray(stage) == 0, last=last), experts))
    parameters, experts = (reduce(np.maximum, some) for some in zip(*found, strict=True))
    return parameters, experts


def _on_stage(share: Share, layout: Layout, stage: Count) -> Share:
    """The share with the layers that a stage has."""
    made, last = layout.cut, np.asarray(stage) == layout.pp - 1

    def repeat(block: LocalBlock) -> Count:
        if not block.places or not np.all(made.chunk):
            return block.repeat - np.where(last, made.spare * block.repeat / share.layers, 0)
        deep = np.ndim(np.asarray(stage) + layout.pp)
        places = np.array(block.places).reshape(-1, *[1] * deep)
        layers: Count = np.sum(made.stage_of(places, layout.pp) == stage, axis=0)
        return layers

    return replace(share, body=tuple(replace(block, repeat=repeat(block)) for block in share.body))


def _in_flight(layout: Layout, strategy: Strategy, stage: Count) -> Count:
    if strategy.schedule == "gpipe":
        return layout.microbatches + np.zeros_like(np.asarray(stage, dtype=float))
    return in_flight_1f1b(stage=stage, stages=layout.pp, chunks=layout.vpp, microbatches=layout.microbatches)


def _body_activations(body: Iterable[LocalBlock], boundary: Bytes, strategy: Strategy) -> tuple[Bytes, Bytes]:
    """Kept of one microbatch by all layers of a stage, and held by one layer while it is recomputed."""
    kept: Bytes = 0.0
    again: Bytes = 0.0
    for block in body:
        if strategy.recompute == "full":
            kept = kept + block.repeat * boundary
            again = np.maximum(again, block.saved)
        else:
            less = _recomputable(block, strategy)
            kept = kept + block.repeat * (block.saved - less)
            again = np.maximum(again, less)
    return kept, again


def _recomputable(block: LocalBlock, strategy: Strategy) -> Bytes:
    """What one layer does not keep, and holds while it is recomputed."""
    ops = [local.op for local in block.ops]
    cores = [op.recomputable for op in ops if isinstance(op, Attention)] if strategy.recompute == "selective" else []
    return sum(cores) + sum(dropped(op, strategy.modules) for op in ops)
