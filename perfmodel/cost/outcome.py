"""What a step costs: money and energy."""

from __future__ import annotations

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
