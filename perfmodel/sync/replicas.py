"""What replicas hold and where they sit, and what a protocol of synchronisation adds to a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.communication import exchange, started
from perfmodel.formulas.host import dispatch
from perfmodel.formulas.roofline import streaming
from perfmodel.parallel import Group, Message
from perfmodel.parallel.tables import TableGroups
from perfmodel.specs.common import ELEMENT_BYTES
from perfmodel.timeline import Overlap, Part, Repeat, term

if TYPE_CHECKING:
    from perfmodel.cost.ports import Ports
    from perfmodel.parallel import Layout
    from perfmodel.parallel.messages import Collective
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Hardware, Strategy
    from perfmodel.units import Bytes, Count, Seconds

KIND = "data parallel"
"""Of all terms by which replicas agree."""


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
    loads: tuple[Part, ...] = ()
    """From the host beside every forward pass."""
    reloads: tuple[Part, ...] = ()
    """From the host beside every backward pass."""
    stores: tuple[Part, ...] = ()
    """To the host beside every backward pass."""
    drains: tuple[Part, ...] = ()
    """To the host beside the last backward pass."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """One device's share of the model, and the job that it is part of."""

    parameters: Count
    """Of the fullest pipeline stage, on one device."""
    tied: Count
    """Of them, those that the first and the last stage share."""
    units: Count
    """Layers of a stage, one by one of which ZeRO 3 gathers and scatters at the most."""
    products: Count
    """Of a stage, those with weights."""
    tensors: Count
    """Of the parameters that are trained, as an optimiser sees them."""
    state: State
    """Bytes for each parameter."""
    layout: Layout
    hardware: Hardware
    strategy: Strategy
    experts: Count
    """Of the parameters, those of routed experts, which fewer ranks have copies of."""
    trained: Count
    """Of the parameters, those that are not frozen."""
    trained_experts: Count
    """Of the experts, likewise."""
    tables: Bytes = 0.0
    """Weights of embedding tables on one device, which have updates of their own."""

    @property
    def gradient(self) -> Bytes:
        """Of one device, as it travels; without that of routed experts."""
        return (self.trained - self.trained_experts) * self.state.gradient

    @property
    def weight(self) -> Bytes:
        """What the optimiser changes of one device, in the copy that computes; without that of routed experts."""
        return (self.trained - self.trained_experts) * self.state.weight

    def message(self, name: str, collective: Collective, size: Bytes, group: Group, algorithm: str = "fastest") -> Part:
        """One collective among replicas."""
        sent = exchange(Message(name, collective, size, group), self.hardware.network, KIND, algorithm=algorithm)
        return started(sent, self.strategy, group.size)

    def inside_hosts(self, ports: Ports, collective: Collective, size: Bytes) -> tuple[Part, ...]:
        """Among the devices of each host, and the copy of each one's part from or to the host's memory."""
        message = self.message(f"{collective} in hosts", collective, size, ports.local)
        link = self.hardware.host.device_link
        if link is None:
            return (message,)
        part = np.where(np.asarray(ports.hosts) > 1, size / ports.inside, 0.0)
        copy = term("copies to hosts", streaming, kind=KIND, traffic=part, bandwidth=link, fraction=1.0, launch=0.0)
        return (message, copy)

    def tied_embedding(self) -> Part:
        """The gradient of what the first and the last stage share."""
        layout = self.layout
        apart = (layout.pp > 1) * (self.strategy.schedule not in {"zero-bubble-v", "dual-pipe"})
        ends = Group(apart + 1, layout.pipeline.stride * np.maximum(layout.pp - 1, 1))
        return self.message("tied embedding all-reduce", "all-reduce", self.tied * self.state.gradient, ends)

    def mirrored(self) -> Part:
        """The gradient of all that a device holds, with the device that has the second copy of its stages."""
        layout = self.layout
        pair = Group(2, layout.pipeline.stride * np.maximum(layout.pp - 1, 1))
        return self.message("mirrored stage all-reduce", "all-reduce", self.gradient, pair)

    def table_copies(self) -> tuple[Part, ...]:
        """Weights of embedding tables that groups of ranks hold copies of, which they average every few steps."""
        if not np.any(np.asarray(self.tables) > 0):
            return ()
        sharding = self.strategy.spreads_tables
        copies = TableGroups(self.layout, sharding).copies
        message = exchange(
            Message("table all-reduce", "all-reduce", self.tables, copies), self.hardware.network, "table parallel"
        )
        return (Repeat("table copies", started(message, self.strategy, copies.size), 1 / sharding.period),)

    def bucket_copies(self) -> tuple[Part, ...]:
        """Gradients scaled into the buckets that travel, and the sums copied out of them: each read and written twice."""
        if self.strategy.gradient_buckets == "views":
            return ()
        several = np.asarray(self.layout.replicas.size) > 1
        return (self._moved("bucket copies", several * 4 * self.trained * self.state.gradient, "memory-bound"),)

    def part_copies(self, size: Bytes, group: Group) -> tuple[Part, ...]:
        """Parts of a collective copied between the flat buffer that travels and a list, one by one by the host, rank after rank."""
        time = self.strategy.part_copy
        if time is None:
            return ()
        several = np.asarray(group.size) > 1
        moved = self._moved("copies of parts", several * 2 * size, "memory-bound")
        launched = self._by_host("dispatch of parts", several * group.size, time)
        return (Overlap("copies of parts", (moved, launched)),)

    def weight_loop(self) -> tuple[Part, ...]:
        """What a script does tensor by tensor: on the device beside the host that launches it, then what the host waits for."""
        loop = self.strategy.weight_loop
        if loop is None:
            return ()
        moved = self._moved("weight loop", self.trained * loop.numbers * ELEMENT_BYTES["fp32"], "memory-bound")
        launched = self._by_host("weight loop dispatch", self.tensors * loop.operations, loop.operation)
        read = self._by_host("weight loop reads", self.tensors * loop.reads, loop.read)
        once = self._by_host("records of a step", 1.0, loop.once)
        return (Overlap("weight loop", (moved, launched)), read, once)

    def optimizer_step(self, shards: Count = 1, expert_shards: Count = 1, share: float = 1.0) -> Part:
        """Of one device, which updates one of so many shards, and one of so many of its experts, or a share of them."""
        updated = share * ((self.trained - self.trained_experts) / shards + self.trained_experts / expert_shards)
        return self._moved("optimizer step", updated * self.state.update_traffic, "optimizer")

    def _by_host(self, name: str, launches: Count, time: Seconds) -> Part:
        return term(name, dispatch, kind="host", launches=launches, time=time, speed=self.hardware.host.launcher.speed)

    def _moved(self, name: str, traffic: Bytes, kind: str) -> Part:
        efficiency = self.hardware.device.efficiency
        return term(
            name, streaming, kind=kind, traffic=traffic, bandwidth=self.hardware.device.memory.bandwidth,
            fraction=efficiency.streaming.fraction, launch=efficiency.launch.time,
        )  # fmt: skip
