"""Layers that do not divide by the chunks of a pipeline: where they go, and what the ends then cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.parallel.cut import cut, cut_faults
from perfmodel.specs import Strategy


@given(
    layers=st.integers(1, 130), pp=st.integers(1, 16), vpp=st.integers(1, 8), rule=st.sampled_from(["last-fewer", "ends-fewer"])
)  # fmt: skip
def test_every_layer_is_on_one_stage_and_the_ends_have_fewer(layers: int, pp: int, vpp: int, rule: Any) -> None:
    strategy = Strategy(pp=pp, vpp=vpp, stage_layers=rule)
    assume(not any(np.any(broken) for broken, _ in cut_faults(layers, strategy)))
    made = cut(layers, strategy)
    held = np.bincount(np.asarray(made.stage_of(np.arange(layers), pp), dtype=int), minlength=pp)
    assert held.sum() == layers
    assert held[-1] == made.chunk * vpp - made.spare - (made.shift if pp == 1 else 0)
    assert held[0] == made.chunk * vpp - made.shift - (made.spare if pp == 1 else 0)
    assert set(held[1:-1]) <= {made.chunk * vpp}
    assert made.fullness * layers / pp == pytest.approx(made.chunk * vpp)


def test_layers_that_divide_are_cut_as_ever() -> None:
    made = cut(96, Strategy(pp=8, vpp=3, stage_layers="ends-fewer"))
    assert (made.fullness, made.spare, made.chunk, made.shift) == (1, 0, 4, 0)


def step(layers: int, rule: str, **changes: Any) -> Any:
    settings: dict[str, Any] = {"devices": 64, "pp": 8, "batch": 64, "strategy": "megatron-core"} | changes
    sets = {"workload.model.layers": layers, "strategy.stage_layers": rule}
    return api.predict("llama-3.1-8b", "dgx-h100", sets=sets, **settings)


def test_a_rule_changes_nothing_where_layers_divide() -> None:
    assert step(32, "ends-fewer").step_time == step(32, "equal").step_time


def test_missing_layers_make_room_for_the_head_alone() -> None:
    """30 layers on 8 stages take as long as 32 but for what their last stage has less beside its head."""
    full, last, ends = step(32, "equal"), step(30, "last-fewer"), step(30, "ends-fewer")
    assert last.step_time < ends.step_time < full.step_time
    assert last.footprint.weights[1] == full.footprint.weights[1]
    layer = float(full.footprint.weights[1]) / 4
    assert float(full.footprint.weights[-1] - last.footprint.weights[-1]) == pytest.approx(2 * layer)
    assert float(full.footprint.weights[0] - ends.footprint.weights[0]) == pytest.approx(layer)


def test_llama_405b_has_126_layers_for_128_places() -> None:
    """Embedding and head count as a layer each."""
    made = cut(126, Strategy(pp=16, vpp=8, stage_layers="ends-fewer"))
    assert (made.chunk, made.spare, made.shift) == (1, 1, 1)


def test_ends_cannot_lack_more_than_a_chunk() -> None:
    with pytest.raises(
        InputError, match="which its ends cannot lack; take fewer chunks, or leave stage_layers at equal"
    ):
        step(9, "last-fewer")


def test_a_stage_keeps_microbatches_by_the_layers_of_each_chunk() -> None:
    """Of the last stage's two chunks the second has the loss alone: the layers of the first wait for 4 microbatches, not 2.5."""
    alike, bare = (
        api.predict("llama-3.1-8b", "dgx-h100", strategy="megatron-core", devices=8, pp=4, vpp=2, batch=64,
                    sets={"workload.model.layers": layers, "strategy.stage_layers": cut})
        for layers, cut in ((8, "1-1-1-1-1-1-1-1"), (7, "1-1-1-1-1-1-1-0"))
    )  # fmt: skip
    of = [float(np.asarray(made.footprint.activations)[-1]) for made in (alike, bare)]
    assert of[1] / of[0] == pytest.approx(4 / 5)
    assert np.allclose(np.asarray(alike.footprint.total)[:-1], np.asarray(bare.footprint.total)[:-1])


def test_stages_without_virtual_ones_keep_what_they_ever_did() -> None:
    told = step(32, "4-4-4-4-4-4-4-4")
    assert np.array_equal(told.footprint.total, step(32, "equal").footprint.total)
