"""Unequal machines: batches, layers and microbatches in proportion to speeds, so that the slowest ends as early as it can."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_ROUNDING = 1e-9
"""Relative, of a quotient that is meant to be whole."""


def split(total: int, costs: Sequence[float], *, least: int = 0, most: Sequence[float] | None = None) -> list[int]:
    """Whole numbers that add up to ``total``, so that the largest of cost times number is as small as it can be.

    Args:
        total: of layers, microbatches or samples.
        costs: time of one at each place.
        least: at each place.
        most: at each place, as memory allows; None is without limit.

    Raises ValueError where the places cannot hold the total, or must hold more.

    Malleus splits the layers of a pipeline and the microbatches among pipelines so (Li, Fu et al., SIGMOD 2025,
    arXiv:2410.13333); here by search over the finite number of times that the slowest can take (derived).

    >>> split(80, [7.22, 7.22, 1.9, 1, 1, 1, 1])
    [2, 2, 8, 17, 17, 17, 17]
    >>> split(64, [17.0, 26.6])
    [39, 25]
    """
    cost, limit = np.asarray(costs, dtype=float), np.asarray([math.inf] * len(costs) if most is None else most)
    if np.any(cost <= 0):
        raise ValueError("costs must be above 0")
    if np.any(limit < least) or np.floor(limit).sum() < total:
        raise ValueError(f"{len(costs)} places cannot hold {total}")
    if least * len(costs) > total:
        raise ValueError(f"{len(costs)} places with at least {least} each hold more than {total}")

    def held(slowest: float) -> Array:
        fits = np.floor(slowest / cost * (1 + _ROUNDING))
        numbers: Array = np.minimum(np.maximum(fits, least), np.floor(limit))
        return numbers

    times = np.unique(
        np.concatenate([c * np.arange(least, min(total, m) + 1) for c, m in zip(cost, limit, strict=True)])
    )
    numbers = held(float(times[bisect_left(times, total, key=lambda time: int(held(time).sum()))]))
    while numbers.sum() > total:  # take back where that shortens the longest
        numbers[np.argmax(np.where(numbers > least, numbers * cost, -1))] -= 1
    return [int(number) for number in numbers]


def slowdown(speeds: Sequence[float], replicas: int, *, balance: str = "none", threads: int | None = None) -> float:
    """Time of computing on unequal replicas over that of equal ones of speed 1.

    Args:
        speeds: of the classes over which the replicas are spread evenly.
        replicas: of the job.
        balance: of the work: none, batch (in proportion to speed) or threads (whole logical workers).
        threads: logical workers of the job.

    Raises ValueError where there are fewer logical workers than replicas.

    >>> slowdown([1.0, 1.54, 2.08], 3), round(slowdown([1.0, 1.54, 2.08], 3, balance="batch"), 4)
    (1.0, 0.6494)
    >>> slowdown([1.0, 2.0], 2, balance="threads", threads=6)  # two and four of six, which are three each on equal ones
    0.6666666666666666
    """
    every = [speeds[i * len(speeds) // replicas] if replicas >= len(speeds) else speeds[i] for i in range(replicas)]
    if balance == "batch":
        return replicas / sum(every)
    if balance == "none" or threads is None:
        return 1 / min(every)
    if threads < replicas:
        raise ValueError(
            f"{threads} logical workers leave some of {replicas} replicas without work; at least {replicas}"
        )
    shares = split(threads, [1 / speed for speed in every], least=1)
    return max(share / speed for share, speed in zip(shares, every, strict=True)) * replicas / threads


def proportional_batch(total: int, speeds: Sequence[float]) -> list[int]:
    """Samples for each worker in proportion to its speed, as LB-BSP gives CPU workers.

    >>> proportional_batch(100, [1.0, 2.0, 2.0])
    [20, 40, 40]
    """
    return split(total, [1 / speed for speed in speeds])


def affine_batch(total: int, fixed: Sequence[float], slopes: Sequence[float], floors: Sequence[float]) -> list[int]:
    """Samples for each worker whose step takes max(floor, fixed + slope x samples), as LB-BSP gives GPU workers.

    Args:
        total: samples.
        fixed: seconds that a step takes however few its samples.
        slopes: seconds for each further sample.
        floors: least seconds of a step, in which a device is not yet saturated.

    The form is derived from Chen et al., SoCC 2020 (arXiv:1806.02508), which batches CPUs and GPUs apart.

    >>> affine_batch(96, [0.1, 0.1], [0.01, 0.02], [0.0, 0.0])
    [64, 32]
    >>> affine_batch(96, [0.0, 0.0], [0.01, 0.01], [0.6, 0.0])  # 0.6 s, the least that the first takes
    [36, 60]
    """
    a, b = np.asarray(fixed, dtype=float), np.asarray(slopes, dtype=float)
    floor = np.asarray(floors, dtype=float)
    low, high = float(np.max(np.maximum(a, floor).min())), float(np.max(np.maximum(floor, a + b * total)))
    for _ in range(200):  # the shortest step in which all samples find a place
        middle = (low + high) / 2
        low, high = (low, middle) if _places(middle, a, b, floor).sum() >= total else (middle, high)
    numbers = _places(high, a, b, floor)
    while numbers.sum() > total:
        numbers[np.argmax(np.where(numbers > 0, np.maximum(floor, a + b * numbers), -1))] -= 1
    return [int(number) for number in numbers]


def _places(time: float, fixed: Array, slopes: Array, floors: Array) -> Array:
    """Samples that each worker does in some time."""
    reached = np.floor((time - fixed) / slopes * (1 + _ROUNDING))
    return np.where(time * (1 + _ROUNDING) >= floors, np.maximum(reached, 0), 0)
