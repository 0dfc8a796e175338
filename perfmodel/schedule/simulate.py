"""The exact event simulation of a pipeline: unequal chunks, sends, the start of each pass, memory over time.

A device executes its slots in order, each as soon as the device is free and every pass that it needs has ended and
arrived. A forward pass needs the one before it along the model; a backward pass its own forward pass and the backward
pass after it; the gradients of weights their backward pass. What crosses to another device is sent once the slot
ends; the sender waits for it, unless sends are asynchronous.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.schedule.passes import Pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perfmodel.schedule.passes import Order, Slot

    Needs = Callable[[Pass], Sequence[Pass]]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one microbatch by position along the model."""

    forward: Sequence[float]
    backward: Sequence[float]
    weight: Sequence[float]
    send: float = 0.0
    """To another device."""
    blocking: bool = True
    """Whether a device computes nothing while it sends."""
    shared: float = 1.0
    """Share of the sum of their times that a forward and a backward pass take together."""
    microbatches: Sequence[Any] = ()
    """Time of each microbatch over that of an average one, a number or a column of draws; empty where all are alike."""

    def of(self, slot: Slot) -> float:
        """Seconds of a slot."""
        alone = sum((self.of_pass(each) for each in slot), start=0.0)
        return alone * (self.shared if is_joint(slot) else 1.0)

    def of_pass(self, each: Pass) -> float:
        """Seconds of a pass on its own."""
        time: float = getattr(self, each.kind)[each.position]
        return time * self.microbatches[each.microbatch] if self.microbatches else time


def is_joint(slot: Slot) -> bool:
    """Whether a slot overlaps a forward with a backward pass."""
    return len({each.kind for each in slot} - {"weight"}) > 1


@dataclass(frozen=True, slots=True)
class Played:
    """One executed slot."""

    device: int
    slot: Slot
    start: float
    """Seconds; where the microbatches have columns, so have these."""
    end: float
    sent: float
    """When what it sends has arrived; the end where it sends nothing."""


@dataclass(frozen=True)
class Simulation:
    """Every slot with its times, by device in order."""

    devices: tuple[tuple[Played, ...], ...]

    @cached_property
    def end(self) -> float:
        """When the last slot and the last send have ended."""
        end: float = latest(played.sent for slots in self.devices for played in slots)
        return end

    @cached_property
    def spans(self) -> tuple[float, ...]:
        """From the first start to the last end of each device."""
        return tuple(slots[-1].sent - slots[0].start for slots in self.devices)

    def idle(self, device: int) -> float:
        """Seconds in which a device neither computes nor sends, from the start of the step to its end."""
        return self.end - sum(played.sent - played.start for played in self.devices[device])

    def in_flight(self, device: int) -> Iterator[tuple[float, int]]:
        """Passes whose activations a device keeps, by the time from which it does: steps of a staircase.

        They are kept from the start of the forward pass to the end of the gradients of weights; forward passes
        without a backward pass keep nothing.
        """
        kept = {each[1:] for played in self.devices[device] for each in played.slot if each.kind == "backward"}
        changes: list[tuple[float, int]] = []
        for played in self.devices[device]:
            begun = sum(each.kind == "forward" and each[1:] in kept for each in played.slot)
            changes += [(played.start, begun)] * bool(begun)
            ended = sum(each.kind == "weight" for each in played.slot)
            changes += [(played.end, -ended)] * bool(ended)
        # what ends makes room for what begins at the same time
        at: dict[float, int] = defaultdict(int)
        for time, change in sorted(changes):
            at[time] += change
        yield from zip(at, accumulate(at.values()), strict=True)

    def fullest(self, device: int) -> int:
        """Most passes whose activations a device keeps at once."""
        return max((kept for _, kept in self.in_flight(device)), default=0)


@dataclass
class _Run:
    """The state of a simulation: slots done, who waits for what."""

    order: Order
    times: Times
    also: Needs
    last: Mapping[int, int]
    devices: Mapping[Pass, int]
    ended: dict[Pass, Played] = field(default_factory=dict)
    played: list[list[Played]] = field(default_factory=list)
    waiting: dict[Pass, list[int]] = field(default_factory=lambda: defaultdict(list))

    def advance(self, device: int) -> Iterator[int]:
        """Play a device until it has to wait; gives the devices that waited for what it did."""
        done, slots = self.played[device], self.order[device]
        while len(done) < len(slots):
            slot = slots[len(done)]
            inputs = [need for each in slot for need in self.needs(each) if need not in slot]
            missing = next((need for need in inputs if need not in self.ended), None)
            if missing is not None:
                self.waiting[missing].append(device)
                return
            ready = latest(self.arrival(need, device) for need in inputs)
            done.append(self.play(device, slot, ready))
            for each in slot:
                self.ended[each] = done[-1]
                yield from self.waiting.pop(each, ())

    def play(self, device: int, slot: Slot, ready: float) -> Played:
        before = self.played[device][-1:]
        free = latest((one.sent if self.times.blocking else one.end) for one in before)
        start = latest((free, ready))
        end: float = start + self.times.of(slot)
        leaves = sum(self.leaves(each, device) for each in slot)
        return Played(device, slot, start, end, end + leaves * self.times.send)

    def arrival(self, need: Pass, device: int) -> float:
        played = self.ended[need]
        return played.end if played.device == device else played.sent

    def leaves(self, each: Pass, device: int) -> bool:
        """Whether what a pass makes is wanted on another device."""
        if each.kind == "weight":
            return False
        after = each.position + (1 if each.kind == "forward" else -1)
        return self.devices.get(Pass(each.kind, each.microbatch, after), device) != device

    def needs(self, each: Pass) -> Iterator[Pass]:
        kind, microbatch, position = each
        yield from self.also(each)
        if kind == "weight":
            yield Pass("backward", microbatch, position)
            return
        if kind == "forward" and position:
            yield Pass("forward", microbatch, position - 1)
        if kind == "backward":
            yield Pass("forward", microbatch, position)
            if position < self.last[microbatch]:
                yield Pass("backward", microbatch, position + 1)


def latest(times: Iterable[Any]) -> Any:
    """Of numbers, or row by row of columns; 0 of none."""
    found = list(times)
    columns = any(isinstance(time, np.ndarray) for time in found)
    return reduce(np.maximum, found) if columns else max(found, default=0.0)


def _nothing(_: Pass) -> tuple[Pass, ...]:
    return ()


def simulate(order: Order, times: Times, also: Needs = _nothing) -> Simulation:
    """Play an order of passes.

    Args:
        order: what each device executes.
        times: of every pass.
        also: further passes that one has to wait for.

    Raises ValueError where passes wait for one another in a circle, or for one that no device executes.
    """
    devices = {each: device for device, slots in enumerate(order) for slot in slots for each in slot}
    last: dict[int, int] = {}
    for each in devices:
        last[each.microbatch] = max(last.get(each.microbatch, 0), each.position)
    run = _Run(order, times, also, last, devices, played=[[] for _ in order])
    ready = deque(range(len(order)))
    while ready:
        ready.extend(run.advance(ready.popleft()))
    for device, (slots, played) in enumerate(zip(order, run.played, strict=True)):
        if len(played) < len(slots):
            raise ValueError(f"device {device} waits for ever before {slots[len(played)]}")
    return Simulation(tuple(map(tuple, run.played)))


def gaps(simulation: Simulation, device: int) -> Iterator[tuple[float, float]]:
    """Times between slots in which a device waits, as start and end."""
    for before, after in pairwise(simulation.devices[device]):
        if after.start > before.sent:
            yield before.sent, after.start
