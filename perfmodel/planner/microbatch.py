"""The microbatch that nobody stated, beside the largest that fits."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import TYPE_CHECKING

from perfmodel.planner.space import divisors
from perfmodel.prediction import predict

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

FASTER = 0.25
"""Share of the step from which a larger microbatch is worth a word."""


def faster_microbatch(prediction: Prediction) -> Prediction | None:
    """The same job with the largest microbatch that fits, where it left the microbatch at 1 and is much slower for it.

    None where the strategy states a microbatch, and in a pipeline, whose bubble grows with it. Memory grows with the microbatch, so
    that bisection finds the largest.
    """
    p = prediction
    if "microbatch" in p.strategy.model_fields_set or p.layout.pp != 1:
        return None

    @cache
    def made(microbatch: int) -> Prediction:
        return predict(p.workload, p.hardware, p.strategy.model_copy(update={"microbatch": microbatch}))

    sizes = divisors(int(p.layout.batch) // int(p.layout.dp))
    fitting = bisect_left(sizes, 1, key=lambda microbatch: int(not made(microbatch).fits))
    if not fitting:
        return None
    largest = made(sizes[fitting - 1])
    return largest if largest.step_time < made(1).step_time * (1 - FASTER) else None
