"""A prediction with what delays and failures make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.prediction import Prediction

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class Varied(Prediction):
    """A prediction with delays, failures or both."""

    waiting: Waiting | None = None
    reliability: Reliability | None = None
    simulation: Simulation | None = None

    @property
    def samples_per_second(self) -> float:
        """Of the whole job; samples of replicas that nobody waits for do not count."""
        return super().samples_per_second * self._counted

    @property
    def _counted(self) -> float:
        return self.waiting.counted if self.waiting else 1.0

    @property
    def _passes(self) -> float:
        return super()._passes * self._counted
