"""Synchronous all-reduce of the gradients, whole or sharded (ZeRO), then the optimiser step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.communication import exchange
from perfmodel.formulas.roofline import streaming
from perfmodel.parallel import Group, Message
from perfmodel.timeline import Part, Repeat, term

if TYPE_CHECKING:
    from perfmodel.parallel import Layout
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Hardware, Strategy
    from perfmodel.units import Bytes, Count


@dataclass(frozen=True, slots=True)
class Synchronisation:
    """What replicas exchange, by when it may travel."""

    forward: tuple[Part, ...]
    """Beside the forward pass of every microbatch."""
    backward: tuple[Part, ...]
    """Beside the backward pass of every microbatch."""
    gradients: tuple[Part, ...]
    """Beside the last backward pass."""
    after: tuple[Part, ...]
    """After it: the other part of the tied weights, the optimiser, the gathering of weights."""
    exposed: tuple[Part, ...] = ()
    """In every microbatch, with nothing beside it."""


def synchronise(
    parameters: Count, tied: Count, units: Count, state: State, layout: Layout, hardware: Hardware, strategy: Strategy
) -> Synchronisation:
    """All-reduce, or with ZeRO reduce-scatter and all-gather, of one device's ``parameters``.

    Args:
        parameters: of the fullest pipeline stage, on one device.
        tied: of them, those that the first and the last stage share.
        units: layers of a stage: what ZeRO 3 gathers and scatters at a time.
        state: bytes for each parameter.
        layout: degrees.
        hardware: the machine.
        strategy: ZeRO stage and precision of the gradients.

    ZeRO 1 scatters gradients once a step, 2 after every microbatch; 3 gathers weights for every pass.
    Where it shards over fewer than all replicas, each shard is all-reduced among the groups (MiCS).
    """
    network = hardware.network
    gradient, weight = parameters * state.gradient, parameters * state.weight
    shards, replicas = layout.shards, layout.replicas

    def message(name: str, collective: str, size: Count, group: Group) -> Part:
        return exchange(Message(name, collective, size, group), network, "data parallel")  # type: ignore[arg-type]

    whole = message("gradient all-reduce", "all-reduce", gradient, replicas)
    scatter = message("gradient reduce-scatter", "reduce-scatter", gradient, shards)
    between = message("gradient all-reduce", "all-reduce", gradient / shards.size, layout.across)
    gather = message("weight all-gather", "all-gather", weight, shards)

    def by_layer(name: str, collective: str, size: Count) -> Part:
        return Repeat(name, message(name, collective, size / units, shards), units)

    ends = Group((layout.pp > 1) + 1, layout.pipeline.stride * np.maximum(layout.pp - 1, 1))
    embedding = message("tied embedding all-reduce", "all-reduce", tied * state.gradient, ends)
    update = _update(parameters * state.update_traffic / (shards.size if strategy.zero else 1), hardware)
    match strategy.zero:
        case 0:
            return Synchronisation((), (), (whole,), (embedding, update))
        case 1:
            return Synchronisation((), (), (scatter, between), (embedding, update, gather))
        case 2:
            return Synchronisation((), (scatter,), (between,), (embedding, update, gather))
        case _:
            fetch = by_layer("weight all-gather", "all-gather", weight)
            shed = by_layer("gradient reduce-scatter", "reduce-scatter", gradient)
            if strategy.weight_overlap == "none":
                return Synchronisation((), (), (between,), (embedding, update), exposed=(fetch, fetch, shed))
            return Synchronisation((fetch,), (fetch, shed), (between,), (embedding, update))


def _update(traffic: Bytes, hardware: Hardware) -> Part:
    efficiency = hardware.device.efficiency
    return term(
        "optimizer step", streaming, kind="optimizer", traffic=traffic,
        bandwidth=hardware.device.memory.bandwidth,
        fraction=efficiency.streaming.fraction, launch=efficiency.launch.time,
    )  # fmt: skip
