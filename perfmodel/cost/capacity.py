"""Memory that the devices of a pipeline stage need."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.in_flight import IN_FLIGHT, weight_versions
from perfmodel.formulas.memory import sharded
from perfmodel.graph.ops import Attention
from perfmodel.graph.recomputation import dropped
from perfmodel.parallel.expert import ExpertGroups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfmodel.parallel import Layout, LocalBlock, Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Strategy
    from perfmodel.specs.strategy import Schedule
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
    held = holdings(share, layout, strategy.schedule, stage)
    expert_shards = ExpertGroups(layout).shards_size
    kept, again = _body_activations(_on_stage(share, layout, stage).body, share.boundary, strategy)

    def state_held(size: Bytes, from_zero: int) -> Bytes:
        on = strategy.zero >= from_zero
        dense = sharded(size=held.dense * size, ranks=layout.shard_group * held.copies, on=on)
        return dense + sharded(size=held.experts * size, ranks=expert_shards * held.copies, on=on)

    versions = weight_versions(strategy.schedule, stage, layout.pp, layout.microbatches)
    flights = _in_flight(layout, strategy, stage)
    prologue = sum(b.repeat * b.saved for b in share.prologue)
    head = sum(b.repeat * b.saved for b in share.epilogue)
    return Footprint(
        weights=state_held(versions * state.weight, 3),
        gradients=state_held(state.gradient, 2),
        optimizer=state_held(state.optimizer, 1),
        activations=flights * (kept + np.where(held.first, prologue, 0)),
        recomputed=again + np.zeros_like(flights),
        output=np.where(held.last, head, 0),
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


@dataclass(frozen=True, slots=True)
class Holdings:
    """Parameters of one device, and which ends of the model it has."""

    dense: Count
    experts: Count
    """Routed ones that are spread over other ranks than everything else."""
    first: Count
    last: Count
    copies: int = 1
    """Devices of a pipeline that hold the same."""

    @property
    def parameters(self) -> Count:
        """All of them."""
        return self.dense + self.experts


def holdings(share: Share, layout: Layout, schedule: Schedule, stage: Count) -> Holdings:
    """Of one device of a stage. The model may turn at the last stage and end where it begins, or run both ways."""
    first, last = np.asarray(stage) == 0, np.asarray(stage) == layout.pp - 1
    if schedule == "zero-bubble-v":
        last = first
    held = _on_stage(share, layout, stage)
    parameters, experts = (
        stage_parameters(held, first=first, last=last), expert_parameters(held, layout, last=last),
    )  # fmt: skip
    if schedule != "dual-pipe":
        return Holdings(parameters - experts, experts, first, last)
    parameters = parameters + stage_parameters(held, first=last, last=first)
    experts = experts + expert_parameters(held, layout, last=first)
    return Holdings(parameters - experts, experts, first | last, first | last, copies=2)


def fullest(share: Share, layout: Layout, schedule: Schedule) -> tuple[Count, Count]:
    """Parameters, and those of routed experts among them, of the stage with most: one of the ends, or the second."""
    stages = (0, np.minimum(1, layout.pp - 1), layout.pp - 1)
    found = [holdings(share, layout, schedule, stage) for stage in stages]
    return reduce(np.maximum, (f.parameters for f in found)), reduce(np.maximum, (f.experts for f in found))


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
    return IN_FLIGHT[strategy.schedule](stage, layout.pp, layout.vpp, layout.microbatches)


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
