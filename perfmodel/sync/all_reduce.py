"""Synchronous all-reduce of the gradients, whole or with states spread over replicas, then the optimiser step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.buckets import last_bucket
from perfmodel.parallel.expert import ExpertGroups
from perfmodel.sync.offload import Swaps
from perfmodel.sync.replicas import Synchronisation
from perfmodel.timeline import Part, Repeat

if TYPE_CHECKING:
    from perfmodel.parallel import Group, Layout
    from perfmodel.parallel.messages import Collective
    from perfmodel.specs.sharding import Scope, Sharding
    from perfmodel.sync.replicas import Replicas
    from perfmodel.units import Bytes, Count

Parts = tuple[Part, ...]

FIRST_BUCKET = 2.0**20
"""Bytes of the first piece of gradients that PyTorch's DistributedDataParallel sends (its kDefaultFirstBucketBytes)."""


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights that the same ranks hold copies of, and their collectives: none where a state is spread no further than another.

    Parameters, gradients and optimiser states are spread as far as p, g and o say.
    """

    name: str
    """Before the names of the messages."""
    replicas: Replicas
    count: Count
    """Parameters of one device, before any of them is spread."""
    trained: Count
    """Of them, those that have gradients."""
    ranks: Layout | ExpertGroups

    def fetch(self) -> Parts:
        """Weights for a pass, piece by piece, from all that hold parts of them."""
        weight, pieces = self.count * self.replicas.state.weight, self._pieces
        return _repeated(self._gather("N", self._scopes.parameters, weight / pieces), pieces)

    def shed(self) -> Parts:
        """Gradients of one microbatch, each part to where it is summed: piece by piece where weights are gathered so."""
        if self._scopes.parameters == "N":
            return self._scatter("N", self._scopes.gradients, self._gradient)
        pieces = self._buckets
        return _repeated(self._scatter("N", self._scopes.gradients, self._gradient / pieces), pieces)

    def scatter(self) -> Parts:
        """Sums over all microbatches, from where they were kept to where the optimiser takes them."""
        near = self._scopes.gradients
        return self._scatter(near, self._scopes.optimizer, self._gradient / self.ranks.parts(near))

    def reduce(self) -> Parts:
        """Sums of the ranks that keep the same part of the optimiser states."""
        far = self._scopes.optimizer
        size = self._gradient / self.ranks.parts(far) - self._last
        return (
            () if far == "G" else (self._message("gradient all-reduce", "all-reduce", size, self._between(far, "G")),)
        )

    def last(self) -> Parts:
        """Of whole replicas, what is complete only when the pass ends."""
        if not self._in_buckets:
            return ()
        return (self._message("last gradient all-reduce", "all-reduce", self._last, self._between("N", "G")),)

    def gather(self) -> Parts:
        """Updated weights, from where the optimiser made them to where they are kept."""
        near = self._scopes.parameters
        weight = self.trained * self.replicas.state.weight
        return self._gather(near, self._scopes.optimizer, weight / self.ranks.parts(near))

    @property
    def _in_buckets(self) -> bool:
        return self._scopes.optimizer == "N" and self.replicas.strategy.gradient_bucket is not None

    @property
    def _last(self) -> Bytes:
        bucket = self.replicas.strategy.gradient_bucket
        if bucket is None or not self._in_buckets:
            return 0.0
        return last_bucket(size=self._gradient, first=FIRST_BUCKET, bucket=bucket)

    @property
    def _scopes(self) -> Sharding:
        return self.replicas.strategy.sharding

    @property
    def _gradient(self) -> Bytes:
        return self.trained * self.replicas.state.gradient

    @property
    def _pieces(self) -> Count:
        """That the weights of a stage are gathered in; of equal size."""
        whole = self.replicas.strategy.weight_unit == "layer"
        return self.replicas.units if whole else self.replicas.products

    @property
    def _buckets(self) -> Count:
        """That gradients are scattered in: a bucket leaves when it is full, but not before a piece is complete (derived).

        Of lists, each piece leaves alone.
        """
        if self.replicas.strategy.part_copy is not None:
            return self._pieces
        bucket = float(self.replicas.strategy.allocates.bucket_size)
        filled = self._gradient / bucket if bucket else 0.0
        return np.clip(filled, self.replicas.units, self._pieces)

    def _scatter(self, near: Scope, far: Scope, size: Bytes) -> Parts:
        if near == far:
            return ()
        return self._listed("gradient reduce-scatter", "reduce-scatter", size, self._between(near, far))

    def _gather(self, near: Scope, far: Scope, size: Bytes) -> Parts:
        """At once, or in two stages: all devices of a host fetch a part each from other hosts, then share them."""
        if near == far:
            return ()
        name, group = "weight all-gather", self._between(near, far)
        if self.replicas.strategy.weight_gather == "flat":
            return self._listed(name, "all-gather", size, group)
        host = self.replicas.layout.host or self.replicas.layout.devices
        inside = group.inside(host)
        return (
            self._message(f"{name} between hosts", "all-gather", size / inside.size, group.outside(host)),
            self._message(f"{name} in hosts", "all-gather", size, inside),
        )

    def _listed(self, name: str, collective: Collective, size: Bytes, group: Group) -> Parts:
        """A collective, with the copies of its parts where they are a list."""
        return (self._message(name, collective, size, group), *self.replicas.part_copies(size, group))

    def _between(self, near: Scope, far: Scope) -> Group:
        """In rows of a column without experts of their own one rank alone."""
        group = self.ranks.between(near, far)
        if not self.name:
            return group
        own = np.asarray(self.count) > 0
        return replace(group, size=np.where(own, group.size, 1), rows=np.where(own, group.rows, 1))

    def _message(self, name: str, collective: Collective, size: Bytes, group: Group) -> Part:
        algorithm = self.replicas.strategy.collective if collective == "all-reduce" else "fastest"
        return self.replicas.message(f"{self.name}{name}", collective, size, group, algorithm)


def _repeated(parts: Parts, pieces: Count) -> Parts:
    return tuple(Repeat(f"{part.name} by piece", part, pieces) for part in parts)


def synchronise(replicas: Replicas) -> Synchronisation:
    """What the sharding of the strategy asks for: gathers of weights, sums of gradients, the update of one part.

    Of p, g and o, how far parameters, gradients and optimiser states are spread: weights are gathered among p for every pass;
    gradients of each microbatch are scattered among g; the sum is scattered on among o / g and reduced over all others that
    keep the same part; each updates its part of o, and updated weights are gathered among o / p. ZeRO 0 to 3, HSDP, MiCS and
    PaRO are cases. Experts that are spread over ranks have fewer copies than all else, and so collectives of their own.
    """
    strategy, layout = replicas.strategy, replicas.layout
    groups = ExpertGroups(layout)
    dense, trained = replicas.parameters - replicas.experts, replicas.trained - replicas.trained_experts
    weights = [_Weights("", replicas, dense, trained, layout)]
    if np.any(np.asarray(replicas.experts) > 0):
        weights.append(_Weights("expert ", replicas, replicas.experts, replicas.trained_experts, groups))
    fetch, shed, scatter, reduce, last, gather = (
        tuple(part for each in weights for part in getattr(each, name)())
        for name in ("fetch", "shed", "scatter", "reduce", "last", "gather")
    )
    far = strategy.sharding.optimizer
    swaps = Swaps(replicas)
    copies = replicas.bucket_copies() if far == "N" else ()
    after = (*last, *copies, replicas.tied_embedding(), swaps.update(), *gather, *replicas.table_copies())
    again = fetch if strategy.weight_regather and strategy.recompute == "full" else ()
    backward = (*fetch, *again, *shed)
    copies_beside = {name: getattr(swaps, name) for name in ("loads", "reloads", "stores", "drains")}
    if fetch and strategy.weight_overlap == "none":
        return Synchronisation((), (), (*scatter, *reduce), after, exposed=(*fetch, *backward), **copies_beside)
    return Synchronisation(fetch, backward, (*scatter, *reduce), after, **copies_beside)
