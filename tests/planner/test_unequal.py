"""Stages of a model whose layers are of several kinds: by their own times and memory, as `predict` and the simulation have them."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel.job import Job, load_job
from perfmodel.planner.finalists import WORTH, finalist
from perfmodel.planner.unequal import held, layer_times, unequal_layers
from perfmodel.prediction import Prediction, predict
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYERS, STAGES, ALL = 7, 3, 1e15
"""The last: bytes of a device without limit."""
DENSE = 3


@cache
def base(vocabulary: int, vpp: int) -> Job:
    """Of the layers the first three are dense and take a third of the time of a mixture."""
    sets = {
        "workload.model.layers": LAYERS, "workload.model.experts.dense_first": DENSE, "workload.model.vocabulary": vocabulary,
        "strategy.etp": 1, "strategy.pipeline_overlap": "none",
    }  # fmt: skip
    settings = {"devices": 16 * STAGES, "pp": STAGES, "vpp": vpp, "ep": 16, "batch": 48}
    return load_job("deepseek-v3", "dgx-h100", "megatron-core", settings, sets)


@cache
def small(layers: str = "last-fewer", *, vocabulary: int = 32000, vpp: int = 1) -> Prediction:
    """Stages as a strategy names them."""
    job = base(vocabulary, vpp)
    return predict(job.workload, job.hardware, job.strategy.model_copy(update={"stage_layers": layers}))


def every_cut() -> Iterator[tuple[int, ...]]:
    for ends in combinations(range(1, LAYERS), STAGES - 1):
        yield tuple(b - a for a, b in pairwise((0, *ends, LAYERS)))


def text(cut: tuple[int, ...]) -> str:
    return "-".join(map(str, cut))


def stage_times(made: Prediction) -> np.ndarray[Any, Any]:
    """Of one microbatch, by the exact simulation: what it plays, forward and backward."""
    times = made.replay.times
    by_chunk = np.sum([times.forward, times.backward, times.weight], axis=0)
    return by_chunk.reshape(-1, STAGES).sum(axis=0)  # type: ignore[no-any-return]


@pytest.mark.parametrize("vocabulary", [32000, 500_000])
def test_no_cut_has_a_shorter_longest_stage(vocabulary: int) -> None:
    """Against every cut there is, each predicted."""
    found = unequal_layers(small(vocabulary=vocabulary), ALL)
    assert found is not None
    longest = {text(cut): stage_times(small(text(cut), vocabulary=vocabulary)).max() for cut in every_cut()}
    assert longest[found] == pytest.approx(min(longest.values()), rel=1e-9)
    assert longest[found] < longest["3-2-2"] * 0.95


def test_no_cut_that_has_room_has_a_shorter_longest_stage() -> None:
    every = {text(cut): small(text(cut)) for cut in every_cut()}
    room = float(np.median([made.memory_peak for made in every.values()]))
    found = unequal_layers(small(), room)
    assert found is not None
    fitting = {cut: stage_times(made).max() for cut, made in every.items() if made.memory_peak <= room}
    assert 0 < len(fitting) < len(every)
    assert fitting[found] == pytest.approx(min(fitting.values()), rel=1e-9)
    assert unequal_layers(small(), min(made.memory_peak for made in every.values()) * 0.99) is None


@pytest.mark.parametrize("cut", [(3, 2, 2), (4, 1, 2), (1, 1, 5), (5, 1, 1)])
def test_stages_need_what_their_own_layers_do(cut: tuple[int, ...]) -> None:
    needed, ends = held(small()), np.cumsum([0, *cut])
    found = [needed[stage, ends[stage], ends[stage + 1]] for stage in range(STAGES)]
    np.testing.assert_allclose(found, np.asarray(small(text(cut)).footprint.total), rtol=1e-12)


@pytest.mark.parametrize("cut", ["3-2-2", "4-1-2", "1-1-5", "5-1-1"])
def test_a_prediction_has_the_passes_of_the_longest_stage(cut: str) -> None:
    made, times = small(cut), layer_times(small())
    bodies = [part.sum() for part in np.split(times, np.cumsum([*map(int, cut.split("-"))])[:-1])]
    body = float(duration(made.stage.body_forward) + duration(made.stage.body_backward))
    assert body == pytest.approx(max(bodies), rel=1e-9)
    assert float(made.stage.slack) == pytest.approx(max(bodies) - bodies[-1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("layers", "vpp"), [("last-fewer", 1), ("2-2-1-1-1-0", 2), ("5-1-1", 1), ("2-1-1-1-1-1", 2)])
def test_the_simulation_plays_every_layer_once(layers: str, vpp: int) -> None:
    made = small(layers, vpp=vpp)
    ends = sum(float(duration(part)) for part in (made.stage.prologue, made.stage.epilogue))
    assert stage_times(made).sum() == pytest.approx(layer_times(made).sum() + ends, rel=1e-9)


def test_layers_of_the_first_stage_are_the_dense_ones() -> None:
    dense, mixture = layer_times(small())[[0, -1]]
    made = small("5-1-1")
    embedding, head = (float(duration(part)) for part in (made.stage.prologue, made.stage.epilogue))
    expected = [3 * dense + 2 * mixture + embedding, mixture, mixture + head]
    np.testing.assert_allclose(stage_times(made), expected, rtol=1e-9)


def test_a_finalist_with_unequal_stages_is_offered() -> None:
    found = finalist(small(), ALL)
    assert found.unequal is not None
    assert found.simulated is not None
    assert found.unequal.simulated == pytest.approx(found.unequal.prediction.replay.step_time)
    assert found.unequal.prediction.strategy.stage_layers == unequal_layers(small(), ALL)
    assert float(found.unequal.simulated or 0) < found.simulated * (1 - WORTH)
