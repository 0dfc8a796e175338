"""What must hold between a model, a machine and degrees of parallelism, which may be numbers or columns.

Each rule says where it is broken, by row, and how to mend it, of one case: `arrange` raises the messages of a strategy, and the
planner drops the rows of a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import Place, Problem
from perfmodel.origin import place_of
from perfmodel.parallel.cut import cut_faults
from perfmodel.parallel.expert_rules import expert_rules
from perfmodel.parallel.near import divisors, multiples
from perfmodel.parallel.offload_rules import offload_faults
from perfmodel.parallel.scan_rules import scan_rules
from perfmodel.parallel.schedule_rules import schedule_faults
from perfmodel.parallel.table_rules import table_rules
from perfmodel.specs.sharding import sharding_of
from perfmodel.specs.workload import Transformer, sequence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.specs import Hardware, Workload
    from perfmodel.units import Count


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must hold."""

    path: str
    """The field of the strategy or workload that it blames."""
    broken: Any
    """Whether it does not hold: a truth value, or a column of them."""
    problem: Callable[[], Problem]
    """What to tell of it, and how to mend it, where degrees are numbers."""


def replicas(strategy: Any) -> Count:
    """Data-parallel replicas: as given, or what the other degrees leave of the devices."""
    s = strategy
    model = s.tp * s.pp * s.cp
    found: Count = (s.devices or model) // model if s.dp is None else s.dp
    return found


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules for a strategy, or for anything with degrees of the same names that are columns."""

    workload: Workload
    hardware: Hardware
    strategy: Any

    def all(self) -> Iterator[Rule]:
        """Every rule that concerns this model, in a fixed order."""
        yield from self._device_rules()
        yield from self._batch_rules()
        yield from self._pipeline_rules()
        yield from self._expert_rules()
        if isinstance(self.workload.model, Transformer):
            yield from self._tensor_rules(self.workload.model)
        else:
            yield from self._other_rules()
        yield from self._precision_rules()
        yield from self._base_rules()
        yield from self._server_rules()
        yield from (
            self._rule(*fault)
            for fault in table_rules(self.workload, self.hardware, self.strategy, replicas(self.strategy))
        )
        yield from (self._rule(*fault) for fault in offload_faults(self.strategy, self.hardware))
        yield from self._input_rules()

    def _input_rules(self) -> Iterator[Rule]:
        fed, machine = self.strategy.input, self.hardware
        if fed is not None and fed.when == "beside" and fed.cores is None and machine.host.cores is None:
            message = (
                f"{machine.name} states no host.cores; give those that prepare samples, as strategy.input.cores=16"
            )
            yield self._rule("input.cores", np.asarray(True), message.__str__, fed.sample)  # noqa: FBT003 - a mask

    def _rule(self, path: str, broken: Any, message: Callable[[], str], blamed: Any = None) -> Rule:
        """A rule that blames a field of the strategy, or a value that stands elsewhere."""

        def problem() -> Problem:
            value = getattr(self.strategy, path, None) if blamed is None else blamed
            return Problem(place_of(value, Place(f"strategy {self.strategy.name}")), path, message())

        return Rule(path, broken, problem)

    def _of_workload(self, path: str, broken: Any, value: Any, message: Callable[[], str]) -> Rule:
        place = place_of(value, Place(f"workload {self.workload.name}"))
        return Rule(path, broken, lambda: Problem(place, path, message()))

    def _device_rules(self) -> Iterator[Rule]:
        s = self.strategy
        model = s.tp * s.pp * s.cp
        if s.devices and s.dp is not None:
            yield self._rule(
                "devices", s.devices != model * s.dp,
                lambda: f"{s.devices} is not tp x pp x cp x dp = {model * s.dp}; leave dp out, or give {model * s.dp}",
            )  # fmt: skip
        elif s.devices:
            yield self._rule(
                "devices", s.devices % model != 0,
                lambda: f"{s.devices} is no multiple of tp x pp x cp = {model}; nearest that are: {multiples(s.devices, model)}",
            )  # fmt: skip
        devices = s.devices or model * (1 if s.dp is None else s.dp)
        yield self._rule(
            "devices", devices > self.hardware.reach,
            lambda: f"{devices} are more than the {self.hardware.reach} that {self.hardware.name} joins",
        )  # fmt: skip
        total = replicas(s) * s.cp
        if s.shard_group is not None:
            yield self._rule(
                "shard_group", total % s.shard_group != 0,
                lambda: f"{s.shard_group} does not divide {total} replicas; nearest that do: {divisors(s.shard_group, total)}",
            )  # fmt: skip

    def _batch_rules(self) -> Iterator[Rule]:
        s, batch = self.strategy, self.workload.training.batch
        dp = np.maximum(replicas(s), 1)
        uneven, share = batch % dp != 0, batch // dp
        yield self._of_workload(
            "batch", uneven & (replicas(s) > 0), batch,
            lambda: f"{batch} is not divisible by {dp} data-parallel replicas; nearest that are: {multiples(batch, int(dp))}",
        )  # fmt: skip
        yield self._rule(
            "microbatch", ~uneven & (share % s.microbatch != 0),
            lambda: f"{s.microbatch} does not divide the {share} samples of a replica; nearest that do: {divisors(s.microbatch, int(share))}",
        )  # fmt: skip

    def _pipeline_rules(self) -> Iterator[Rule]:
        s, model = self.strategy, self.workload.model
        if not isinstance(model, Transformer) or model.decoder_layers:
            what = f"needs a chain of equal layers, which {self.workload.name} is not"
            yield self._rule("pp", s.pp > 1, lambda: f"{what}; leave pp at 1")
            yield self._rule("vpp", s.vpp > 1, lambda: f"{what}; leave vpp at 1")
            return
        if s.stage_layers == "equal":
            yield from self._even_rules(int(model.layers))
        else:
            yield from (self._rule("stage_layers", *fault) for fault in cut_faults(model.layers, s))
        yield self._rule(
            "vpp", (s.vpp > 1) & (np.asarray(s.pp) == 1),
            lambda: "virtual stages need a pipeline; raise pp above 1 or leave vpp at 1",
        )  # fmt: skip
        microbatches = self.workload.training.batch // np.maximum(replicas(s) * s.microbatch, 1)
        yield from (self._rule(*fault) for fault in schedule_faults(s, microbatches))

    def _even_rules(self, layers: int) -> Iterator[Rule]:
        s = self.strategy
        uneven, each = np.asarray(layers % s.pp != 0), layers // s.pp
        yield self._rule(
            "pp", uneven,
            lambda: f"{s.pp} does not divide {layers} layers; nearest that do: {divisors(s.pp, layers)}; or stages that differ: "
            "--set strategy.stage_layers=ends-fewer",
        )  # fmt: skip
        yield self._rule(
            "vpp", ~uneven & (each % s.vpp != 0),
            lambda: f"{s.vpp} does not divide the {each} layers of a stage; nearest that do: {divisors(s.vpp, each)}",
        )  # fmt: skip

    def _expert_rules(self) -> Iterator[Rule]:
        model = self.workload.model
        experts = model.experts if isinstance(model, Transformer) else None
        yield from (
            self._rule(*fault)
            for fault in expert_rules(self.strategy, experts, replicas(self.strategy), str(self.workload.name))
        )

    def _tensor_rules(self, model: Transformer) -> Iterator[Rule]:
        s = self.strategy
        heads = np.asarray(model.heads % s.tp != 0)

        def divides(size: int, what: str) -> Callable[[], str]:
            return lambda: f"{s.tp} does not divide {size} {what}; nearest that do: {divisors(s.tp, size)}"

        yield self._rule("tp", heads, divides(model.heads, "attention heads"))
        yield self._rule("tp", ~heads & (model.ffn % s.tp != 0), divides(model.ffn, "of the MLP's width"))
        if model.kv_heads is not None:
            yield self._rule(
                "tp", (model.kv % s.tp != 0) & (s.tp % model.kv != 0),
                lambda: f"{s.tp} and {model.kv} heads of keys and values do not divide one another",
            )  # fmt: skip
        sequence = sequence_of(model, self.workload.training)
        uneven = np.asarray(sequence % s.cp != 0)
        yield self._rule(
            "cp", uneven,
            lambda: f"{s.cp} does not divide a sequence of {sequence} tokens; nearest that do: {divisors(s.cp, sequence)}",
        )  # fmt: skip
        yield from self._context_rules(model, sequence)
        if model.state_space:
            yield from (self._rule(*fault) for fault in scan_rules(s, model.state_space))
        yield self._rule(
            "sequence_parallel", ~uneven & s.sequence_parallel & ((sequence // s.cp) % s.tp != 0),
            lambda: f"tp {s.tp} does not divide {sequence // s.cp} tokens of a sequence",
        )  # fmt: skip

    def _context_rules(self, model: Transformer, sequence: int) -> Iterator[Rule]:
        """What the forms of context parallelism need; where they are not spread, nothing."""
        s, spread = self.strategy, np.asarray(self.strategy.cp) > 1
        inside = {"ulysses": s.cp, "ulysses-ring": np.minimum(s.ulysses_degree or 1, s.cp)}.get(s.context, 1)
        if s.context in {"ring", "gathered-ring", "ulysses-ring"}:
            yield from self._ring_rules(spread, inside, 2 if model.causal else 1, sequence)
        if s.context in {"ulysses", "ulysses-ring"}:
            yield from self._ulysses_rules(spread, inside, model)

    def _ring_rules(self, spread: Any, inside: Count, pieces: int, sequence: int) -> Iterator[Rule]:
        s = self.strategy
        yield self._rule(
            "ulysses_degree", spread & (s.cp % inside != 0),
            lambda: f"{inside} does not divide cp {s.cp}; nearest that do: {divisors(int(inside), int(s.cp))}",
        )  # fmt: skip
        yield self._rule(
            "cp", spread & (s.cp > inside) & (sequence % s.cp == 0) & (sequence % (pieces * s.cp) != 0),
            lambda: f"a balanced ring has two pieces of a sequence on each rank, and {pieces * s.cp} do not divide {sequence} tokens",
        )  # fmt: skip
        yield self._rule(
            "context", spread & (s.cp > inside) & (s.attention == "unfused"),
            lambda: "a ring joins blocks of fused attention; take attention flash, or context all-gather",
        )  # fmt: skip

    def _ulysses_rules(self, spread: Any, inside: Count, model: Transformer) -> Iterator[Rule]:
        s, ranks = self.strategy, self.strategy.tp * inside
        name, other = ("cp", "context ring") if s.context == "ulysses" else ("ulysses_degree", "a smaller one")
        yield self._rule(
            name, spread & (model.heads % s.tp == 0) & (model.heads % ranks != 0),
            lambda: f"tp x {name} = {ranks} does not divide the {model.heads} heads that ulysses spreads; take {other}",
        )  # fmt: skip
        yield self._rule(
            name, spread & (model.heads % ranks == 0) & (model.kv % ranks != 0) & (ranks % model.kv != 0),
            lambda: f"tp x {name} = {ranks} and {model.kv} heads of keys and values do not divide one another",
        )  # fmt: skip

    def _other_rules(self) -> Iterator[Rule]:
        for name, neutral in (("tp", 1), ("cp", 1), ("sequence_parallel", False), ("recompute", "none")):
            message = f"is for transformers; {self.workload.name} needs {str(neutral).lower()}"
            yield self._rule(name, getattr(self.strategy, name) != neutral, message.__str__)

    def _precision_rules(self) -> Iterator[Rule]:
        precision, peaks = self.workload.training.precision, self.hardware.device.compute.peak
        yield self._of_workload(
            "precision", precision not in peaks, precision,
            lambda: f"{self.hardware.device.name} has no peak for {precision}; it has {', '.join(peaks)}",
        )  # fmt: skip

    def _base_rules(self) -> Iterator[Rule]:
        """Frozen weights in few bits are kept whole by each rank: no shards of them are gathered."""
        adapters, s = self.workload.training.adapters, self.strategy
        if adapters is None or adapters.stored is None:
            return
        yield self._rule(
            "zero", np.asarray(sharding_of(s.zero).parameters != "N"),
            lambda: f"shards of weights in {adapters.base} are not modelled; take zero 0, 1 or 2, or base whole",
        )  # fmt: skip
        yield self._rule(
            "offload", np.asarray(s.keeps_off.parameters != "none"),
            lambda: f"weights in {adapters.base} stay on the device; offload states or activations, or take base whole",
        )  # fmt: skip

    def _server_rules(self) -> Iterator[Rule]:
        s, inside = self.strategy, self.hardware.host.devices
        if s.sync != "parameter-server":
            return
        servers, ranks = s.keeper, replicas(s) * s.cp
        hosts = np.ceil(ranks / np.maximum(inside // s.tp, 1)).astype(int)
        workers, what = (hosts, "hosts") if servers.workers == "hosts" else (ranks, "devices")
        yield self._rule(
            "servers.placement", (servers.placement == "host-memory") & (hosts > 1),
            lambda: f"host-memory serves the {inside} devices of one host, not {hosts} hosts; take dedicated or colocated",
            blamed=servers.placement,
        )  # fmt: skip
        if servers.count:
            yield self._rule(
                "servers.count", (servers.placement == "colocated") & (servers.count > workers),
                lambda: f"{servers.count} servers do not find room on {workers} {what}; take at most {workers}, or placement dedicated",
                blamed=servers.count,
            )  # fmt: skip
