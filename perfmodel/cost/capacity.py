"""Memory that the devices of a pipeline stage need."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.in_flight import IN_FLIGHT, weight_versions
from perfmodel.formulas.memory import sharded
from perfmodel.graph.ops import Attention

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
    first, last = np.asarray(stage) == 0, np.asarray(stage) == layout.pp - 1
    zero, shards = strategy.zero, layout.shard_group
    if strategy.schedule == "zero-bubble-v":  # the model turns at the last stage, and ends where it begins
        last = first
    parameters = stage_parameters(share, first=first, last=last)
    if strategy.schedule == "dual-pipe":  # the mirrored stage too, of which another device has the second copy
        parameters = parameters + stage_parameters(share, first=last, last=first)
        first = last = first | last
        shards = 2 * shards
    versions = weight_versions(strategy.schedule, stage, layout.pp, layout.microbatches)
    kept, again = _body_activations(share.body, share.boundary, strategy)
    flights = _in_flight(layout, strategy, stage)
    prologue = sum(b.repeat * b.saved for b in share.prologue)
    head = sum(b.repeat * b.saved for b in share.epilogue)
    return Footprint(
        weights=sharded(size=versions * parameters * state.weight, ranks=shards, on=zero >= 3),
        gradients=sharded(size=parameters * state.gradient, ranks=shards, on=zero >= 2),
        optimizer=sharded(size=parameters * state.optimizer, ranks=shards, on=zero >= 1),
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


def fullest_parameters(share: Share, layout: Layout, schedule: Schedule) -> Count:
    """Of one device of the stage that has most."""
    only = np.asarray(layout.pp) == 1
    begin = stage_parameters(share, first=True, last=only | (schedule == "zero-bubble-v"))
    end = stage_parameters(share, first=only, last=True)
    return begin + end if schedule == "dual-pipe" else np.maximum(begin, end)


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
        elif strategy.recompute == "selective":
            dropped = _recomputable(block)
            kept = kept + block.repeat * (block.saved - dropped)
            again = np.maximum(again, dropped)
        else:
            kept = kept + block.repeat * block.saved
    return kept, again


def _recomputable(block: LocalBlock) -> Bytes:
    return sum(local.op.recomputable for local in block.ops if isinstance(local.op, Attention))
