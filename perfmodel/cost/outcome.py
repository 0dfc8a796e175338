"""What a step and a whole training cost: time, money and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.formulas.energy import step_energy

if TYPE_CHECKING:
    from perfmodel.specs import Hardware
    from perfmodel.units import Count, Dollars, Joules, Seconds


def step_cost(hardware: Hardware, devices: Count, time: Seconds) -> Dollars | None:
    """Price of one step, or None where the hardware file has no price."""
    return hardware.price.per_device * devices * time if hardware.price else None


def energy(hardware: Hardware, devices: Count, time: Seconds, busy: Seconds) -> Joules | None:
    """Energy of one step on all devices, or None where the hardware file has no power."""
    power = hardware.device.power
    if power is None:
        return None
    return step_energy(time=time, busy=busy, idle=power.idle, active=power.active, devices=devices)


@dataclass(frozen=True, slots=True)
class Run:
    """A whole training, as many equal steps as its length takes; nothing breaks."""

    steps: float
    time: float
    cost: float | None
    """None where the machine has no price."""
    energy: float | None
    """None where its power is not known."""


def run_of(time: float, step_time: float, cost: float | None, energy: float | None) -> Run:
    """A training of a known time.

    Args:
        time: of all its steps [s].
        step_time: of one step [s].
        cost: of one step [USD].
        energy: of one step [J].

    >>> run_of(1000.0, 10.0, 2.0, None)
    Run(steps=100.0, time=1000.0, cost=200.0, energy=None)
    """
    steps = time / step_time
    return Run(steps, time, None if cost is None else steps * cost, None if energy is None else steps * energy)
