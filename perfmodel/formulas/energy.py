"""Electric energy."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Count, Joules, Seconds, Watts


def step_energy(*, time: Seconds, busy: Seconds, idle: Watts, active: Watts, devices: Count) -> Joules:
    r"""Devices draw their active power while they compute, and their idle power otherwise.

    .. math:: E = N \left(P_a t_b + P_i (t - t_b)\right), \quad t_b \le t

    Args:
        time: t, of the step.
        busy: t_b, of it computing.
        idle: P_i.
        active: P_a.
        devices: N.

    Assumes that waiting for a message draws no more than idling; hosts and cooling are left out.

    References:
        Derived; the split into idle and active power is the usual linear model (Fan, Weber, Barroso,
        Power provisioning for a warehouse-sized computer, ISCA 2007).

    >>> float(step_energy(time=10.0, busy=8.0, idle=100.0, active=400.0, devices=2))
    6800.0
    """
    computing = np.minimum(busy, time)
    return devices * (active * computing + idle * (time - computing))
