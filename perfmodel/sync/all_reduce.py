"""Synchronous all-reduce of the gradients, whole or sharded (ZeRO), then the optimiser step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.buckets import last_bucket
from perfmodel.parallel.expert import ExpertGroups
from perfmodel.sync.replicas import Synchronisation
from perfmodel.timeline import Part, Repeat

if TYPE_CHECKING:
    from perfmodel.parallel import Group
    from perfmodel.parallel.messages import Collective
    from perfmodel.sync.replicas import Replicas
    from perfmodel.units import Bytes, Count

FIRST_BUCKET = 2.0**20
"""Bytes of the first piece of gradients that PyTorch's DistributedDataParallel sends (its kDefaultFirstBucketBytes)."""


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights that the same ranks hold copies of, and their collectives."""

    name: str
    """Before the names of the messages."""
    replicas: Replicas
    gradient: Bytes
    weight: Bytes
    copies: Group
    shards: Group
    across: Group

    def whole(self) -> Part:
        """All-reduce among all copies, of what the backward pass hides."""
        return self._message("gradient all-reduce", "all-reduce", self.gradient - self._last, self.copies)

    def last(self) -> tuple[Part, ...]:
        """All-reduce of what is complete only when the pass ends."""
        if self.replicas.strategy.gradient_bucket is None:
            return ()
        return (self._message("last gradient all-reduce", "all-reduce", self._last, self.copies),)

    @property
    def _last(self) -> Bytes:
        bucket = self.replicas.strategy.gradient_bucket
        return 0.0 if bucket is None else last_bucket(size=self.gradient, first=FIRST_BUCKET, bucket=bucket)

    def scatter(self) -> Part:
        """Each shard keeps its part of the sum."""
        return self._message("gradient reduce-scatter", "reduce-scatter", self.gradient, self.shards)

    def between(self) -> Part:
        """Among those that keep the same part."""
        return self._message("gradient all-reduce", "all-reduce", self.gradient / self.shards.size, self.across)

    def gather(self) -> Part:
        """Each shard hands out its updated part."""
        return self._message("weight all-gather", "all-gather", self.weight, self.shards)

    def by_layer(self, name: str, collective: Collective, size: Bytes) -> Part:
        """The same layer by layer."""
        units = self.replicas.units
        return Repeat(f"{self.name}{name}", self._message(name, collective, size / units, self.shards), units)

    def _message(self, name: str, collective: Collective, size: Bytes, group: Group) -> Part:
        algorithm = self.replicas.strategy.collective if collective == "all-reduce" else "fastest"
        return self.replicas.message(f"{self.name}{name}", collective, size, group, algorithm)


def synchronise(replicas: Replicas) -> Synchronisation:
    """All-reduce, or with ZeRO reduce-scatter and all-gather, of one device's gradients.

    ZeRO 1 scatters gradients once a step, 2 after every microbatch; 3 gathers weights for every pass.
    Where it shards over fewer than all replicas, each shard is all-reduced among the groups (MiCS).
    Experts that are spread over ranks have fewer copies than all else, and so collectives of their own.
    """
    strategy, layout = replicas.strategy, replicas.layout
    groups = ExpertGroups(layout)
    parts = [_Weights("", replicas, replicas.gradient, replicas.weight, layout.replicas, layout.shards, layout.across)]
    if np.any(np.asarray(replicas.experts) > 0):
        state = replicas.state
        gradient, weight = replicas.experts * state.gradient, replicas.experts * state.weight
        among = (_where(replicas.experts, group) for group in (groups.replicas, groups.shards, groups.across))
        parts.append(_Weights("expert ", replicas, gradient, weight, *among))
    embedding = replicas.tied_embedding()
    shards = (layout.shards.size, groups.shards_size) if strategy.zero else (1, 1)
    update = replicas.optimizer_step(*shards)
    scatter, between, gather = (tuple(getattr(p, n)() for p in parts) for n in ("scatter", "between", "gather"))
    match strategy.zero:
        case 0:
            exposed = (part for p in parts for part in p.last())
            after = (*exposed, *replicas.bucket_copies(), embedding, update)
            return Synchronisation((), (), tuple(p.whole() for p in parts), after)
        case 1:
            return Synchronisation((), (), (*scatter, *between), (embedding, update, *gather))
        case 2:
            return Synchronisation((), scatter, between, (embedding, update, *gather))
        case _:
            fetch = tuple(p.by_layer("weight all-gather", "all-gather", p.weight) for p in parts)
            shed = tuple(p.by_layer("gradient reduce-scatter", "reduce-scatter", p.gradient) for p in parts)
            if strategy.weight_overlap == "none":
                return Synchronisation((), (), between, (embedding, update), exposed=(*fetch, *fetch, *shed))
            return Synchronisation(fetch, (*fetch, *shed), between, (embedding, update))


def _where(experts: Count, group: Group) -> Group:
    """A group, or in rows of a column without experts of their own one rank alone."""
    apart = np.asarray(experts) > 0
    return replace(group, size=np.where(apart, group.size, 1), rows=np.where(apart, group.rows, 1))
