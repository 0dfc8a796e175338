"""Where each rank sits: degrees that multiply to the devices, and groups of neighbours.

Ranks are numbered in the strategy's order of degrees, innermost first: by default tensor, context, data, pipeline, as
Megatron-LM does. Which ranks are near follows from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.origin import place_of
from perfmodel.parallel.cut import EVEN, Cut, cut_faults, cut_of
from perfmodel.parallel.expert_rules import expert_faults
from perfmodel.parallel.near import divisors, multiples
from perfmodel.specs.strategy import ORDER
from perfmodel.specs.workload import Transformer, sequence_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs import Hardware, Strategy, Workload
    from perfmodel.units import Count


CHUNKED = ("1f1b", "breadth-first", "zero-bubble-v")
"""Schedules with several chunks on a stage."""
LEAST_MICROBATCHES = {"zero-bubble-h2": 2, "zero-bubble-v": 2, "dual-pipe": 2, "pipedream-2bw": 1}
"""For each stage, that a schedule needs to keep all stages busy, 2BW to do with two versions; zero-bubble-h2 and -v one less."""
UNSHARDED = ("pipedream", "pipedream-2bw")
"""Schedules with several versions of the weights."""


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

    @property
    def replicas(self) -> Group:
        """Ranks that hold the same weights: data and context parallel."""
        return self._replicas(1, self.dp * self.cp)

    @property
    def shards(self) -> Group:
        """Ranks that share states of ZeRO: replicas that are near."""
        return self._replicas(1, self.shard_group)

    @property
    def across(self) -> Group:
        """Ranks that hold the same shard, one of each shard group."""
        return self._replicas(self.shard_group, self.dp * self.cp / self.shard_group)

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
    problems = list(_Rules(workload, hardware, strategy).broken())
    if problems:
        raise InputError(problems)
    s = strategy
    dp = replicas(strategy)
    return Layout(
        tp=s.tp, pp=s.pp, vpp=s.vpp, cp=s.cp, dp=dp, microbatch=s.microbatch,
        batch=workload.training.batch, shard_group=s.shard_group or dp * s.cp, order=s.order,
        ep=s.ep, etp=s.etp or s.tp, cut=cut_of(workload.model, s),
        host=max((t.devices for t in hardware.network if t.is_local), default=0),
    )  # fmt: skip


def replicas(strategy: Strategy) -> int:
    """Data-parallel replicas: as given, or what the other degrees leave of the devices."""
    s = strategy
    return int(s.dp or (s.devices or s.tp * s.pp * s.cp) // (s.tp * s.pp * s.cp))


@dataclass(frozen=True, slots=True)
class _Rules:
    """What must hold between a model, a machine and a strategy."""

    workload: Workload
    hardware: Hardware
    strategy: Strategy

    def broken(self) -> Iterator[Problem]:
        yield from self.device_rules()
        yield from self.batch_rules()
        yield from self.pipeline_rules()
        yield from self.expert_rules()
        if isinstance(self.workload.model, Transformer):
            yield from self.tensor_rules(self.workload.model)
        else:
            yield from self.other_rules()
        yield from self.precision_rules()
        yield from self.server_rules()

    def problem(self, field: str, message: str) -> Problem:
        place = place_of(getattr(self.strategy, field, None), Place(f"strategy {self.strategy.name}"))
        return Problem(place, field, message)

    def device_rules(self) -> Iterator[Problem]:
        s = self.strategy
        model = s.tp * s.pp * s.cp
        if s.devices and s.dp and s.devices != model * s.dp:
            yield self.problem(
                "devices",
                f"{s.devices} is not tp x pp x cp x dp = {model * s.dp}; leave dp out, or give {model * s.dp}",
            )
        elif s.devices and s.devices % model:
            yield self.problem(
                "devices",
                f"{s.devices} is no multiple of tp x pp x cp = {model}; nearest that are: {multiples(s.devices, model)}",
            )
        devices = s.devices or model * (s.dp or 1)
        if devices > self.hardware.reach:
            yield self.problem(
                "devices", f"{devices} are more than the {self.hardware.reach} that {self.hardware.name} joins"
            )
        group = s.shard_group
        if group and (replicas(s) * s.cp) % group:
            total = replicas(s) * s.cp
            yield self.problem(
                "shard_group", f"{group} does not divide {total} replicas; nearest that do: {divisors(group, total)}"
            )

    def batch_rules(self) -> Iterator[Problem]:
        s, batch = self.strategy, self.workload.training.batch
        dp = replicas(s)
        if dp and batch % dp:
            place = place_of(batch, Place(f"workload {self.workload.name}"))
            yield Problem(
                place,
                "batch",
                f"{batch} is not divisible by {dp} data-parallel replicas; nearest that are: {multiples(batch, dp)}",
            )
        elif dp and (batch // dp) % s.microbatch:
            share = batch // dp
            yield self.problem(
                "microbatch",
                f"{s.microbatch} does not divide the {share} samples of a replica; nearest that do: {divisors(s.microbatch, share)}",
            )

    def pipeline_rules(self) -> Iterator[Problem]:
        s, model = self.strategy, self.workload.model
        if not isinstance(model, Transformer) or model.decoder_layers:
            for name in ("pp", "vpp"):
                if getattr(s, name) > 1:
                    yield self.problem(
                        name, f"needs a chain of equal layers, which {self.workload.name} is not; leave {name} at 1"
                    )
            return
        if s.stage_layers != "equal":
            yield from (self.problem("stage_layers", message) for message in cut_faults(model.layers, s))
        elif model.layers % s.pp:
            yield self.problem(
                "pp", f"{s.pp} does not divide {model.layers} layers; nearest that do: {divisors(s.pp, model.layers)}"
            )
        elif (model.layers // s.pp) % s.vpp:
            each = model.layers // s.pp
            yield self.problem(
                "vpp",
                f"{s.vpp} does not divide the {each} layers of a stage; nearest that do: {divisors(s.vpp, each)}",
            )
        if s.vpp > 1 and s.pp == 1:
            yield self.problem("vpp", "virtual stages need a pipeline; raise pp above 1 or leave vpp at 1")
        yield from self.schedule_rules(self.workload.training.batch // (replicas(s) * s.microbatch or 1))

    def schedule_rules(self, microbatches: int) -> Iterator[Problem]:
        s = self.strategy
        if s.schedule == "zero-bubble-v" and s.vpp != 2:
            yield self.problem("vpp", f"zero-bubble-v has two chunks on each stage; give vpp 2, not {s.vpp}")
        elif s.vpp > 1 and s.schedule not in CHUNKED:
            yield self.problem("vpp", f"{s.schedule} has no virtual stages; take schedule 1f1b or leave vpp at 1")
        if s.schedule == "1f1b" and s.vpp > 1 and s.pp > 1 and microbatches % s.pp:
            yield self.problem(
                "vpp", f"interleaving needs microbatches ({microbatches}) in multiples of the {s.pp} stages"
            )
        needed = LEAST_MICROBATCHES.get(s.schedule, 0) * s.pp - (s.schedule in {"zero-bubble-h2", "zero-bubble-v"})
        if s.pp > 1 and microbatches < needed:
            yield self.problem(
                "schedule",
                f"{s.schedule} needs {needed} microbatches with {s.pp} stages, not {microbatches}; raise batch, or lower pp or microbatch",
            )
        if s.schedule == "dual-pipe" and (s.pp % 2 or microbatches % 2):
            yield self.problem(
                "schedule", f"dual-pipe needs even numbers of stages and microbatches, not {s.pp} and {microbatches}"
            )
        if s.schedule in UNSHARDED and s.zero > 1:
            yield self.problem("zero", f"{s.schedule} keeps several versions of the weights; leave zero at 0 or 1")

    def expert_rules(self) -> Iterator[Problem]:
        s, model = self.strategy, self.workload.model
        experts = model.experts if isinstance(model, Transformer) else None
        for name, message in expert_faults(s, experts, replicas(s)):
            yield self.problem(name, message.format(name=self.workload.name))

    def tensor_rules(self, model: Transformer) -> Iterator[Problem]:
        s = self.strategy
        for what, size in (("attention heads", model.heads), ("of the MLP's width", model.ffn)):
            if size % s.tp:
                yield self.problem(
                    "tp", f"{s.tp} does not divide {size} {what}; nearest that do: {divisors(s.tp, size)}"
                )
                break
        if model.kv_heads is not None and model.kv % s.tp and s.tp % model.kv:
            yield self.problem("tp", f"{s.tp} and {model.kv} heads of keys and values do not divide one another")
        sequence = sequence_of(model, self.workload.training)
        if sequence % s.cp:
            yield self.problem(
                "cp",
                f"{s.cp} does not divide a sequence of {sequence} tokens; nearest that do: {divisors(s.cp, sequence)}",
            )
        elif s.sequence_parallel and (sequence // s.cp) % s.tp:
            yield self.problem(
                "sequence_parallel", f"tp {s.tp} does not divide {sequence // s.cp} tokens of a sequence"
            )

    def other_rules(self) -> Iterator[Problem]:
        for name, neutral in (("tp", 1), ("cp", 1), ("sequence_parallel", False), ("recompute", "none")):
            if getattr(self.strategy, name) != neutral:
                yield self.problem(name, f"is for transformers; {self.workload.name} needs {str(neutral).lower()}")

    def precision_rules(self) -> Iterator[Problem]:
        precision, peaks = self.workload.training.precision, self.hardware.device.compute.peak
        if precision not in peaks:
            place = place_of(precision, Place(f"workload {self.workload.name}"))
            yield Problem(
                place,
                "precision",
                f"{self.hardware.device.name} has no peak for {precision}; it has {', '.join(peaks)}",
            )

    def server_rules(self) -> Iterator[Problem]:
        s, inside = self.strategy, self.hardware.host.devices
        if s.sync != "parameter-server":
            return
        servers, ranks = s.keeper, replicas(s) * s.cp
        hosts = math.ceil(ranks / max(inside // s.tp, 1))
        workers, what = (hosts, "hosts") if servers.workers == "hosts" else (ranks, "devices")
        if servers.placement == "host-memory" and hosts > 1:
            place = place_of(servers.placement, Place(f"strategy {s.name}"))
            message = (
                f"host-memory serves the {inside} devices of one host, not {hosts} hosts; take dedicated or colocated"
            )
            yield Problem(place, "servers.placement", message)
        if servers.placement == "colocated" and servers.count and servers.count > workers:
            place = place_of(servers.count, Place(f"strategy {s.name}"))
            message = f"{servers.count} servers do not find room on {workers} {what}; take at most {workers}, or placement dedicated"
            yield Problem(place, "servers.count", message)
