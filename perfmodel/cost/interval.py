"""How sure a prediction is: the errors of its constants, carried through to the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfmodel.specs import Hardware
    from perfmodel.specs.common import Group
    from perfmodel.specs.strategy import Framework

STATED = {"datasheet": 0.15, "published": 0.10, "measured": 0.05, "fitted": 0.10, "assumed": 0.25}
"""Relative standard error of a term whose constants have this status and state no error (assumed)."""
USUAL = 0.20
"""The same of the constants of machines in the record of a framework, whose errors it holds already: root mean square over the
calibration rows, by exposed time (tools/framework_errors.py)."""
HOST = 0.23
"""Relative standard error of the time that devices wait for the host: that with the least loss of an 80 % quantile over the
calibration rows, where each framework's record is what hosts and constants leave of its errors (fitted, likewise)."""
ALL_SOFTWARE = 0.16
"""Error that 80 % of the 5,714 calibration rows of all studies stay within: that of software without a record."""
NO_SOFTWARE = 0.40
"""The same of 5,605 of them, whose software has a name, predicted as if none had been named."""
FEW = 8
"""Rows of a framework that weigh as much as those of all software."""
MEDIAN_TO_DEVIATION = 1 / 0.6745
"""Standard deviation of a normal distribution over its median absolute deviation."""
QUANTILE_80 = 1.2816
"""Standard deviations on each side that hold 80 % of a normal distribution."""


def interval(
    step_time: float, exposed: Mapping[str, float], hardware: Hardware, framework: Framework | None
) -> tuple[float, float]:
    r"""Low and high end of the 80 % interval of the step time.

    .. math:: T e^{\pm w}, \quad w^2 = r^2 + (1.28)^2 \sum_k \left(\frac{t_k}{T} e_k\right)^2

    with the record r of the framework, t_k the exposed time of terms of kind k and e_k the error of their constants as
    far as it exceeds what is usual. Terms of one kind err together; kinds, and the software, err independently. Derived.

    Args:
        step_time: T, predicted.
        exposed: seconds of it by kind of term.
        hardware: whose groups state their errors.
        framework: whose record on measured jobs holds the errors of its habits, and of constants as sure as usual.
    """
    excess = sum((time / step_time * _excess(kind, hardware)) ** 2 for kind, time in exposed.items())
    spread = float(np.exp(np.sqrt(_record(framework) ** 2 + QUANTILE_80**2 * excess)))
    return step_time / spread, step_time * spread


def _record(framework: Framework | None) -> float:
    """Where rows are few the record of all software is the better guess."""
    if framework is None:
        return NO_SOFTWARE
    if framework.error_80 is None:
        return ALL_SOFTWARE
    rows = framework.points or 1
    return float(np.sqrt((rows * framework.error_80**2 + FEW * ALL_SOFTWARE**2) / (rows + FEW)))


def _excess(kind: str, hardware: Hardware) -> float:
    return HOST if kind == "host" else float(np.sqrt(max(constant_error(kind, hardware) ** 2 - USUAL**2, 0.0)))


def constant_error(kind: str, hardware: Hardware) -> float:
    """Relative standard error of terms of one kind, as their group of the hardware file states it."""
    efficiency = hardware.device.efficiency
    groups = {
        "convolution": efficiency.convolution,
        "attention": efficiency.attention,
        "memory-bound": efficiency.streaming,
        "optimizer": efficiency.streaming,
    }
    if kind == "offload":
        return _stated(hardware.host)
    if kind.endswith("parallel") or kind in {"push", "pull", "server"}:
        return max(map(_stated, hardware.network), default=0.0)
    return _stated(groups.get(kind, efficiency.matmul))


def _stated(group: Group) -> float:
    return group.error * MEDIAN_TO_DEVIATION if group.error else STATED[group.status]
