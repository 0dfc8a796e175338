"""A predicted step played pass by pass: stages with what only the ends have, sends, exchange, update.

The closed form of a step takes stages as equal and adds what only one stage has; the replay gives each its own time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from perfmodel.schedule.parts import weight_gradients
from perfmodel.schedule.simulate import Simulation, Times
from perfmodel.schedule.step import NOTHING, Microbatch, backward_pass, forward_pass, hidden_sends
from perfmodel.timeline import Part, Serial, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.parallel import Layout
    from perfmodel.schedule.kind import Schedule
    from perfmodel.schedule.step import Stage
    from perfmodel.sync import Synchronisation


@dataclass(frozen=True, slots=True)
class Event:
    """What a device does besides passes."""

    device: int
    name: str
    kind: str
    """exchange or update."""
    start: float
    end: float


@dataclass(frozen=True)
class Replay:
    """One step, played."""

    schedule: Schedule
    layout: Layout
    times: Times
    exchange: tuple[tuple[str, float], ...]
    """What replicas exchange at the end of the passes, in order: names and seconds."""
    update: tuple[tuple[str, float], ...]
    """What follows."""
    overlap: bool
    """Whether the exchange begins with the last backward pass, not after it."""
    slowdown: float
    """Of passes and exchange while both run."""

    @cached_property
    def simulation(self) -> Simulation:
        """Its passes."""
        return self.schedule.play(*self._shape, self.times)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return int(self.layout.pp), int(self.layout.vpp), int(self.layout.microbatches)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Exchange and update of each device."""
        exchanges = [tuple(self._exchange(device)) for device in range(self._shape[0])]
        own = [max(self._passed(d), *(e.end for e in made), 0.0) for d, made in enumerate(exchanges)]
        everyone = max(own)
        begins = [everyone] * len(own) if self.schedule.ends == "together" else own
        updates = (_in_turn(d, "update", begin, self.update) for d, begin in enumerate(begins))
        return tuple(e for several in (*exchanges, *updates) for e in several)

    def _contended(self, device: int) -> float:
        """By how much an exchange beside the last passes delays them, and they it."""
        beside = self.simulation.devices[device][-1].sent - self._exchanged_from(device)
        return (self.slowdown - 1) * min(beside, sum(time for _, time in self.exchange))

    def _passed(self, device: int) -> float:
        return self.simulation.devices[device][-1].sent + self._contended(device)

    def _exchanged_from(self, device: int) -> float:
        slots = self.simulation.devices[device]
        backward = [played for played in slots if any(each.kind == "backward" for each in played.slot)]
        return backward[-1].start if self.overlap else slots[-1].sent

    def _exchange(self, device: int) -> Iterator[Event]:
        whole = sum(time for _, time in self.exchange)
        stretch = 1 + self._contended(device) / whole if whole else 1.0
        stretched = tuple((name, time * stretch) for name, time in self.exchange)
        return _in_turn(device, "exchange", self._exchanged_from(device), stretched)

    @cached_property
    def step_time(self) -> float:
        """Seconds from one step to the next."""
        if self.schedule.ends == "never":
            updates = self._shape[2] if self.schedule.every_microbatch else 1
            exposed = 0.0 if self.overlap else sum(time for _, time in self.exchange)
            update = sum(time for _, time in self.update)
            return self.schedule.step(*self._shape, self.times) + updates * (exposed + update)
        ends = [self._passed(device) for device in range(self._shape[0])]
        for event in self.events:
            ends[event.device] = max(ends[event.device], event.end)
        if self.schedule.ends == "together":
            return max(ends)
        return max(end - slots[0].start for end, slots in zip(ends, self.simulation.devices, strict=True))


def _in_turn(device: int, kind: str, begin: float, parts: tuple[tuple[str, float], ...]) -> Iterator[Event]:
    for name, time in parts:
        if time > 0:
            yield Event(device, name, kind, begin, begin + time)
            begin += time


def replay(
    stage: Stage, layout: Layout, sync: Synchronisation, *, schedule: Schedule, overlap: bool, slowdown: float,
    shares: tuple[list[float], list[float]] | None = None,
) -> Replay:  # fmt: skip
    """Play a step.

    Args:
        stage: passes of one microbatch.
        layout: degrees, numbers.
        sync: gradients and update.
        schedule: order of the passes.
        overlap: gradients travel beside the last backward pass.
        slowdown: of computing and of messages that run at the same time.
        shares: of the passes of a stage, forward and backward, what each chunk along the model takes; None is by its layers.

    Sharded weights that are gathered beside every pass make it as long as the longer of the two, as in the closed form.
    """
    times = _times(stage, layout, sync, schedule, slowdown, shares)
    # chunk by chunk, all but the last has travelled before
    share = 1 / float(layout.vpp) if schedule.once and overlap else 1.0
    return Replay(
        schedule, layout, times, _named((*sync.gradients, *sync.drains), share), _named(sync.after), overlap, slowdown
    )


def _named(parts: tuple[Part, ...], share: float = 1.0) -> tuple[tuple[str, float], ...]:
    return tuple((part.name, share * float(duration(part))) for part in parts)


def _times(
    stage: Stage, layout: Layout, sync: Synchronisation, schedule: Schedule, slowdown: float,
    told: tuple[list[float], list[float]] | None,
) -> Times:  # fmt: skip
    """Seconds by position: the body's chunks with as many layers as they have, the embedding at the first and the head at the last."""
    chunks, repeats = int(layout.vpp), schedule.repeats
    once = schedule.once
    hidden = hidden_sends(stage, layout, schedule)[0]
    each = NOTHING if once else replace(sync, backward=(*sync.backward, *sync.exposed))
    ahead = forward_pass(stage, each, hidden, slowdown)
    back = backward_pass(stage, each, hidden, slowdown, at_once=NOTHING)
    first, last = _passes(stage.prologue), _passes(stage.epilogue)
    positions = int(layout.pp) * (chunks + repeats)
    spare = float(stage.slack / (duration(stage.body_forward) + duration(stage.body_backward)))
    forward, backward = told or [layout.cut.shares(positions, chunks, spare)] * 2

    def along(body: float, shares: list[float], begin: float, end: float) -> list[float]:
        made = [body * share for share in shares]
        made[0] += begin
        made[-1] += end
        return made

    weight = float(weight_gradients(back))
    sends = sum(float(duration(part)) for part in stage.sends)
    one = Microbatch(ahead, back, (), slowdown)
    shared = float(duration(one.together) / duration(one.alone)) if schedule.both_ways else 1.0
    return Times(
        along(float(duration(ahead)), forward, first[0], last[0]),
        along(float(duration(back)) - weight, backward, first[1], last[1]),
        along(weight, backward, first[2], last[2]),
        send=sends / (2 * chunks) if layout.pp > 1 else 0.0, blocking=not hidden, shared=shared,
    )  # fmt: skip


def _passes(both: Part) -> tuple[float, float, float]:
    """Forward, gradients of inputs, gradients of weights of what only one stage has."""
    if not isinstance(both, Serial):
        raise TypeError(f"forward and backward in turn, not {type(both).__name__}")
    forward, backward = both.parts
    weight = float(weight_gradients(backward))
    return float(duration(forward)), float(duration(backward)) - weight, weight
