"""How long something takes, on a machine that does other things too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST, MOST = 1, 2000
"""Calls that are timed."""


def time_of(run: Callable[[], object], budget: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call: the median of the calls that fit into a budget, after one that warms up.

    Args:
        run: the call.
        budget: seconds to spend; one call is timed in any case.
        clock: of the wall, or of the processor: where one thread computes, that leaves out the times in which others run.
    """
    run()
    times: list[float] = []
    ends = time.perf_counter() + budget
    while len(times) < LEAST or (len(times) < MOST and time.perf_counter() < ends):
        began = clock()
        run()
        times.append(clock() - began)
    return float(np.median(times))
