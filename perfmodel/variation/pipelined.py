"""Pipelines whose microbatches differ: the exact simulation of a schedule, for many draws at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.parts import weight_gradients
from perfmodel.schedule.simulate import Times
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfmodel.prediction import Prediction
    from perfmodel.schedule import Schedule
    from perfmodel.units import Number

    Array = NDArray[Any]


@dataclass(frozen=True)
class Pipeline:
    """Equal stages, and how long their passes take."""

    schedule: Schedule
    stages: int
    chunks: int
    microbatches: int
    """Of one replica."""
    forward: float
    backward: float
    weight: float

    @classmethod
    def of(cls, prediction: Prediction) -> Pipeline:
        """Of a step."""
        stage, layout = prediction.stage, prediction.layout
        weight, back = float(weight_gradients(stage.body_backward)), float(duration(stage.body_backward))
        return cls(
            SCHEDULES[prediction.strategy.schedule], int(layout.pp), int(layout.vpp), int(layout.microbatches),
            float(duration(stage.body_forward)), back - weight, weight,
        )  # fmt: skip

    def stretch(self, microbatches: Array) -> Array:
        """Time of a step over that of equal microbatches.

        Args:
            microbatches: time of each over that of an average one; a row for each draw.
        """
        made: Array = self._end(list(microbatches.T)) / self._end([])
        return made

    def _end(self, microbatches: Sequence[Number]) -> Any:
        """Seconds, a number or a column."""
        forward, backward, weight = (
            [seconds] * (self.stages * self.chunks) for seconds in (self.forward, self.backward, self.weight)
        )
        times = Times(forward, backward, weight, microbatches=microbatches)
        return self.schedule.play(self.stages, self.chunks, self.microbatches, times).end
