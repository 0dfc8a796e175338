"""The largest batch that fits, without accumulation of gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.planner.search import search
from perfmodel.planner.space import divisors

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.planner.search import Question

MOST = 1 << 20
"""Samples for each device above which nobody asks."""


def with_largest_batch(question: Question) -> Question:
    """The question with the largest global batch that some layout has room for, where nothing is accumulated.

    A replica takes its samples as one microbatch, or in a pipeline as one for each stage: then memory grows with the batch,
    which with more microbatches it hardly does. Batches are multiples of the devices, so that all layouts take
    part, or where that is too much divisors of them. Of every layout memory grows with the batch, so that bisection finds the largest.

    Where nothing has room the batch is 1.
    """

    def fits(batch: int) -> bool:
        return search(with_batch(question, batch), "memory", 1).feasible > 0

    devices = question.devices
    if fits(devices):
        return with_batch(question, devices * _largest(lambda times: fits(devices * times)))
    smaller = divisors(devices)[-2::-1]
    return with_batch(question, next(filter(fits, smaller), 1))


def with_batch(question: Question, batch: int) -> Question:
    """The question for another batch, in as few microbatches as there are stages."""
    training = question.workload.training.model_copy(update={"batch": batch})
    axes = replace(question.axes, accumulates=False)
    return replace(question, workload=question.workload.model_copy(update={"training": training}), axes=axes)


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest number that fits, where 1 does and no number above one that does not.

    >>> _largest(lambda number: number <= 13)
    13
    """
    low, high = 1, 2
    while high < MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
