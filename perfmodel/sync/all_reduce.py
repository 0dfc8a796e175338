"""Synchronous all-reduce of the gradients, whole or sharded (ZeRO), then the optimiser step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.sync.replicas import Synchronisation
from perfmodel.timeline import Part, Repeat

if TYPE_CHECKING:
    from perfmodel.parallel.messages import Collective
    from perfmodel.sync.replicas import Replicas
    from perfmodel.units import Bytes


def synchronise(replicas: Replicas) -> Synchronisation:
    """All-reduce, or with ZeRO reduce-scatter and all-gather, of one device's gradients.

    ZeRO 1 scatters gradients once a step, 2 after every microbatch; 3 gathers weights for every pass.
    Where it shards over fewer than all replicas, each shard is all-reduced among the groups (MiCS).
    """
    strategy, layout, message = replicas.strategy, replicas.layout, replicas.message
    gradient, weight, shards = replicas.gradient, replicas.weight, layout.shards
    whole = message("gradient all-reduce", "all-reduce", gradient, layout.replicas, strategy.collective)
    scatter = message("gradient reduce-scatter", "reduce-scatter", gradient, shards)
    between = message("gradient all-reduce", "all-reduce", gradient / shards.size, layout.across, strategy.collective)
    gather = message("weight all-gather", "all-gather", weight, shards)

    def by_layer(name: str, collective: Collective, size: Bytes) -> Part:
        return Repeat(name, message(name, collective, size / replicas.units, shards), replicas.units)

    embedding = replicas.tied_embedding()
    update = replicas.optimizer_step(shards.size if strategy.zero else 1)
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
