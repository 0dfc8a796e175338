"""1F1B, plain and interleaved, and GPipe: the same bubble, other memory.

A step is the microbatches of the fullest stage one after the other, the bubble in which it waits for
the pipeline to fill and drain, and what follows the last backward pass. What only one stage has
(embedding, head) slows every microbatch where it is the larger of the two, else it costs once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.pipeline import one_f_one_b_bubble
from perfmodel.timeline import Overlap, Part, Repeat, Serial, duration, term

if TYPE_CHECKING:
    from perfmodel.parallel import Layout
    from perfmodel.sync import Synchronisation
    from perfmodel.units import Count, Number


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


def step(stage: Stage, layout: Layout, sync: Synchronisation, *, overlap: bool, slowdown: Number) -> Serial:
    """The tree of time of one step.

    Args:
        stage: passes of one microbatch.
        layout: degrees.
        sync: gradients and update.
        overlap: gradients travel beside the last backward pass.
        slowdown: of computing and of messages that run at the same time.
    """
    forward = beside("forward", stage.body_forward, sync.forward, slowdown)
    backward = beside("backward", stage.body_backward, sync.backward, slowdown)
    body = Serial("microbatch", (forward, backward, *sync.exposed, *stage.sends))
    microbatches = layout.microbatches
    first, last = duration(stage.prologue), duration(stage.epilogue)
    alone, first_larger = np.asarray(layout.pp) == 1, np.asarray(first) >= last
    bubble = term(
        "pipeline bubble", one_f_one_b_bubble, kind="bubble",
        microbatch=duration(body), stages=layout.pp, chunks=layout.vpp,
    )  # fmt: skip
    hidden = sync.gradients if overlap else ()
    return Serial("step", (
        Repeat("microbatches", body, microbatches - 1),
        forward,
        beside("last backward", backward, hidden, slowdown),
        *sync.exposed,
        *stage.sends,
        *(() if overlap else sync.gradients),
        Repeat("embedding", stage.prologue, _times(alone | first_larger, microbatches)),
        Repeat("head", stage.epilogue, _times(alone | ~first_larger, microbatches)),
        bubble,
        *sync.after,
    ))  # fmt: skip


def beside(name: str, part: Part, messages: tuple[Part, ...], slowdown: Number) -> Part:
    """``part`` with messages that travel at the same time, one after the other."""
    return Overlap(name, (part, Serial(f"{name} messages", messages)), slowdown) if messages else part


def _times(every: Count, microbatches: Count) -> Count:
    return np.where(every, microbatches, 1)
