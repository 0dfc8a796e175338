"""What each schedule keeps: microbatches in flight, and copies of the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.in_flight import in_flight_all, in_flight_level
from perfmodel.formulas.memory import in_flight_1f1b

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.specs.strategy import Schedule
    from perfmodel.units import Count

    InFlight = Callable[[Count, Count, Count, Count], Count]
    """Of stage, stages, chunks on each and microbatches; in units of a whole stage."""


def _all(stage: Count, _stages: Count, _chunks: Count, microbatches: Count) -> Count:
    return in_flight_all(stage=stage, microbatches=microbatches)


def _warm_up(stage: Count, stages: Count, chunks: Count, microbatches: Count) -> Count:
    return in_flight_1f1b(stage=stage, stages=stages, chunks=chunks, microbatches=microbatches)


def _level(stage: Count, stages: Count, _chunks: Count, microbatches: Count) -> Count:
    return in_flight_level(stage=stage, depth=stages, microbatches=microbatches)


def _twice(stage: Count, stages: Count, _chunks: Count, microbatches: Count) -> Count:
    return in_flight_level(stage=stage, depth=2 * stages - 1, microbatches=microbatches)


def _both_ways(stage: Count, stages: Count, _chunks: Count, microbatches: Count) -> Count:
    return in_flight_level(stage=stage, depth=stages + 1, microbatches=microbatches)


IN_FLIGHT: dict[Schedule, InFlight] = {
    "1f1b": _warm_up, "gpipe": _all, "breadth-first": _all, "zero-bubble-h1": _level, "zero-bubble-h2": _twice,
    "zero-bubble-v": _level, "dual-pipe": _both_ways, "pipedream": _warm_up, "pipedream-2bw": _warm_up,
    "decoupled-backward": _warm_up, "3f1b": _warm_up,
}  # fmt: skip
"""Microbatches whose activations a stage keeps at its fullest."""


def weight_versions(schedule: Schedule, stage: Count, stages: Count, microbatches: Count) -> Count:
    """Versions of the weights that a stage keeps.

    PipeDream keeps one for each microbatch in flight (Harlap et al., 2018, section 3.3), 2BW two (Narayanan et al.,
    ICML 2021, arXiv:2006.09503, section 3.1); where nothing is stale there is one.
    """
    match schedule:
        case "pipedream":
            return _warm_up(stage, stages, 1, microbatches)
        case "pipedream-2bw":
            return 2.0 + 0.0 * np.asarray(stage)
        case _:
            return 1.0 + 0.0 * np.asarray(stage)
