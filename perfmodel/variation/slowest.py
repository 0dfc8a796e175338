"""Who waits for whom: the slowest of the devices that share a layer, of the stages of a pipeline, of the replicas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.variation.factors import Factor, factor, shifted_gamma
from perfmodel.variation.tables import Table

if TYPE_CHECKING:
    from perfmodel.specs.variation import Part

MOST_SHAPE = 1e4
"""Of a gamma distribution that stands for a sum: beyond it, and for sums that lean to the left, it is as good as normal."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many devices wait for one another, and how often."""

    group: int
    """Devices that share each layer: tensor and context parallel."""
    stages: int
    replicas: int
    node: int
    """Devices of one host."""
    passes: float
    """Of microbatches through layers in one step; after each the devices of a group wait for one another."""

    @property
    def devices(self) -> int:
        """Of the job."""
        return self.group * self.stages * self.replicas

    @property
    def worker(self) -> int:
        """Devices of one replica."""
        return self.group * self.stages

    @property
    def shares_nodes(self) -> bool:
        """Whether several replicas sit on one node, so that they are slow together."""
        return self.replicas > 1 and self.node > self.group


@dataclass(frozen=True)
class Phase:
    """Computing, or messages: its causes of delay on a job of some shape."""

    parts: tuple[Part, ...]
    shape: Shape

    @cached_property
    def everywhere(self) -> tuple[float, float]:
        """Mean and variance of the delay that all devices share in a step."""
        tables = [Table.of(factor(part)) for part in self.parts if part.per == "step"]
        return sum(t.mean - 1 for t in tables), sum(t.deviation() ** 2 for t in tables)

    @cached_property
    def worker_with_everywhere(self) -> Table:
        """Of the slowest device of one replica, with the delay that all share."""
        tables = [Table.of(factor(part)) for part in self.parts if part.per == "step"]
        return reduce(lambda a, b: a.plus(b.scaled(1.0, -1.0)), tables, self.worker)

    @cached_property
    def slowest(self) -> float:
        """Expected factor of the slowest device of all."""
        if not self.parts:
            return 1.0
        if self._alone is not None:
            return self._alone.kth(self.shape.devices, 0) + self.everywhere[0]
        return self._everyone.mean + self.everywhere[0]

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of that factor from step to step, what all share left out."""
        return self._everyone.deviation() if self.parts else 0.0

    @cached_property
    def stage(self) -> float:
        """Expected factor of one stage of one replica: of the slowest in its group."""
        if self._alone is not None:
            return self._alone.kth(self.shape.group, 0) + self.everywhere[0]
        later = sum(t.mean - 1 for size, t in self._levels if size > self.shape.group)
        return self._upto(self.shape.group).mean + later + self.everywhere[0]

    @property
    def other_stages(self) -> float:
        """Expected factor of the stages that are not the slowest of all; fill and drain pass through them.

        Where a node is slow as a whole, the other stages of a replica sit on other nodes.
        """
        shape = self.shape
        groups, beside = shape.devices / shape.group, 1.0
        slowest = self.slowest
        if self.of_nodes and shape.node > shape.group:
            beside = min(shape.node, shape.devices) / shape.group
            own = self._upto(shape.group)
            slowest -= own.largest(beside).mean - own.mean  # of the slowest node, an average group
        return (groups * self.stage - beside * slowest) / (groups - beside) if groups > beside else self.stage

    @cached_property
    def worker(self) -> Table:
        """Of the slowest device of one replica, delays that all share left out."""
        return self._upto(self.shape.worker)

    def replica(self, working: float, bubble: float) -> Table:
        """Of the time of a pipeline that works at the pace of its slowest stage, and fills and drains at that of the others."""
        if self.shape.stages == 1 or not bubble:
            return self.worker.scaled(working + bubble)
        return self._upto(self.shape.group).slowest_and_others(self.shape.stages, working, bubble)

    def fill_factor(self, working: float, bubble: float) -> float:
        """Expected factor of the bubble in a step that ends with the last replica.

        That is the one with the slowest stage most of the time, but not always.
        """
        if not bubble or self.shape.stages == 1 or (self.of_nodes and self.shape.node > self.shape.group):
            return self.other_stages
        last, common = self.replica(working, bubble).largest(self.shape.replicas).mean, self.everywhere[0]
        return (last - working * (self.slowest - common)) / bubble + common

    @property
    def of_nodes(self) -> bool:
        """Whether devices of a node are slow together."""
        return any(part.per == "node" for part in self.parts)

    @cached_property
    def _alone(self) -> Factor | None:
        """The only cause that is drawn for each device and step; then a documented formula says it all."""
        own = [part for part in self.parts if part.per != "step"]
        return factor(own[0]) if len(own) == 1 and own[0].per == "device" and own[0].lasts == "step" else None

    @property
    def _everyone(self) -> Table:
        return self._upto(self.shape.devices)

    @cached_property
    def _levels(self) -> tuple[tuple[int, Table], ...]:
        """Delays with the number of devices that share each, from few to many."""
        shape = self.shape
        device = [p for p in self.parts if p.per == "device" and p.lasts == "step"]
        passing = [p for p in self.parts if p.per == "device" and p.lasts == "pass"]
        node = [p for p in self.parts if p.per == "node"]
        levels = []
        if device:
            levels.append((1, _sum(device)))
        if passing:
            levels.append((shape.group, averaged(_sum(passing).largest(shape.group), shape.passes)))
        if node:
            levels.append((min(shape.node, shape.devices), _sum(node)))
        return tuple(sorted(levels, key=lambda level: level[0]))

    def _upto(self, devices: int) -> Table:
        """Of the slowest of some neighbouring devices, by what is drawn within them."""
        table, size = Table.constant(1.0), 1
        for shared, own in self._levels:
            if shared > devices:
                break
            table, size = table.largest(shared / size).plus(own.scaled(1.0, -1.0)), shared
        return table.largest(devices / size)


def _sum(parts: list[Part]) -> Table:
    tables = [Table.of(factor(part)) for part in parts]
    return reduce(lambda a, b: a.plus(b.scaled(1.0, -1.0)), tables)


def averaged(table: Table, count: float) -> Table:
    """Of the mean of ``count`` independent ones: a gamma distribution with the same first three moments."""
    if count <= 1:
        return table
    spread = table.deviation()
    if spread <= 0:
        return table
    skewness = table.third() / spread**3 / np.sqrt(count)
    shape = min(4 / skewness**2, MOST_SHAPE) if skewness > 0 else MOST_SHAPE
    scale = spread / np.sqrt(count * shape)
    return Table.of(shifted_gamma(table.mean - shape * scale, shape * scale, shape))
