"""Where each rank sits: degrees that multiply to the devices, and groups of neighbours.

Ranks are numbered in the strategy's order of degrees, innermost first: by default tensor, context, data, pipeline, as
Megatron-LM does. Which ranks are near follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.errors import InputError
from perfmodel.parallel.cut import EVEN, Cut, cut_of
from perfmodel.parallel.rules import Rules, replicas
from perfmodel.specs.strategy import ORDER

if TYPE_CHECKING:
    from perfmodel.specs import Hardware, Strategy, Workload
    from perfmodel.specs.sharding import Scope
    from perfmodel.units import Count


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate: ``size`` of them, ``stride`` apart.

    Where two degrees that are not neighbours in the order make one group, it has several ``rows``, ``apart`` ranks
    from one another, each with size / rows members that are ``stride`` apart.
    """

    size: Count
    stride: Count
    rows: Count = 1
    apart: Count = 1
    job: Count = 0
    """Devices of the whole job, whose slice of a torus the group is part of; 0: of the group and what it strides over."""

    def within(self, devices: Count) -> tuple[Count, Count]:
        """Members of a row, and rows, inside one unit of so many devices that a rank of the group starts."""
        row = np.clip(np.asarray(devices) // self.stride, 1, np.asarray(self.size) / self.rows)
        return row, np.clip(np.asarray(devices) // self.apart, 1, self.rows)

    def inside(self, devices: Count) -> Group:
        """The part of the group inside such a unit."""
        row, rows = self.within(devices)
        return Group(row * rows, self.stride, rows, self.apart, self.job)

    def outside(self, devices: Count) -> Group:
        """One rank of each such unit, with the place of the first in its own."""
        near = self.inside(devices)
        within = near.size / near.rows
        several = np.asarray(self.size / self.rows / within) > 1
        return Group(
            self.size / near.size, np.where(several, self.stride * within, self.apart * near.rows),
            np.where(several, self.rows / near.rows, 1), self.apart * near.rows, self.job,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism, each a number or a column."""

    tp: Count
    pp: Count
    vpp: Count
    cp: Count
    dp: Count
    microbatch: Count
    batch: Count
    shard_group: Count
    """Replicas over which ZeRO shards, those of context parallelism included."""
    order: str = "-".join(ORDER)
    """Degrees from the innermost to the outermost."""
    ep: Count = 1
    etp: Count = 1
    cut: Cut = EVEN
    """Which layers a stage has."""
    host: Count = 0
    """Devices that a network within hosts joins; 0 where that does not matter."""

    @property
    def devices(self) -> Count:
        """All of them."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def microbatches(self) -> Count:
        """Of one replica in one step."""
        return self.batch / (self.dp * self.microbatch)

    @property
    def tensor(self) -> Group:
        """Ranks that share each layer."""
        return self._group("tp")

    @property
    def context(self) -> Group:
        """Ranks that share each sequence."""
        return self._group("cp")

    def parts(self, scope: Scope) -> Count:
        """Into which a state is cut that is spread so far."""
        return {"N": 1, "I": self.shard_group, "G": self.dp * self.cp}[scope]

    def between(self, near: Scope, far: Scope) -> Group:
        """Ranks that hold the same part of what is spread over `near`, and another of what is spread over `far`."""
        return self._replicas(self.parts(near), self.parts(far) / self.parts(near))

    @property
    def replicas(self) -> Group:
        """Ranks that hold the same weights: data and context parallel."""
        return self.between("N", "G")

    @property
    def pipeline(self) -> Group:
        """Stages of one pipeline."""
        return self._group("pp")

    def _group(self, degree: str) -> Group:
        return Group(getattr(self, degree), self._stride(degree), job=self.devices)

    def _stride(self, degree: str) -> Count:
        """Ranks from one of a degree to the next: the product of the degrees inside."""
        inner = self.order.split("-")
        inside = (getattr(self, name) for name in inner[: inner.index(degree)] if name != "ep")
        return reduce(mul, inside, 1)

    def _replicas(self, first: Count, size: Count) -> Group:
        """Of the replicas in the order of their ranks, ``size`` of them, each ``first`` from the next."""
        near, far = sorted(("cp", "dp"), key=self.order.index)
        row = getattr(self, near)
        if self._adjacent(near, far):
            return Group(size, self._stride(near) * first, job=self.devices)
        step = np.minimum(first, row)  # within a row of near replicas
        members = np.minimum(size, row / step)
        stride = np.where(np.asarray(members) > 1, self._stride(near) * step, self._stride(far) * first / step)
        apart = self._stride(far) * first / step
        return Group(size, stride, np.where(np.asarray(members) > 1, size / members, 1), apart, self.devices)

    def _adjacent(self, near: str, far: str) -> bool:
        """Whether only degrees of one (experts, inside data parallel) lie between two degrees."""
        names = [name for name in self.order.split("-") if name != "ep"]
        return names.index(far) == names.index(near) + 1


def arrange(workload: Workload, hardware: Hardware, strategy: Strategy) -> Layout:
    """The layout of a strategy; raises InputError with every rule that it breaks and the nearest remedy."""
    problems = [rule.problem() for rule in Rules(workload, hardware, strategy).all() if rule.broken]
    if problems:
        raise InputError(problems)
    s = strategy
    dp = int(replicas(strategy))
    return Layout(
        tp=s.tp, pp=s.pp, vpp=s.vpp, cp=s.cp, dp=dp, microbatch=s.microbatch,
        batch=workload.training.batch, shard_group=s.shard_group or dp * s.cp, order=s.order,
        ep=s.ep, etp=s.etp or s.tp, cut=cut_of(workload.model, s),
        host=host_of(hardware),
    )  # fmt: skip


def host_of(hardware: Hardware) -> int:
    """Devices that a network within hosts joins; 0 where there is none."""
    return max((tier.devices for tier in hardware.network if tier.is_local), default=0)
