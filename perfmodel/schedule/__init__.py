"""Pipeline schedules: the order of forward and backward passes, one file each, and the table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.schedule import (
    breadth_first,
    decoupled_backward,
    dual_pipe,
    gpipe,
    one_f_one_b,
    pipedream,
    three_f_one_b,
    zero_bubble_h1,
    zero_bubble_h2,
    zero_bubble_v,
)
from perfmodel.schedule.kind import Schedule
from perfmodel.schedule.step import Stage, step

if TYPE_CHECKING:
    from perfmodel.specs.strategy import Schedule as Name

__all__ = ["SCHEDULES", "Schedule", "Stage", "step"]

SCHEDULES: dict[Name, Schedule] = {
    "1f1b": Schedule(one_f_one_b.order, one_f_one_b.bubble, sends_ahead=True),
    "gpipe": Schedule(gpipe.order, gpipe.bubble),
    "breadth-first": Schedule(breadth_first.order, breadth_first.bubble, once=True),
    "zero-bubble-h1": Schedule(zero_bubble_h1.order, zero_bubble_h1.bubble, splits=True),
    "zero-bubble-h2": Schedule(zero_bubble_h2.order, zero_bubble_h2.bubble, ends="apart", splits=True),
    "zero-bubble-v": Schedule(zero_bubble_v.order, zero_bubble_v.bubble, ends="apart", splits=True, turns=True),
    "dual-pipe": Schedule(dual_pipe.order, dual_pipe.bubble, splits=True, both_ways=True),
    "pipedream": Schedule(pipedream.order, pipedream.bubble, ends="never", every_microbatch=True),
    "pipedream-2bw": Schedule(pipedream.order, pipedream.bubble, ends="never"),
    "decoupled-backward": Schedule(
        decoupled_backward.order, decoupled_backward.bubble, ends="never", waits=decoupled_backward.waits,
        every_microbatch=True,
    ),
    "3f1b": Schedule(three_f_one_b.order, three_f_one_b.bubble, repeats=three_f_one_b.REPEATS),
}  # fmt: skip
"""What `schedule` of a strategy means."""
