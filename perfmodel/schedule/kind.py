"""What a schedule is: the order of its passes, the closed form of its idle time, how its steps follow one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from perfmodel.schedule.simulate import Simulation, Times, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.schedule.passes import Costs, Order, Pass
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
    splits: bool = False
    """Whether gradients of inputs and of weights are apart."""
    once: bool = False
    """Whether the microbatches pass a chunk in one stretch, so that sharded weights are gathered once for all."""
    turns: bool = False
    """Whether the model turns at the last stage and ends on the first."""
    sends_ahead: bool = False
    """Whether several chunks on a stage leave enough passes in between for sends to travel beside them."""
    both_ways: bool = False
    """Whether microbatches enter at both ends and their passes overlap."""

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
