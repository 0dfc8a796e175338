"""What one device has of a pipeline stage, before states are sharded and microbatches are in flight."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.memory import logits_memory
from perfmodel.graph.gradients import activated_gate, gathered_for, inside
from perfmodel.graph.ops import Attention, Loss
from perfmodel.graph.recomputation import dropped
from perfmodel.parallel.stages import on_stage
from perfmodel.specs.common import ELEMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfmodel.graph.ops import Op
    from perfmodel.parallel import Layout, LocalBlock, Share
    from perfmodel.specs import Strategy
    from perfmodel.units import Bytes, Count

IN_TRANSIT = 2
"""Layers whose activations are on a device while they leave it or come back: that which computes, and its neighbour
(Transformer Engine, cpu_offload.py: one layer ahead)."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Parameters and activations of one device on one stage; numbers, or columns."""

    dense: Count
    """Parameters that all replicas have."""
    experts: Count
    """Parameters of routed experts, where they are spread over other ranks than everything else."""
    layer: Count
    """Parameters of one layer, of its experts one."""
    unit: Count
    """Parameters of one layer with all experts of it on this device."""
    ends: Count
    """Parameters of embedding and head, where the stage has them."""
    kept: Bytes
    """Activations of one microbatch that the body of the stage keeps."""
    recomputed: Bytes
    """Activations of the layer that is being recomputed."""
    backward: Bytes
    """Gradients of activations inside one layer."""
    entering: Bytes
    """Activations of one microbatch in the prologue."""
    head: Bytes
    """Activations of one microbatch in the epilogue, with the copies of its logits."""
    copies: Count = 1
    """Devices of one pipeline that hold the same."""
    leaving: Bytes = 0.0
    """Of what the body keeps, what goes to the host."""
    staged: Bytes = 0.0
    """Of it, what is on its way."""
    spared: Bytes = 0.0
    """What weights take less than in the precision that computes."""
    tables: Bytes = 0.0
    """Rows of embedding tables on the device, in the precision of their own."""
    table_moments: Bytes = 0.0
    """What their update keeps there."""
    tables_off: Bytes = 0.0
    """Of both, what is in the memory of the host."""
    trained: Holdings | None = None
    """Of them, what has gradients, where weights are frozen; None is all."""

    @property
    def parameters(self) -> Count:
        """All of them."""
        return self.dense + self.experts

    @property
    def learning(self) -> Holdings:
        """What has gradients and optimiser states."""
        return self.trained or self


def holdings(share: Share, layout: Layout, strategy: Strategy, stage: Count) -> Holdings:
    """Sums over the operations of one device's share of a stage.

    The model may turn at the last stage and end where it begins (zero-bubble-v), or run both ways, so that each device has a
    second stage (dual-pipe). Activations are those that the operations declare (Korthikanti et al., 2022, sections 4.1 and
    4.2, is reproduced exactly), less what recomputation drops.
    """
    first, last = np.asarray(stage) == 0, np.asarray(stage) == layout.pp - 1
    if strategy.schedule == "zero-bubble-v":
        last = first
    on = on_stage(share, layout, stage)
    parameters, experts = stage_parameters(on, first=first, last=last), expert_parameters(on, layout, last=last)
    copies = 1
    if strategy.schedule == "dual-pipe":
        parameters = parameters + stage_parameters(on, first=last, last=first)
        experts = experts + expert_parameters(on, layout, last=first)
        first = last = first | last
        copies = 2
    kept, again = _body_activations(on.body, share.boundary, strategy)
    leaving = leaving_activations(on, strategy)
    prologue, epilogue = (sum(b.repeat * b.saved for b in blocks) for blocks in (share.prologue, share.epilogue))
    epilogue = epilogue + _copies_of_logits(share.epilogue, layout, strategy)
    before, after = (sum(b.repeat * b.parameters for b in blocks) for blocks in (share.prologue, share.epilogue))
    return Holdings(
        dense=parameters - experts, experts=experts,
        layer=_most(share.body, lambda b: b.parameters - b.expert_parameters * (1 - 1 / b.experts)),
        unit=_most(share.body, lambda b: b.parameters),
        ends=np.where(first, before, 0) + np.where(last, after, 0),
        kept=kept, recomputed=again,
        backward=share.boundary + _most(share.body, lambda b: _largest(inside(o.op) for o in b.ops)),
        entering=np.where(first, prologue, 0), head=np.where(last, epilogue, 0), copies=copies,
        spared=sum(b.repeat * b.spared for b in on.body) + 0.0 * parameters,
        leaving=leaving, staged=np.minimum(leaving, IN_TRANSIT * leaving / np.maximum(on.layers, 1)),
        **_tables(share),
        trained=None if share.trained is share else holdings(share.trained, layout, strategy, stage),
    )  # fmt: skip


def _tables(share: Share) -> dict[str, Bytes]:
    """Of embedding tables, whose gradients do not wait for the optimiser: bytes on the device, and in the memory of the host.

    A cache on the device has copies of rows that the host has all of.
    """
    return {
        "tables": sum(op.kept * op.weights for op in share.tables),
        "table_moments": sum(op.kept * op.moments for op in share.tables),
        "tables_off": sum((op.kept < 1) * (op.weights + op.moments) for op in share.tables),
    }


def leaving_activations(share: Share, strategy: Strategy) -> Bytes:
    """Of what a stage keeps of one microbatch, what is offloaded: all, what enters its layers, or the rest, or a part of that."""
    off = strategy.keeps_off
    if off.activations == "none":
        return 0.0
    kept, _ = _body_activations(share.body, share.boundary, strategy)
    inputs = share.layers * share.boundary
    of = {"all": kept, "inputs": inputs, "inside": kept - inputs}
    return of[off.tensors] * off.share("activations")


def telling_stages(layout: Layout) -> tuple[Count, ...]:
    """Stages of which one is the fullest under schedules that run one way, for a number of stages that may be a column.

    Stages between the ends hold equal weights and, the nearer to the first, no fewer microbatches: so the first, the second
    and the last are enough, unless the layers of each are told one by one.
    """
    if layout.cut.sizes:
        return tuple(range(int(layout.pp)))
    last = np.asarray(layout.pp) - 1
    return np.zeros_like(last), np.minimum(1, last), last


def fullest(share: Share, layout: Layout, strategy: Strategy) -> dict[str, Count]:
    """Parameters, experts among them, and what of both is trained, of the stage with most: one of the ends, or the second."""
    found = [holdings(share, layout, strategy, stage) for stage in telling_stages(layout)]
    counts = (
        {
            "parameters": f.parameters,
            "experts": f.experts,
            "trained": f.learning.parameters,
            "trained_experts": f.learning.experts,
        }
        for f in found
    )
    return reduce(lambda a, b: {name: np.maximum(a[name], b[name]) for name in a}, counts)


def stage_parameters(share: Share, *, first: Count, last: Count) -> Count:
    """Of one device: its part of the body, what the ends hold, and the second copy of tied weights."""
    body, prologue, epilogue = (
        sum(b.repeat * b.parameters for b in blocks) for blocks in (share.body, share.prologue, share.epilogue)
    )
    copy = np.where(np.asarray(first), 0, share.tied)
    return body + np.where(first, prologue, 0) + np.where(last, epilogue + copy, 0)


def expert_parameters(share: Share, layout: Layout, *, last: Count) -> Count:
    """Of one device: its part of the routed experts; none where they are copied as everything else is."""
    body, epilogue = (sum(b.repeat * b.expert_parameters for b in blocks) for blocks in (share.body, share.epilogue))
    apart = (np.asarray(layout.ep) > 1) | (np.asarray(layout.etp) != layout.tp)
    return np.where(apart, body + np.where(last, epilogue, 0), 0)


def _copies_of_logits(epilogue: Iterable[LocalBlock], layout: Layout, strategy: Strategy) -> Bytes:
    """What a loss needs beyond the logits that it keeps; where a model has several losses, they follow one another."""
    habits = strategy.allocates
    gathered = layout.tp if habits.logits == "whole" else 1
    losses = [local.op for block in epilogue for local in block.ops if isinstance(local.op, Loss)]
    sizes = (
        logits_memory(
            rows=op.rows,
            vocabulary=op.vocabulary * gathered,
            element=op.element,
            wide=ELEMENT_BYTES["fp32"],
            copies=op.copies(float(habits.logit_copies)),
        )
        - op.saved
        for op in losses
    )
    return _largest(sizes)


def _largest(sizes: Iterable[Count]) -> Count:
    """Element by element; 0 of none."""
    largest: Count = 0.0
    for size in sizes:
        largest = np.maximum(largest, size)
    return largest


def _most(body: Iterable[LocalBlock], of: Callable[[LocalBlock], Count]) -> Count:
    """The largest that one repetition of a block has."""
    return _largest(of(block) for block in body)


def _body_activations(body: Iterable[LocalBlock], boundary: Bytes, strategy: Strategy) -> tuple[Bytes, Bytes]:
    """Kept of one microbatch by all layers of a stage, and held by one layer while it is recomputed."""
    kept: Bytes = 0.0
    again: Bytes = 0.0
    for block in body:
        if strategy.recompute == "full":
            kept = kept + block.repeat * boundary
            again = np.maximum(again, block.saved)
        else:
            less = _recomputable(block, strategy)
            kept = kept + block.repeat * (block.saved - less)
            again = np.maximum(again, less)
            kept = kept + block.repeat * sum(_beside(local.op, strategy) for local in block.ops)
    return kept, again


def _beside(op: Op, strategy: Strategy) -> Bytes:
    """What software keeps of an operation that others need not keep."""
    habits = strategy.allocates
    gathered = gathered_for(op) if habits.gathered_inputs == "kept" else 0.0
    apart = habits.gate == "apart" and strategy.modules.isdisjoint({"activations", "mlp"})
    return gathered + (activated_gate(op) if apart else 0.0)


def _recomputable(block: LocalBlock, strategy: Strategy) -> Bytes:
    """What one layer does not keep, and holds while it is recomputed."""
    ops = [local.op for local in block.ops]
    cores = [op.recomputable for op in ops if isinstance(op, Attention)] if strategy.recompute == "selective" else []
    return sum(cores) + sum(dropped(op, strategy.modules) for op in ops)
