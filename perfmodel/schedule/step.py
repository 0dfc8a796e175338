"""One training step: passes of all microbatches, the bubble, the exchange of gradients, the update.

A step is the microbatches of the fullest stage one after the other, the bubble in which it waits for
the pipeline to fill and drain, and what follows the last backward pass. What only one stage has
(embedding, head) slows every microbatch where it is the larger of the two, else it costs once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.offload import copied
from perfmodel.schedule.dual_pipe import paired
from perfmodel.schedule.parts import only, weight_gradients
from perfmodel.schedule.passes import Costs
from perfmodel.sync import Synchronisation
from perfmodel.timeline import Overlap, Part, Repeat, Serial, duration
from perfmodel.units import TINY

if TYPE_CHECKING:
    from perfmodel.parallel import Layout
    from perfmodel.schedule.kind import Schedule
    from perfmodel.units import Count, Number, Seconds

NOTHING = Synchronisation((), (), (), ())
"""Of passes beside which nothing travels."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One microbatch's passes through the parts of the model."""

    body_forward: Part
    body_backward: Part
    prologue: Part
    """Forward and backward."""
    epilogue: Part
    sends: tuple[Part, ...]
    """To and from the neighbouring stages, forward and backward."""
    slack: Seconds = 0.0
    """Of the last stage, where it has fewer layers than the others."""
    asynchronous: Count = 0
    """1 where sends travel beside the passes if the schedule leaves time for it."""
    saves: tuple[Part, ...] = ()
    """Activations to the host beside the forward pass."""
    restores: tuple[Part, ...] = ()
    """And back beside the backward pass."""
    input: tuple[Part, ...] = ()
    """Samples of the next step, prepared beside all of this one."""
    fetched: tuple[Part, ...] = ()
    """Samples of this step, prepared before it."""


@dataclass(frozen=True, slots=True)
class Microbatch:
    """One microbatch through a stage, with what travels beside it."""

    forward: Part
    backward: Part
    other: tuple[Part, ...]
    """What nothing hides: exposed messages of the state sharding, sends."""
    slowdown: Number

    @property
    def alone(self) -> Serial:
        """Forward, then backward."""
        return Serial("microbatch", (self.forward, self.backward, *self.other))

    @property
    def together(self) -> Overlap:
        """A forward beside a backward pass: the kernels of both hide the messages of both."""
        kernels, messages = only(self.alone, messages=False), only(self.alone, messages=True)
        return Overlap("forward beside backward", (kernels, messages), self.slowdown)


def step(
    stage: Stage, layout: Layout, sync: Synchronisation, *, overlap: bool, slowdown: Number, schedule: Schedule
) -> Serial:
    """The tree of time of one step.

    Args:
        stage: passes of one microbatch.
        layout: degrees.
        sync: gradients and update.
        overlap: gradients travel beside the last backward pass.
        slowdown: of computing and of messages that run at the same time.
        schedule: order of the passes.
    """
    each, once = schedule.every_microbatch, schedule.once
    every = replace(NOTHING, gradients=sync.gradients, drains=sync.drains)
    last = every if overlap and not each else NOTHING
    hidden, sends, at_ends = hidden_sends(stage, layout, schedule)
    forward = forward_pass(stage, NOTHING if once else sync, hidden, slowdown)
    backward = backward_pass(
        stage, NOTHING if once else sync, hidden, slowdown, at_once=every if each and overlap else NOTHING
    )
    one = Microbatch(forward, backward, (*(() if once else sync.exposed), *sends), slowdown)
    microbatches = layout.microbatches
    embeddings, heads = _ends(stage, layout, schedule)
    updates = microbatches if each else 1
    made = Serial("step", (
        *stage.fetched,
        *(_stretches(one, layout, sync, last) if once else _passes(one, layout, schedule, last)),
        *(() if overlap else _repeated("exchange", (*sync.gradients, *sync.drains), updates)),
        *at_ends,
        Repeat("embedding", stage.prologue, embeddings),
        Repeat("head", stage.epilogue, heads),
        schedule.bubble(costs(one, layout, schedule)),
        *_repeated("update", sync.after, updates),
    ))  # fmt: skip
    return Serial("step", (Overlap("step beside its input", (made, *stage.input)),)) if stage.input else made


def forward_pass(stage: Stage, sync: Synchronisation, hidden: tuple[Part, ...], slowdown: Number) -> Part:
    """Of one microbatch, with messages and copies beside it."""
    passing = beside("forward", stage.body_forward, (*sync.forward, *hidden), slowdown)
    return copied("forward", passing, out=stage.saves, back=sync.loads)


def backward_pass(
    stage: Stage, sync: Synchronisation, hidden: tuple[Part, ...], slowdown: Number, *, at_once: Synchronisation
) -> Part:
    """Of one microbatch, with messages and copies beside it, and with the exchange of its gradients where none waits."""
    passing = beside("backward", stage.body_backward, (*sync.backward, *at_once.gradients, *hidden), slowdown)
    return copied(
        "backward", passing, out=(*sync.stores, *at_once.drains), back=(*stage.restores, *sync.reloads)
    )  # fmt: skip


def _hidden_share(stage: Stage, layout: Layout, schedule: Schedule) -> Count:
    """1 where sends travel beside the passes, else 0."""
    share: Count = np.where(np.asarray(layout.vpp) > 1, 1.0, 0.0) * stage.asynchronous * schedule.sends_ahead
    return share


def hidden_sends(stage: Stage, layout: Layout, schedule: Schedule) -> tuple[tuple[Part, ...], ...]:
    """Sends beside one pass; those that nothing hides in each microbatch; those of filling and draining.

    While the pipeline fills and drains each pass waits for the send before it: of s for each chunk and direction 2 (p v - 1) in
    all, as the exact simulation has it where a send is shorter than a pass (derived).
    """
    share = _hidden_share(stage, layout, schedule)
    if not np.any(share):
        return (), stage.sends, ()
    halves, whole, ends = (
        tuple(Repeat(name, part, times) for part in stage.sends)
        for name, times in (
            ("sends beside", share / 2), ("sends", 1 - share), ("fill and drain", share * (layout.pp - 1 / np.asarray(layout.vpp))),
        )
    )  # fmt: skip
    return halves, whole, ends


def costs(one: Microbatch, layout: Layout, schedule: Schedule) -> Costs:
    """What the closed form of the bubble needs; gradients of weights are told apart only where it does."""
    whole, ahead = duration(one.alone), duration(one.forward)
    # a send goes with the pass that makes what it carries
    sends = sum((duration(part) for part in one.other), start=0.0) / 2
    weight = weight_gradients(one.backward) if schedule.splits else 0.0
    return Costs(
        forward=ahead + sends, backward=whole - ahead - sends - weight, weight=weight, whole=whole,
        together=duration(one.together) if schedule.both_ways else whole,
        stages=layout.pp, chunks=layout.vpp, microbatches=layout.microbatches,
    )  # fmt: skip


def _passes(one: Microbatch, layout: Layout, schedule: Schedule, hidden: Synchronisation) -> tuple[Part, ...]:
    """All microbatches; gradients travel beside the last backward pass."""
    last = (one.forward, with_gradients(one.backward, hidden, one.slowdown), *one.other)
    if schedule.both_ways:
        pairs = paired(layout.pp, layout.microbatches)
        alone = Repeat("microbatches alone", one.alone, layout.microbatches - pairs - 1)
        return alone, Repeat("microbatches together", one.together, pairs), *last
    repeats = schedule.repeats
    before = Serial("pass without gradient", (one.forward, *(Repeat("sends", part, 0.5) for part in one.other)))
    again = (Repeat("passes without gradient", before, repeats * layout.microbatches),) if repeats else ()
    return *again, Repeat("microbatches", one.alone, layout.microbatches - 1), *last


def _stretches(one: Microbatch, layout: Layout, sync: Synchronisation, hidden: Synchronisation) -> tuple[Part, ...]:
    """All microbatches, where each weight is gathered, and each gradient scattered, once for all of them.

    The gradients of a chunk are complete when its last microbatch is; only those of the last chunk have one pass to hide under.
    """
    last, count = 1 / layout.vpp, layout.microbatches
    before, at_last = (_shares(hidden, share) for share in (1 - last, last))
    forward, backward = Repeat("forward", one.forward, count), Repeat("backward", one.backward, count - last)
    ahead = beside("forward passes", forward, sync.forward, one.slowdown)
    behind = beside("backward passes", backward, (*sync.backward, *before.gradients), one.slowdown)
    return (
        copied("forward passes", ahead, back=sync.loads),
        copied("backward passes", behind, out=(*sync.stores, *before.drains), back=sync.reloads),
        with_gradients(Repeat("backward", one.backward, last), at_last, one.slowdown),
        *sync.exposed,
        *(Repeat("sends", part, count) for part in one.other),
    )


def with_gradients(part: Part, hidden: Synchronisation, slowdown: Number) -> Part:
    """The last backward pass with the sums of gradients that travel beside it."""
    return copied("last backward", beside("last backward", part, hidden.gradients, slowdown), out=hidden.drains)


def _shares(hidden: Synchronisation, share: Count) -> Synchronisation:
    """Of what travels with the last backward pass, what one stretch of it hides."""
    gradients, drains = (
        tuple(Repeat("chunks", part, share) for part in parts) for parts in (hidden.gradients, hidden.drains)
    )
    return replace(hidden, gradients=gradients, drains=drains)


def beside(name: str, part: Part, messages: tuple[Part, ...], slowdown: Number) -> Part:
    """``part`` with messages that travel at the same time, one after the other."""
    return Overlap(name, (part, Serial(f"{name} messages", messages)), slowdown) if messages else part


def _repeated(name: str, parts: tuple[Part, ...], count: Count) -> tuple[Part, ...]:
    """Once for each update."""
    return parts if np.ndim(count) == 0 and count == 1 else tuple(Repeat(name, part, count) for part in parts)


def _ends(stage: Stage, layout: Layout, schedule: Schedule) -> tuple[Count, Count]:
    """How often the fullest stage passes the embedding and the head."""
    microbatches = layout.microbatches
    if schedule.both_ways:  # both ends have both, each for the microbatches of one direction
        return microbatches / 2, microbatches / 2
    both = (np.asarray(layout.pp) == 1) | schedule.turns
    head = duration(stage.epilogue)
    last = np.maximum(head - stage.slack, 0)
    beyond = last / np.maximum(head, TINY)
    first_larger = np.asarray(duration(stage.prologue)) >= last
    heads = np.where(both | ~first_larger, 1 + (microbatches - 1) * beyond, 1)
    return np.where(both | first_larger, microbatches, 1), heads
