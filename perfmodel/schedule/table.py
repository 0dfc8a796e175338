"""The table of schedules: the order of passes of each, the closed form of its idle time, what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
from perfmodel.schedule.simulate import Simulation, Times, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.schedule.passes import Costs, Order, Pass
    from perfmodel.specs.strategy import Schedule as Name
    from perfmodel.timeline import Term


@dataclass(frozen=True, slots=True)
class Schedule:
    """One way to order the passes of a pipeline."""

    order: Callable[[int, int, int], Order]
    """Of stages, chunks on each and microbatches."""
    bubble: Callable[[Costs], Term]
    """Of equal stages, beyond the time of their passes."""
    ends: Literal["together", "apart", "never"] = "together"
    """Steps: all stages wait for the last; each begins the next one on its own; or they run into one another."""
    waits: Callable[[Pass, int], tuple[Pass, ...]] | None = None
    """What a pass waits for besides its inputs, with the number of stages."""
    repeats: int = 0
    """Passes forward without gradient."""
    every_microbatch: bool = False
    """Whether each microbatch has an update of its own."""

    def play(self, stages: int, chunks: int, microbatches: int, times: Times) -> Simulation:
        """The exact simulation of one step."""
        order, waits = self.order(stages, chunks, microbatches), self.waits
        return simulate(order, times) if waits is None else simulate(order, times, lambda each: waits(each, stages))

    def step(self, stages: int, chunks: int, microbatches: int, times: Times) -> float:
        """Seconds from one step to the next by the exact simulation."""
        once = self.play(stages, chunks, microbatches, times)
        match self.ends:
            case "together":
                return once.end
            case "apart":
                return max(once.spans)
            case "never":  # the second of two steps takes what every further one will
                return self.play(stages, chunks, 2 * microbatches, times).end - once.end


SCHEDULES: dict[Name, Schedule] = {
    "1f1b": Schedule(one_f_one_b.order, one_f_one_b.bubble),
    "gpipe": Schedule(gpipe.order, gpipe.bubble),
    "breadth-first": Schedule(breadth_first.order, breadth_first.bubble),
    "zero-bubble-h1": Schedule(zero_bubble_h1.order, zero_bubble_h1.bubble),
    "zero-bubble-h2": Schedule(zero_bubble_h2.order, zero_bubble_h2.bubble, ends="apart"),
    "zero-bubble-v": Schedule(zero_bubble_v.order, zero_bubble_v.bubble, ends="apart"),
    "dual-pipe": Schedule(dual_pipe.order, dual_pipe.bubble),
    "pipedream": Schedule(pipedream.order, pipedream.bubble, ends="never", every_microbatch=True),
    "pipedream-2bw": Schedule(pipedream.order, pipedream.bubble, ends="never"),
    "decoupled-backward": Schedule(
        decoupled_backward.order, decoupled_backward.bubble, ends="never", waits=decoupled_backward.waits,
        every_microbatch=True,
    ),
    "3f1b": Schedule(three_f_one_b.order, three_f_one_b.bubble, repeats=three_f_one_b.REPEATS),
}  # fmt: skip
"""What `schedule` of a strategy means."""
