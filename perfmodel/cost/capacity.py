"""Memory that the devices of a pipeline stage need."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.holdings import holdings
from perfmodel.cost.in_flight import IN_FLIGHT, weight_versions
from perfmodel.formulas.memory import sharded
from perfmodel.parallel.expert import ExpertGroups

if TYPE_CHECKING:
    from perfmodel.parallel import Layout, Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Strategy
    from perfmodel.specs.sharding import Scope
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


def footprint(share: Share, state: State, layout: Layout, strategy: Strategy, stage: Count) -> Footprint:
    """What ``stage`` (counted from 0; a number or a column) holds: states by their sharding, activations by microbatches in flight.

    Left out: allocator reserve and the framework's context.
    """
    held = holdings(share, layout, strategy, stage)
    experts, spread = ExpertGroups(layout), strategy.sharding

    def sharded_state(size: Bytes, scope: Scope) -> Bytes:
        on = scope != "N"
        dense = sharded(size=held.dense * size, ranks=layout.parts(scope) * held.copies, on=on)
        return dense + sharded(size=held.experts * size, ranks=experts.parts(scope) * held.copies, on=on)

    versions = weight_versions(strategy.schedule, stage, layout.pp, layout.microbatches)
    flights = IN_FLIGHT[strategy.schedule](stage, layout.pp, layout.vpp, layout.microbatches)
    return Footprint(
        weights=sharded_state(versions * state.weight, spread.parameters),
        gradients=sharded_state(state.gradient, spread.gradients),
        optimizer=sharded_state(state.optimizer, spread.optimizer),
        activations=flights * (held.kept + held.entering),
        recomputed=held.recomputed + np.zeros_like(flights),
        output=held.head + np.zeros_like(flights),
    )
