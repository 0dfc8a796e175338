"""What each schedule keeps: microbatches in flight, and copies of the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.in_flight import in_flight_all, in_flight_chunk, in_flight_level
from perfmodel.formulas.memory import in_flight_1f1b

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.parallel import Layout
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


def layers_in_flight(schedule: Schedule, layout: Layout, stage: Count) -> Count:
    """Microbatches whose activations the layers of a stage keep: where its chunks are not alike, by the layers of each."""
    flights = IN_FLIGHT[schedule](stage, layout.pp, layout.vpp, layout.microbatches)
    cut = layout.cut
    alike = not (cut.sizes or np.any(cut.shift) or np.any(cut.spare))
    if alike or IN_FLIGHT[schedule] is not _warm_up:
        return flights
    several = np.asarray(layout.vpp) > 1
    kept, layers = (_told if cut.sizes else _lacking)(layout, stage, flights)
    return np.where(several & (layers > 0), kept / np.maximum(layers, 1), flights)


def _told(layout: Layout, stage: Count, flights: Count) -> tuple[Count, Count]:
    """Layers of all microbatches in flight, and of one, where chunks are told one by one; alike where only stages are."""
    sizes = np.reshape(layout.cut.sizes, (-1, int(layout.pp)))[:, np.asarray(stage, dtype=int)]
    if len(sizes) == 1:
        return flights * sizes[0], sizes[0]
    kept = sum(layers * _of_chunk(layout, stage, chunk) for chunk, layers in enumerate(sizes))
    return kept, sizes.sum(axis=0)


def _lacking(layout: Layout, stage: Count, flights: Count) -> tuple[Count, Count]:
    """The same where the first chunk of all and the last one have fewer layers than a full one."""
    cut, last = layout.cut, np.asarray(layout.vpp) - 1
    full = layout.vpp * np.asarray(cut.chunk)
    first = np.where(np.asarray(stage) == 0, cut.shift, 0)
    end = np.where(np.asarray(stage) == layout.pp - 1, cut.spare, 0)
    lost = first * _of_chunk(layout, stage, 0) + end * _of_chunk(layout, stage, last)
    return np.where(first + end > 0, flights * full - lost, flights), np.where(first + end > 0, full - first - end, 1)


def _of_chunk(layout: Layout, stage: Count, chunk: Count) -> Count:
    return in_flight_chunk(
        chunk=chunk, stage=stage, stages=layout.pp, chunks=layout.vpp, microbatches=layout.microbatches
    )


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
