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
UNKNOWN_FRAMEWORK = 0.25
"""Median relative error that is assumed for software without a record: that of all presets together."""
SHARED = 0.05
"""Relative standard error that every prediction has: two measurements of one configuration by one team
differ by 8 to 10 % (530B and 1T of arXiv:2205.05198 and arXiv:2104.04473), so 5 % for each."""
MEDIAN_TO_DEVIATION = 1 / 0.6745
"""Standard deviation of a normal distribution over its median absolute deviation."""
QUANTILE_80 = 1.2816
"""Standard deviations on each side that hold 80 % of a normal distribution."""


def interval(
    step_time: float, exposed: Mapping[str, float], hardware: Hardware, framework: Framework | None
) -> tuple[float, float]:
    """Low and high end of the 80 % interval of the step time.

    Terms of one kind err together; kinds, and the software as a whole, err independently. The logarithm of the step is
    taken as normal.

    Args:
        step_time: predicted.
        exposed: seconds of it by kind of term.
        hardware: whose groups state their errors.
        framework: whose record on measured jobs says how far its habits are known.
    """
    record = (framework.error if framework else None) or UNKNOWN_FRAMEWORK
    variance = (
        SHARED**2
        + (record * MEDIAN_TO_DEVIATION) ** 2
        + sum((time / step_time * _error(kind, hardware)) ** 2 for kind, time in exposed.items())
    )
    spread = float(np.exp(QUANTILE_80 * np.sqrt(variance)))
    return step_time / spread, step_time * spread


def _error(kind: str, hardware: Hardware) -> float:
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
