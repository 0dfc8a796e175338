"""A prediction with what delays and failures make of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

from perfmodel.prediction import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.cost.capacity import Footprint
    from perfmodel.graph import Graph
    from perfmodel.specs.pipelines import UnequalPipeline
    from perfmodel.units import Number
    from perfmodel.variation.dealing import Deal
    from perfmodel.variation.failures import Reliability
    from perfmodel.variation.mitigation import Plan
    from perfmodel.variation.simulate import Simulation


@dataclass(frozen=True, slots=True)
class Waiting:
    """What slow devices and messages make of a step."""

    name: str
    compute_factor: float
    """Expected time of the slowest device over the predicted one."""
    communication_factor: float
    machine_factor: float
    """Time of computing on machines of several speeds over the predicted one, before any delay."""
    delay: float
    """Expected, for each step."""
    deviation: float
    """Standard deviation of the step from one to the next."""
    counted: float
    """Share of the batch that counts: less than all where slow replicas are left out."""
    plans: tuple[tuple[Plan, float], ...]
    """What is done about them, each with its share of the steps."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """What sequences of several lengths make of a step."""

    name: str
    deal: Deal
    """Who gets which."""
    step_time: float
    """Before other delays."""
    padding: float
    """Share of the computed tokens that only fill up."""
    padding_time: float
    slowest: float
    """Expected time of the rank that ends last over that of an average one, its pipeline included."""
    waiting_time: float
    working: float
    """Seconds of an average rank, padding included."""
    bubble: float
    error: float
    """Standard error of the step, where the last rank is a mean of drawn steps; 0 of a formula."""

    def over_the_step(self, count: Callable[[Prediction], float]) -> float:
        """A number of a step, averaged over its sequences, padding left out."""
        deal = self.deal
        each = [count(sort.made) for sort in deal.sorts.sorts]
        return deal.filled * float(deal.shares @ each)


@dataclass(frozen=True, slots=True)
class Pipelines:
    """Pipelines that differ, and what a step makes of each."""

    name: str
    given: tuple[UnequalPipeline, ...]
    times: tuple[float, ...]
    """Seconds until the microbatches of each have passed."""
    footprint: Footprint
    """Columns over the stages of all."""
    fits: bool
    """Whether each stage fits in the memory of its devices."""


@dataclass(frozen=True)
class Varied(Prediction):
    """A prediction with unequal pipelines, sequences of several lengths, delays, failures, or several of these."""

    pipelines: Pipelines | None = None
    sequences: Sequences | None = None
    waiting: Waiting | None = None
    reliability: Reliability | None = None
    simulation: Simulation | None = None

    @cached_property
    def footprint(self) -> Footprint:
        """Memory by class; columns over the stages, one pipeline after the other where they differ."""
        return super().footprint if self.pipelines is None else self.pipelines.footprint

    @property
    def fits(self) -> bool:
        """Whether each stage fits in the memory of its devices."""
        return super().fits if self.pipelines is None else self.pipelines.fits

    @property
    def samples_per_step(self) -> float:
        """Samples of replicas that nobody waits for do not count; packed rows hold several each."""
        samples = super().samples_per_step if self.sequences is None else self.sequences.deal.sequences
        return samples * self._counted

    @property
    def _counted(self) -> float:
        return self.waiting.counted if self.waiting else 1.0

    def _over_the_step(self, count: Callable[[Graph], Number]) -> float:
        if self.sequences is None:
            return super()._over_the_step(count) * self._counted
        return self.sequences.over_the_step(lambda made: made._over_the_step(count)) * self._counted  # noqa: SLF001 - its own kind


def varied(prediction: Prediction) -> Varied:
    """The same prediction, in which something may vary."""
    return Varied(**{field.name: getattr(prediction, field.name) for field in fields(Prediction)})
