"""Memory that the devices of a pipeline stage need.

Three moments are candidates for the fullest one: the backward pass inside a layer, the loss, and the optimiser step. What is
kept from step to step (`Standing`) is the same at all of them; what comes and goes with microbatches (`Passing`) is gone
when the optimiser steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.holdings import holdings
from perfmodel.cost.in_flight import IN_FLIGHT, layers_in_flight, weight_versions
from perfmodel.formulas.memory import gathered_weights, sharded
from perfmodel.parallel.expert import ExpertGroups

if TYPE_CHECKING:
    from perfmodel.cost.holdings import Holdings
    from perfmodel.parallel import Layout, Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Strategy
    from perfmodel.specs.sharding import Scope
    from perfmodel.units import Bytes, Count


@dataclass(frozen=True, slots=True)
class Moments:
    """Bytes at the three moments of which one is the fullest; numbers, or columns."""

    loss: Bytes
    """When the logits of a microbatch are there."""
    layer: Bytes
    """Inside the backward pass of one layer."""
    step: Bytes
    """When the optimiser steps."""

    @classmethod
    def alike(cls, size: Bytes) -> Moments:
        """The same at all of them."""
        return cls(size, size, size)

    def __add__(self, other: Moments) -> Moments:
        """Moment by moment."""
        return Moments(self.loss + other.loss, self.layer + other.layer, self.step + other.step)

    @property
    def most(self) -> Bytes:
        """At the fullest of them."""
        return np.maximum(np.maximum(self.loss, self.layer), self.step)


@dataclass(frozen=True, slots=True)
class Standing:
    """What hangs on factorisation and sharding, not on batch and recomputation; numbers, or columns."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    buckets: Bytes
    """Of gradients on their way to other replicas, where they are copied."""
    workspace: Bytes
    """Of libraries of products and attention."""
    gathered: Moments
    """Weights of other ranks that layers are computed with, under ZeRO 3."""
    unreduced: Moments
    """Gradients of weights as products make them, before they are added up or scattered."""
    update: Moments
    """Of the optimiser step alone."""
    staging: Moments
    """Of states that pass through the device when it steps."""

    @property
    def total(self) -> Moments:
        """At each moment."""
        kept = self.weights + self.gradients + self.optimizer + self.buckets + self.workspace
        return Moments.alike(kept) + self.gathered + self.unreduced + self.update + self.staging


@dataclass(frozen=True, slots=True)
class Passing:
    """What comes and goes with microbatches, which sharding of states does not change; numbers, or columns."""

    activations: Bytes
    recomputed: Bytes
    backward: Bytes
    output: Bytes
    staging: Bytes
    """Of what leaves for the host and comes back."""

    @property
    def total(self) -> Moments:
        """At each moment."""
        kept = self.activations + self.staging
        return Moments(kept + self.output, kept + self.recomputed + self.backward, 0.0 * kept)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on one device at the fullest moment, by class; numbers, or columns over stages. Classes of other moments are 0."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    activations: Bytes
    """Kept for the backward passes of the microbatches in flight."""
    recomputed: Bytes
    """Of the layer that is being recomputed."""
    output: Bytes
    """Head: its input, logits, their copies and loss."""
    backward: Bytes
    """Gradients of activations inside one layer."""
    staging: Bytes
    """What is on its way to the host or back, where activations or states are offloaded."""
    gathered: Bytes
    """Weights of other ranks that layers are computed with, under ZeRO 3."""
    unreduced: Bytes
    """Gradients of weights as products make them, before they are added up or scattered."""
    buckets: Bytes
    """Of gradients on their way to other replicas, where they are copied."""
    update: Bytes
    """Of the optimiser step."""
    workspace: Bytes
    """Of libraries of products and attention."""
    idle: Bytes
    """No class: what the optimiser step and the passes do not have in common, of the moment that is not the fullest. The
    allocator keeps it, since large flat buffers do not fit into the blocks of activations, nor these into those."""

    @property
    def classes(self) -> dict[str, Bytes]:
        """By name."""
        return {name: getattr(self, name) for name in CLASSES}

    @property
    def total(self) -> Bytes:
        """Sum of all classes: what tensors take, allocated in PyTorch's words."""
        total: Bytes = sum(self.classes.values())
        return total


CLASSES = tuple(name for name in Footprint.__dataclass_fields__ if name != "idle")
"""What memory is for."""


def footprint(share: Share, state: State, layout: Layout, strategy: Strategy, stage: Count) -> Footprint:
    """What ``stage`` (counted from 0; a number or a column) holds: states by their sharding, activations by microbatches in flight."""
    held = holdings(share, layout, strategy, stage)
    stands, passes = standing(held, state, layout, strategy, stage), passing(held, layout, strategy, stage)
    total = stands.total + passes.total
    stepping = total.step > np.maximum(total.loss, total.layer)
    speaking = ~stepping & (total.loss >= total.layer)

    def now(moments: Moments) -> Bytes:
        return np.where(stepping, moments.step, np.where(speaking, moments.loss, moments.layer))

    kept = stands.total.step - stands.update.step
    return Footprint(
        weights=stands.weights, gradients=stands.gradients, optimizer=stands.optimizer,
        buckets=stands.buckets, workspace=stands.workspace,
        activations=np.where(stepping, 0.0, passes.activations), output=np.where(speaking, passes.output, 0.0),
        recomputed=np.where(stepping | speaking, 0.0, passes.recomputed),
        staging=np.where(stepping, stands.staging.step, passes.staging),
        backward=np.where(stepping | speaking, 0.0, passes.backward),
        gathered=now(stands.gathered), unreduced=now(stands.unreduced), update=now(stands.update),
        idle=np.where(stepping, np.maximum(total.loss, total.layer) - kept, stands.update.step),
    )  # fmt: skip


def passing(held: Holdings, layout: Layout, strategy: Strategy, stage: Count) -> Passing:
    """Activations by the microbatches in flight, and what one layer or the loss adds."""
    flights = IN_FLIGHT[strategy.schedule](stage, layout.pp, layout.vpp, layout.microbatches)
    body, none = layers_in_flight(strategy.schedule, layout, stage), np.zeros_like(flights)
    return Passing(
        activations=body * (held.kept - held.leaving) + flights * held.entering, recomputed=held.recomputed + none,
        backward=held.backward + none, output=held.head + none, staging=held.staged + none,
    )  # fmt: skip


def standing(held: Holdings, state: State, layout: Layout, strategy: Strategy, stage: Count) -> Standing:
    """States by their sharding, less what is kept off the device, and the buffers of whatever spreads them."""
    habits, spread, off = strategy.allocates, strategy.sharding, strategy.keeps_off

    def over_ranks(size: Bytes, scope: Scope, of: Holdings = held) -> Bytes:
        return spread_over(of, layout, size, scope)

    versions = weight_versions(strategy.schedule, stage, layout.pp, layout.microbatches)
    narrow = habits.narrow_weights == "gathered" and state.is_mixed and off.optimizer == "none"
    cast = spread.parameters != "N" and narrow
    replicas = np.asarray(layout.dp * layout.cp) > 1
    copies = habits.buckets == "copies" and spread.gradients == "N"
    whole = habits.unsharded_gradients | (habits.whole_in_pipelines & (np.asarray(layout.pp) > 1))
    stays, stepped = 1 - off.share("optimizer"), off.share("optimizer") * off.updates_on_host
    summed = state.gradient * (1 - off.share("gradients"))
    return Standing(
        weights=held.tables
        + over_ranks(0.0 if cast else versions * state.weight * (1 - off.share("parameters")), spread.parameters)
        - held.spared,
        gradients=np.where(whole, *(over_ranks(summed, scope, held.learning) for scope in ("N", spread.gradients))),
        optimizer=held.table_moments + over_ranks(state.optimizer * stays, spread.optimizer, held.learning),
        buckets=habits.bucket_size + over_ranks(state.weight * copies, "N", held.learning) * replicas,
        workspace=habits.workspace + 0.0 * np.asarray(stage),
        gathered=_gathered(held, state, layout, strategy),
        unreduced=_unreduced(held.learning, state, layout, strategy),
        update=Moments(0.0, 0.0, over_ranks(float(habits.update) * (1 - stepped), spread.optimizer, held.learning)),
        staging=_states_passing(held.learning, state, layout, strategy),
    )  # fmt: skip


def spread_over(held: Holdings, layout: Layout, size: Bytes, scope: Scope) -> Bytes:
    """Of so many bytes for each parameter, what one device keeps of a state that is spread so far."""
    experts, on = ExpertGroups(layout), scope != "N"
    dense = sharded(size=held.dense * size, ranks=layout.parts(scope) * held.copies, on=on)
    return dense + sharded(size=held.experts * size, ranks=experts.parts(scope) * held.copies, on=on)


def _states_passing(held: Holdings, state: State, layout: Layout, strategy: Strategy) -> Moments:
    """Of states that pass through the device when it steps, those of two layers: one comes as one leaves."""
    off, far, none = strategy.keeps_off, strategy.sharding.optimizer, 0.0 * held.unit
    if off.optimizer == "none" or off.update == "host":
        return Moments(none, none, none)
    most = spread_over(held, layout, state.optimizer * off.share("optimizer"), far)
    two = 2 * held.unit * state.optimizer * off.share("optimizer") / layout.parts(far)
    return Moments(none, none, np.minimum(two, most))


def _is_spread(layout: Layout, scope: Scope) -> Count:
    """Whether a state is spread over more than one rank."""
    several: Count = (np.asarray(layout.parts(scope)) > 1) & (scope != "N")
    return several


def _gathered(held: Holdings, state: State, layout: Layout, strategy: Strategy) -> Moments:
    """The unit of embedding and head from forward to backward, and layers one ahead; or the whole stage, in pipelines."""
    none = 0.0 * held.unit
    fetched = strategy.keeps_off.parameters != "none"
    spread = np.asarray(_is_spread(layout, strategy.sharding.parameters)) | fetched
    whole = strategy.allocates.whole_in_pipelines & (np.asarray(layout.pp) > 1)
    loss, layer = (
        np.where(
            whole, held.parameters * state.weight, gathered_weights(layer=unit, ends=held.ends, element=state.weight)
        )
        for unit in (none, held.unit)
    )
    return Moments(np.where(spread, loss, 0.0), np.where(spread, layer, 0.0), none)


def _unreduced(held: Holdings, state: State, layout: Layout, strategy: Strategy) -> Moments:
    """Of no layer, one or the stage, until the pass ends; where they are scattered, of the larger of a layer and the ends."""
    none, scope = 0.0 * held.layer, strategy.sharding.gradients
    if scope != "N":
        unit = np.maximum(held.unit, held.ends)
        several = _is_spread(layout, scope)
        return Moments(none, np.where(several, unit * (state.weight + state.gradient), 0.0), none)
    of = {"none": none, "layer": held.layer, "stage": held.dense + held.experts}
    size = of[strategy.allocates.gradients] * state.weight
    return Moments(size, size, none)
