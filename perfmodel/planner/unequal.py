"""Layers of each stage of a plan by their own times: layers of several kinds, embedding, head, and the memory of each stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.chain import layer_time
from perfmodel.cost.capacity import footprint
from perfmodel.parallel.cut import EVEN, TURNING
from perfmodel.planner.partition import partition
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfmodel.prediction import Prediction

    Floats = NDArray[np.float64]


def unequal_layers(made: Prediction, room: float) -> str | None:
    """Layers of each chunk with which the longest stage is shortest, as a strategy names them.

    None without a pipeline, where the strategy names them itself, where equal stages are best, and where nothing fits.

    Args:
        made: the plan.
        room: bytes of a device that stages may fill.
    """
    stages, chunks, cut = int(made.layout.pp), int(made.layout.vpp), made.layout.cut
    if stages == 1 or made.strategy.schedule in TURNING or cut.sizes or not cut.chunk:
        return None
    ends = np.zeros(stages)
    ends[0], ends[-1] = float(duration(made.stage.prologue)), float(duration(made.stage.epilogue))
    try:
        layers = partition(layer_times(made).tolist(), fixed=ends.tolist(), fits=held(made) <= room)
    except ValueError:
        return None
    sizes = dealt(layers, chunks)
    return None if len(set(sizes)) == 1 else "-".join(map(str, sizes))


def layer_times(made: Prediction) -> Floats:
    """Seconds of the passes of one microbatch through each layer along the model, forward and backward."""
    times = np.zeros(int(made.graph.layers))
    for block in made.share.body:
        times[_places(block.places)] = float(layer_time(block, made.passes))
    return times


def held(made: Prediction) -> Floats:
    """Bytes of each stage with layers j to i - 1 on it, by stage, j and i; without layers there is no stage.

    What a stage holds hangs on how many layers of each kind it has, so that each mixture is counted once.
    """
    layers, stages = int(made.graph.layers), np.arange(int(made.layout.pp))
    kinds = np.zeros((len(made.share.body), layers + 1), dtype=np.int64)
    for kind, block in enumerate(made.share.body):
        kinds[kind, 1:][_places(block.places)] = 1
    sums = kinds.cumsum(axis=1)
    begin, end = np.triu_indices(layers + 1, k=1)
    mixtures, place = np.unique(sums[:, end] - sums[:, begin], axis=1, return_inverse=True)
    blocks = zip(made.share.body, mixtures, strict=True)
    share = replace(made.share, body=tuple(replace(block, repeat=own[:, None]) for block, own in blocks))
    total = footprint(share, made.state, replace(made.layout, cut=EVEN), made.strategy, stages).total
    found = np.full((len(stages), layers + 1, layers + 1), np.inf)
    found[:, begin, end] = np.asarray(total)[place.reshape(-1)].T
    return found


def _places(places: tuple[int, ...]) -> list[int] | slice:
    """Of a kind of layer; where there is one kind, all."""
    return list(places) if places else slice(None)


def dealt(stages: list[int], chunks: int) -> list[int]:
    """Layers of each chunk along the model; the ends have those fewer that do not divide.

    >>> dealt([3, 4, 4, 3], 2)
    [1, 2, 2, 2, 2, 2, 2, 1]
    """
    each = [[layers // chunks + (at < layers % chunks) for at in range(chunks)] for layers in stages]
    each[0].reverse()
    return [own[at] for at in range(chunks) for own in each]
