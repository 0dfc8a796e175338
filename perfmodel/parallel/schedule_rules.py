"""What must hold between a schedule and the degrees of a pipeline, which may be numbers or columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.specs.sharding import sharding_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.units import Count

    Fault = tuple[str, Any, Callable[[], str]]
    """The field that a rule blames, where it is broken, and what to tell of it."""

CHUNKED = ("1f1b", "breadth-first", "zero-bubble-v")
"""Schedules with several chunks on a stage."""
LEAST_MICROBATCHES = {"zero-bubble-h2": 2, "zero-bubble-v": 2, "dual-pipe": 2, "pipedream-2bw": 1}
"""For each stage, that a schedule needs to keep all stages busy, 2BW to do with two versions; zero-bubble-h2 and -v one less."""
UNSHARDED = ("pipedream", "pipedream-2bw")
"""Schedules with several versions of the weights."""


def schedule_faults(strategy: Any, microbatches: Count) -> Iterator[Fault]:
    """Rules for the schedule of a strategy, or of anything with degrees of the same names that are columns."""
    s = strategy
    several = np.asarray(s.vpp) > 1
    if s.schedule == "zero-bubble-v":
        yield (
            "vpp", np.asarray(s.vpp) != 2,
            lambda: f"zero-bubble-v has two chunks on each stage; give vpp 2, not {s.vpp}",
        )  # fmt: skip
    elif s.schedule not in CHUNKED:
        yield "vpp", several, lambda: f"{s.schedule} has no virtual stages; take schedule 1f1b or leave vpp at 1"
    if s.schedule == "1f1b":
        yield (
            "vpp", several & (np.asarray(s.pp) > 1) & (microbatches % s.pp != 0),
            lambda: f"interleaving needs microbatches ({microbatches}) in multiples of the {s.pp} stages",
        )  # fmt: skip
    needed = LEAST_MICROBATCHES.get(s.schedule, 0) * s.pp - (s.schedule in {"zero-bubble-h2", "zero-bubble-v"})
    yield (
        "schedule", (np.asarray(s.pp) > 1) & (microbatches < needed),
        lambda: f"{s.schedule} needs {needed} microbatches with {s.pp} stages, not {microbatches}; raise batch, or lower pp or microbatch",
    )  # fmt: skip
    if s.schedule == "dual-pipe":
        yield (
            "schedule", (np.asarray(s.pp) % 2 != 0) | (microbatches % 2 != 0),
            lambda: f"dual-pipe needs even numbers of stages and microbatches, not {s.pp} and {microbatches}",
        )  # fmt: skip
    if s.schedule in UNSHARDED:
        message = f"{s.schedule} keeps several versions of the weights; leave zero at 0 or 1"
        spread = sharding_of(s.zero)
        yield "zero", np.asarray((spread.parameters, spread.gradients) != ("N", "N")), message.__str__
