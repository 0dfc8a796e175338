"""The chain link by link: workload, hardware and strategy -> what a device does -> its times -> the tree of a step.

Degrees may be columns with one row per candidate; `predict` calls the links in turn, the planner each for the degrees that decide it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.compute import Processor
from perfmodel.cost.holdings import fullest, leaving_activations
from perfmodel.cost.input import fetched, prepared
from perfmodel.cost.offload import HostSide
from perfmodel.cost.slowest import slowest
from perfmodel.graph import expand
from perfmodel.parallel import Group, Message, divide
from perfmodel.parallel.cut import TURNING
from perfmodel.parallel.sharded_state import state_of
from perfmodel.parallel.stages import by_chunk, is_mixed, on_stage
from perfmodel.schedule import SCHEDULES, Stage, step
from perfmodel.sync import Replicas, Synchronisation, synchronise
from perfmodel.timeline import Part, Repeat, Serial, duration

if TYPE_CHECKING:
    from perfmodel.cost.passes import Passes
    from perfmodel.graph import Graph
    from perfmodel.parallel import Layout, LocalBlock, Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Hardware, Strategy, Workload
    from perfmodel.units import Seconds


@dataclass(frozen=True, slots=True)
class Work:
    """What one device has to do in a step, before anything is priced."""

    graph: Graph
    share: Share
    state: State


def work_of(workload: Workload, strategy: Strategy, layout: Layout) -> Work:
    """Workload x strategy -> operations, messages and bytes for each parameter."""
    graph = expand(
        workload,
        microbatch=layout.microbatch,
        fused=strategy.attention != "unfused",
        elementwise=strategy.elementwise,
        channels_last=strategy.layout == "channels-last",
        persistent=strategy.batch_norm == "persistent",
        heads_copied=strategy.shared_heads == "copied",
        loss=strategy.loss,
    )
    return Work(graph, divide(graph, layout, strategy), state_of(workload, strategy))


def processor_of(workload: Workload, hardware: Hardware, strategy: Strategy) -> Processor:
    """The device as this job uses it."""
    link = HostSide(hardware.host, hardware.host.devices).rate
    return Processor(hardware.device, workload.training.precision, strategy.attention, link=link)


def stage_of(work: Work, passes: Passes, layout: Layout) -> Stage:
    """The passes of one microbatch, priced: of the stage that takes longest."""
    share, strategy, host = work.share, passes.strategy, passes.host
    leaving, tier, side = (
        leaving_activations(share, strategy), strategy.keeps_off.activations, HostSide(host, layout.devices),
    )  # fmt: skip
    if share.uneven or _tells_kinds(share, layout):
        share = slowest(share, layout, [layer_time(block, passes) for block in share.body])
    forward, backward = passes.forward(share.body), passes.backward(share.body)
    return Stage(
        body_forward=forward,
        body_backward=backward,
        prologue=_both(passes, share.prologue),
        epilogue=_both(passes, share.epilogue),
        sends=(_sends(share, layout, passes),),
        slack=_slack(share, passes, layout, duration(forward) + duration(backward)),
        asynchronous=float(strategy.pipeline_overlap == "chunks"),
        saves=() if tier == "none" else (side.out("activations", leaving, tier),),
        restores=() if tier == "none" else (side.back("activations", leaving, tier),),
        input=prepared(strategy.input, host, layout),
        fetched=fetched(strategy.input, layout),
    )


def body_time(body: tuple[LocalBlock, ...], passes: Passes) -> Seconds:
    """Of the passes through some layers, forward and backward, with their recomputation."""
    return duration(passes.forward(body)) + duration(passes.backward(body))


def layer_time(block: LocalBlock, passes: Passes) -> Seconds:
    """Of the passes through one layer."""
    return body_time((replace(block, repeat=1),), passes)


def chunk_shares(stage: Stage, share: Share, passes: Passes, layout: Layout) -> tuple[list[float], list[float]] | None:
    """Of the passes of a stage, forward and backward, what each chunk along the model takes; None where layers tell it."""
    if not is_mixed(share) or not np.all(layout.cut.chunk) or passes.strategy.schedule in TURNING:
        return None
    body = by_chunk(share, layout)
    forward = duration(passes.forward(body)) / duration(stage.body_forward)
    backward = duration(passes.backward(body)) / duration(stage.body_backward)
    return np.atleast_1d(forward).tolist(), np.atleast_1d(backward).tolist()


def _tells_kinds(share: Share, layout: Layout) -> bool:
    """Whether layers of several kinds are told stage by stage; else a stage is taken to have the average of them."""
    return bool(layout.cut.sizes) and is_mixed(share)


def _slack(share: Share, passes: Passes, layout: Layout, longest: Seconds) -> Seconds:
    """What the layers of the last stage take less than those of the longest."""
    if _tells_kinds(share, layout):
        return longest - body_time(on_stage(share, layout, int(layout.pp) - 1).body, passes)
    return layout.cut.spare / share.layers * longest


def sync_of(work: Work, hardware: Hardware, strategy: Strategy, layout: Layout) -> Synchronisation:
    """What replicas exchange, priced; the fullest stage sets how much."""
    share = work.share
    counts = fullest(share, layout, strategy)
    return synchronise(
        Replicas(
            tied=share.trained.tied, units=share.layers, products=share.products, tensors=share.trained.tensors,
            state=work.state, layout=layout, hardware=hardware, strategy=strategy,
            tables=sum(op.weights for op in share.tables), **counts,
        )
    )  # fmt: skip


def tree_of(stage: Stage, sync: Synchronisation, strategy: Strategy, layout: Layout, processor: Processor) -> Part:
    """The tree of time of a step."""
    overlap, schedule = strategy.gradient_overlap == "backward", SCHEDULES[strategy.schedule]
    return step(stage, layout, sync, overlap=overlap, slowdown=processor.slowdown, schedule=schedule)


def _both(passes: Passes, blocks: tuple[LocalBlock, ...]) -> Part:
    return Serial("both", (passes.forward(blocks), passes.backward(blocks, recompute=False)))


def _sends(share: Share, layout: Layout, passes: Passes) -> Part:
    """Activations forward and gradients backward, once for each chunk of the stage."""
    scattered = passes.strategy.scatter_gather and not passes.strategy.sequence_parallel
    split = layout.tp if scattered else 1
    send = passes.message(Message("pipeline send", "send", share.boundary / split, layout.pipeline))
    together = Group(np.where(np.asarray(layout.pp) > 1, split, 1), layout.tensor.stride, job=layout.devices)
    gather = passes.message(Message("pipeline all-gather", "all-gather", share.boundary, together))
    return Repeat("sends", Serial("send", (send, gather)), 2 * layout.vpp)
