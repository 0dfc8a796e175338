"""Code of a script that goes through the weights one tensor at a time, before and after the update."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from perfmodel.origin import Fraction
from perfmodel.specs.common import Group
from perfmodel.units import Seconds

Times = Annotated[Fraction, Field(ge=0)]


class WeightLoop(Group):
    """What statistics, norms and an eager optimiser do for each weight tensor; counts are read in code, times are the host's."""

    numbers: Times = 0.0
    """Read and written for each weight, beside what the optimiser itself moves."""
    operations: Times
    """Launched for each tensor."""
    operation: Seconds
    """Of the host, to launch one: a bare call without a module or a gradient around it."""
    reads: Times = 0.0
    """Values that the host waits for, for each tensor: a test of a number that the device holds."""
    read: Seconds = 0.0
    """From the launch of the kernel that makes such a value until the host has it."""
    once: Seconds = 0.0
    """Of the host, once a step, whatever the weights: records of progress, flags that replicas exchange."""
