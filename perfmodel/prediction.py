"""A predicted training step, and every figure that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.chain import chunk_shares, processor_of, stage_of, sync_of, tree_of, work_of
from perfmodel.cost.capacity import Footprint, footprint
from perfmodel.cost.demand import Range, device, reserved, room
from perfmodel.cost.interval import interval
from perfmodel.cost.kept_off import kept_by_hosts, off_room
from perfmodel.cost.losses import ladder
from perfmodel.cost.outcome import Run, energy, run_of, step_cost
from perfmodel.cost.passes import Passes
from perfmodel.graph.flops import Convention, model_flops, recomputed_flops
from perfmodel.parallel import Layout, arrange
from perfmodel.schedule import SCHEDULES, Stage
from perfmodel.schedule.replay import Replay, replay
from perfmodel.timeline import COMMUNICATION, IDLE, Part, duration, leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.graph import Graph
    from perfmodel.parallel import Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Hardware, Strategy, Workload
    from perfmodel.specs.common import Group
    from perfmodel.sync import Synchronisation
    from perfmodel.timeline import Term
    from perfmodel.units import Number


@dataclass(frozen=True)
class Prediction:
    """One predicted training step; everything else follows from its tree of time and its footprint."""

    workload: Workload
    hardware: Hardware
    strategy: Strategy
    layout: Layout
    graph: Graph
    share: Share
    """What one device has of the graph."""
    state: State
    """Bytes for each parameter."""
    stage: Stage
    """Passes of one microbatch."""
    sync: Synchronisation
    """What replicas exchange."""
    tree: Part

    @cached_property
    def footprint(self) -> Footprint:
        """Memory by class; columns over the pipeline stages."""
        return footprint(self.share, self.state, self.layout, self.strategy, np.arange(int(self.layout.pp)))

    @cached_property
    def step_time(self) -> float:
        """Of one optimiser step over the global batch."""
        return float(duration(self.tree))

    @cached_property
    def replay(self) -> Replay:
        """The step played pass by pass, every stage with its own time."""
        return replay(
            self.stage, self.layout, self.sync, schedule=SCHEDULES[self.strategy.schedule],
            overlap=self.strategy.gradient_overlap == "backward",
            slowdown=self.passes.processor.slowdown, shares=chunk_shares(self.stage, self.share, self.passes, self.layout),
        )  # fmt: skip

    @property
    def passes(self) -> Passes:
        """What prices blocks as this job runs them."""
        processor = processor_of(self.workload, self.hardware, self.strategy)
        return Passes(processor, self.hardware.network, self.hardware.host, self.strategy, self.state)

    @cached_property
    def terms(self) -> tuple[tuple[Term, float, float], ...]:
        """Each distinct term with its total and its exposed time; the exposed times add up to the step."""
        merged: dict[tuple[str, float], tuple[Term, float, float]] = {}
        for leaf, time, exposed in leaves(self.tree):
            key = (leaf.name, float(leaf.time))
            _, before, seen = merged.get(key, (leaf, 0.0, 0.0))
            merged[key] = (leaf, before + float(time), seen + float(exposed))
        return tuple(row for row in merged.values() if row[1] > 0)

    @cached_property
    def kinds(self) -> dict[str, tuple[float, float]]:
        """Total and exposed time of each kind of term, in the order of the tree."""
        merged: dict[str, tuple[float, float]] = {}
        for leaf, time, exposed in self.terms:
            before, seen = merged.get(leaf.kind, (0.0, 0.0))
            merged[leaf.kind] = (before + time, seen + exposed)
        return merged

    @cached_property
    def losses(self) -> dict[str, float]:
        """What keeps the step from the needed FLOP at the peak, in seconds; with the ideal they add up to the step."""
        at_peak = self.devices * self.peak
        tokens = self.graph.tokens is not None
        average = self._over_the_step(lambda graph: graph.flops()) / at_peak if tokens else None
        return ladder(self.terms, ideal=self.flops() / at_peak, average=average, peak=self.peak)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower: messages and input hide under computing and one another, no bubble. Upper: nothing hides."""
        beside = (time for kind, (time, _) in self.kinds.items() if kind in {*COMMUNICATION, "input"})
        return max(self.computing, *beside, 0.0), float(duration(self.tree, hidden=False))

    @property
    def computing(self) -> float:
        """Time that the fullest device spends in kernels."""
        waiting = (*IDLE, "stragglers", "sequence imbalance")
        return sum(time for kind, (time, _) in self.kinds.items() if kind not in waiting)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the measured step lies with 80 % probability, by the errors that the constants state."""
        exposed = {kind: seen for kind, (_, seen) in self.kinds.items()}
        return interval(self.step_time, exposed, self.hardware, self.strategy.framework)

    def flops(self, convention: Convention = "full-attention") -> float:
        """FLOP of the step over all devices, recomputation left out."""
        return self._over_the_step(lambda graph: model_flops(graph, convention))

    @property
    def hardware_flops(self) -> float:
        """FLOP of the step with what recomputation executes again, under full attention."""
        return self.flops() + self._recomputed()

    def _recomputed(self, convention: Convention = "full-attention") -> float:
        strategy = self.strategy
        return self._over_the_step(
            lambda graph: recomputed_flops(graph, strategy.recompute, convention, strategy.modules)
        )

    def mfu(self, convention: Convention = "full-attention") -> float:
        """Model FLOP utilisation: share of the devices' peak that goes into needed FLOP."""
        return self.flops(convention) / (self.step_time * self.devices * self.peak)

    @property
    def hfu(self) -> float:
        """Hardware FLOP utilisation: recomputation counts, under full attention."""
        return self.hardware_flops / (self.step_time * self.devices * self.peak)

    def hfu_by(self, convention: Convention) -> float:
        """Hardware FLOP utilisation where model and recomputation are counted under a convention."""
        flops = self.flops(convention) + self._recomputed(convention)
        return flops / (self.step_time * self.devices * self.peak)

    @property
    def samples_per_second(self) -> float:
        """Of the whole job."""
        return self.samples_per_step / self.step_time

    @property
    def samples_per_step(self) -> float:
        """Of the global batch."""
        return float(self.layout.batch)

    @property
    def tokens_per_second(self) -> float | None:
        """Of the whole job; None for models without tokens."""
        return None if self.tokens_per_step is None else self.tokens_per_step / self.step_time

    @property
    def tokens_per_step(self) -> float | None:
        """Of the global batch; None for models without tokens."""
        return None if self.graph.tokens is None else self._over_the_step(lambda graph: graph.tokens or 0)

    @property
    def memory_peak(self) -> float:
        """Bytes of tensors on the fullest device; PyTorch calls them allocated."""
        return float(np.max(self.footprint.total))

    @cached_property
    def memory_reserved(self) -> Range:
        """What the allocator holds, as ranges; columns over the pipeline stages."""
        return reserved(self.footprint, self.strategy)

    @cached_property
    def memory_device(self) -> Range:
        """What is not free on a device, with context and buffers of collectives, as ranges; columns over the stages."""
        return device(self.footprint, self.hardware, self.strategy, self.layout)

    @property
    def memory_margin(self) -> float:
        """Bytes that stay free on the fullest device in the middle of cases; below 0 the allocator must give back what it keeps."""
        return float(self.hardware.device.memory.capacity) - float(np.max(self.memory_device.typical))

    @cached_property
    def kept_off(self) -> dict[str, dict[str, float]]:
        """Bytes by state that each host keeps for its devices in memory and on drives."""
        return kept_by_hosts(self.share, self.state, self.layout, self.strategy, self.hardware)

    @property
    def fits(self) -> bool:
        """Whether tensors of the fullest stage find room beside the least context, and hosts for what is kept off."""
        return self.memory_peak <= room(self.hardware) and all(
            sum(sizes.values()) <= off_room(self.hardware, tier) for tier, sizes in self.kept_off.items()
        )

    @property
    def sourced(self) -> dict[str, Group]:
        """Groups of the hardware file by path; those of offload only where something is offloaded."""
        unused: tuple[str, ...] = () if self.strategy.keeps_off.tiers else ("host.copies", "host.storage")
        return {path: group for path, group in self.hardware.groups() if not path.startswith(unused)}

    @property
    def cost(self) -> float | None:
        """Price of the step, where the machine has one."""
        dollars = step_cost(self.hardware, self.layout.devices, self.step_time)
        return None if dollars is None else float(dollars)

    @property
    def energy(self) -> float | None:
        """Of all devices in the step, where the machine's power is known."""
        joules = energy(self.hardware, self.layout.devices, self.step_time, self.computing)
        return None if joules is None else float(joules)

    @property
    def run(self) -> Run | None:
        """The whole training, where the workload states its length."""
        training = self.workload.training
        if training.tokens is not None and self.tokens_per_second:
            return run_of(float(training.tokens) / self.tokens_per_second, self.step_time, self.cost, self.energy)
        if training.samples is not None:
            return run_of(float(training.samples) / self.samples_per_second, self.step_time, self.cost, self.energy)
        return None

    @property
    def devices(self) -> float:
        """Of the job."""
        return float(self.layout.devices)

    @property
    def peak(self) -> float:
        """FLOP/s of one device at the precision of the job."""
        return float(self.hardware.device.compute.peak[self.workload.training.precision])

    def _over_the_step(self, count: Callable[[Graph], Number]) -> float:
        """What each microbatch has so much of, added up over the global batch."""
        return float(count(self.graph)) * float(self.layout.batch / self.layout.microbatch)


def predict(workload: Workload, hardware: Hardware, strategy: Strategy) -> Prediction:
    """Predict one training step.

    Args:
        workload: what is trained.
        hardware: on which machine.
        strategy: how it is spread over the devices.

    Raises InputError where the strategy cannot be laid out; that memory does not suffice is a
    result (`Prediction.fits`), not an error.

    >>> from perfmodel.library import find
    >>> from perfmodel.specs import Strategy
    >>> p = predict(find("workloads", "gpt2-124m"), find("hardware", "dgx-a100-80gb"), Strategy(dp=8, microbatch=16))
    >>> p.fits, p.layout.microbatches
    (True, 4.0)
    """
    return predict_layout(workload, hardware, strategy, arrange(workload, hardware, strategy))


def predict_layout(workload: Workload, hardware: Hardware, strategy: Strategy, layout: Layout) -> Prediction:
    """The prediction of degrees that are known to be allowed; each may be a column with one row per candidate."""
    work = work_of(workload, strategy, layout)
    processor = processor_of(workload, hardware, strategy)
    stage = stage_of(work, Passes(processor, hardware.network, hardware.host, strategy, work.state), layout)
    sync = sync_of(work, hardware, strategy, layout)
    tree = tree_of(stage, sync, strategy, layout, processor)
    return Prediction(workload, hardware, strategy, layout, work.graph, work.share, work.state, stage, sync, tree)
