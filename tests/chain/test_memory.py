"""Memory by class: what each habit of a framework adds, and at which moment it is the fullest."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel import api
from perfmodel.cost.capacity import CLASSES, Footprint, Moments
from perfmodel.cost.demand import CONTEXT, room
from perfmodel.graph.loss import Loss
from perfmodel.planner.limits import capacity
from perfmodel.reporting.prediction import prediction_report, warnings
from perfmodel.reporting.remedies import REMEDIES
from perfmodel.validation.cases import MEMORY

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

GIB = 2.0**30


def llama(sets: dict[str, Any] | None = None, **job: Any) -> Prediction:
    given: dict[str, Any] = {"strategy": "megatron-core", "devices": 8, "batch": 32} | job
    return api.predict("llama-2-7b", "dgx-h100", sets=sets or {}, **given)


def allocation(**fields: Any) -> dict[str, Any]:
    return {f"strategy.allocation.{name}": value for name, value in fields.items()}


def size(prediction: Prediction, name: str, stage: int = 0) -> float:
    return float(np.broadcast_to(prediction.footprint.classes[name], int(prediction.layout.pp))[stage])


@pytest.mark.parametrize(
    "job", [{"tp": 2}, {"pp": 4}, {"zero": 3}, {"recompute": "full", "zero": 1}, {"tp": 8, "pp": 1}]
)
def test_classes_add_up_to_the_fullest_moment(job: dict[str, Any]) -> None:
    made = llama(**job)
    stages = prediction_report(made).record["memory"]["stages"]
    for stage in stages:
        assert stage["total"] == pytest.approx(sum(stage[name] for name in CLASSES))
    assert max(stage["total"] for stage in stages) == pytest.approx(made.memory_peak)


def test_every_class_has_a_remedy_and_idle_is_none() -> None:
    assert set(REMEDIES) == set(CLASSES) == {f.name for f in fields(Footprint)} - {"idle"}


def test_the_fullest_of_three_moments() -> None:
    sizes = Moments(np.array([3.0, 1, 1]), np.array([1.0, 3, 1]), np.array([1.0, 1, 3]))
    assert np.all((sizes + Moments.alike(1.0)).most == 4.0)


def test_a_copy_of_the_logits_is_four_bytes_for_each() -> None:
    one, two = (llama(allocation(logit_copies=copies), microbatch=4) for copies in (1, 2))
    assert size(two, "output") - size(one, "output") == pytest.approx(4 * 4 * 4096 * 32000)


def test_a_fused_loss_has_its_gradient_beside_the_logits_or_in_their_place() -> None:
    fused, in_place = (llama({"strategy.loss": kind}, microbatch=4) for kind in ("fused", "in-place"))
    logits = 4 * 4096 * 32000
    assert size(fused, "output") + size(fused, "activations") == pytest.approx(
        size(in_place, "output") + size(in_place, "activations") + 2 * logits
    )
    wide = Loss("loss", 10, 100, 4, kernels="fused")
    assert wide.copies(3) * 4 == wide.element


def test_logits_that_are_gathered_are_those_of_all_tensor_ranks() -> None:
    split, whole = (llama(allocation(logits=kind), tp=4, microbatch=4) for kind in ("split", "whole"))
    rows, element = 4 * 4096, 2
    assert size(whole, "output") - size(split, "output") == pytest.approx(rows * 32000 * (3 / 4) * (element + 4))


def test_a_gate_of_its_own_keeps_the_activated_half() -> None:
    fused, apart = (llama(allocation(gate=kind)) for kind in ("fused", "apart"))
    assert size(apart, "activations") - size(fused, "activations") == 32 * 2 * 4096 * 11008
    again = {"strategy.recompute_modules": "activations"}
    fused, apart = (llama(allocation(gate=kind) | again) for kind in ("fused", "apart"))
    assert size(apart, "activations") == size(fused, "activations")


def test_gradients_wait_for_a_layer_or_for_the_stage() -> None:
    none, layer, stage = (llama(allocation(gradients=kind)) for kind in ("none", "layer", "stage"))
    assert size(none, "unreduced") == 0
    assert size(stage, "unreduced") == size(stage, "weights")
    assert 31 < (size(stage, "weights")) / size(layer, "unreduced") < 35  # 32 layers, embedding and head


def test_buckets_that_are_copies_weigh_as_much_as_the_weights_but_not_without_replicas() -> None:
    copies = allocation(buckets="copies")
    assert size(llama(copies), "buckets") == size(llama(copies), "weights")
    assert size(llama(copies, tp=8), "buckets") == 0


def test_zero_3_gathers_two_layers_and_the_ends_inside_a_layer_and_the_ends_at_the_loss() -> None:
    ends, layer = 2 * (2 * 32000 * 4096 + 4096), 2 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096)
    loss = llama(allocation(logit_copies=9), strategy="fsdp", microbatch=4)
    assert size(loss, "output") > 0
    assert size(loss, "gathered") == pytest.approx(ends)
    assert size(loss, "unreduced") == 0
    inside = llama(allocation(logit_copies=0), strategy="fsdp", microbatch=1)
    assert size(inside, "backward") > 0
    assert size(inside, "gathered") == pytest.approx(ends + 2 * layer)
    assert size(inside, "unreduced") == pytest.approx(2 * max(ends, layer))
    assert size(llama(strategy="fsdp", devices=1, batch=4), "gathered") == 0


def test_the_step_of_deepspeed_is_the_fullest_moment_where_little_is_kept_for_passes() -> None:
    made = api.predict("llama-2-7b", "dgx-a100-80gb", strategy="megatron-deepspeed", devices=8, tp=8, batch=8, zero=1)
    assert size(made, "update") == pytest.approx(4 * size(made, "weights") / 2)
    assert size(made, "activations") == size(made, "output") == 0
    assert np.all(made.memory_reserved.typical > made.footprint.total + size(made, "workspace"))


def test_gathered_inputs_are_kept_once_for_each_column_split_product() -> None:
    again, kept = (llama(allocation(gathered_inputs=kind), tp=4, sequence_parallel=True) for kind in ("again", "kept"))
    each = 4096 * 4096 * 2 * (1 - 1 / 4)
    assert size(kept, "activations") - size(again, "activations") == pytest.approx(32 * 2 * each, rel=1e-6)


def test_states_without_a_master_copy() -> None:
    wide, narrow = (llama(allocation(narrow_states=kind)) for kind in (False, True))
    assert (size(wide, "optimizer") / size(wide, "weights"), size(narrow, "optimizer") / size(narrow, "weights")) == (
        6,
        2,
    )


@pytest.mark.parametrize("job", [{"tp": 1}, {"tp": 2}, {"pp": 2}, {"tp": 8, "pp": 1}])
def test_ranges_are_ordered_and_reserved_lies_on_top_of_tensors(job: dict[str, Any]) -> None:
    made = llama(**job)
    for span in (made.memory_reserved, made.memory_device):
        assert np.all(span.low <= span.typical)
        assert np.all(span.typical <= span.high)
    assert np.all(made.memory_reserved.low == made.footprint.total)
    assert np.allclose(made.memory_device.low - made.memory_reserved.low, CONTEXT["gpu"].low)


def test_fits_is_what_the_planner_asks() -> None:
    made = llama(tp=2)
    bound = capacity(made.hardware)
    assert bound.bound == room(made.hardware) == 80 * GIB - 0.4 * GIB
    assert made.fits == (bound.excess(made.memory_peak) <= 0)
    assert not llama(tp=1, zero=0).fits


def test_the_class_to_attack_is_that_of_the_fullest_stage() -> None:
    texts = list(warnings(llama(tp=1, zero=0)))
    assert texts[0].startswith("does not fit: ")
    assert "most is optimizer" in texts[0]
    assert REMEDIES["optimizer"] in texts[0]
    assert not [text for text in warnings(llama(tp=8)) if "most is" in text]


def test_a_job_that_fits_if_the_allocator_gives_back_is_tight() -> None:
    made = llama(tp=2)
    assert made.fits
    assert float(np.max(made.memory_device.high)) > 80 * GIB
    assert next(warnings(made)).startswith("tight: up to ")


def test_figures_of_memory_grow_from_states_to_the_device() -> None:
    made = llama(tp=2)
    sizes = [float(np.max(MEMORY[name](made))) for name in ("states", "allocated", "reserved", "device")]
    assert sizes == sorted(sizes)


def mixture(imbalance: float, activation: str = "swiglu", **job: Any) -> Prediction:
    sets = {"workload.model.experts.imbalance": imbalance, "workload.model.activation": activation}
    given: dict[str, Any] = {"strategy": "megatron-core", "dp": 64, "batch": 256, "zero": 1} | job
    return api.predict("mixtral-8x7b", "dgx-h100", sets=sets, **given)


def test_the_busiest_rank_keeps_what_it_computes() -> None:
    """Input, both halves before the activation and what it gives, of a fifth more tokens in 32 layers; alone, none is busier."""
    kept = 4096 * 2 * (4096 + 3 * 14336) * 2 * 32
    even, busy = (size(mixture(load, ep=8), "activations") for load in (1.0, 1.2))
    assert busy - even == pytest.approx(0.2 * kept)
    assert size(mixture(1.2), "activations") == size(mixture(1.0), "activations")


def test_an_activation_without_gate_is_weighted_by_a_product_of_its_own() -> None:
    """As many numbers wait as with a gate, whose second half stands where the product's input does."""
    gated, plain = (size(mixture(1.0, name, ep=8), "activations") for name in ("swiglu", "gelu"))
    assert gated == pytest.approx(plain)


def test_pytorch_pipelines_keep_fsdp_weights_whole() -> None:
    """A stage of four, of which each of two ranks keeps half."""
    job: dict[str, Any] = {"strategy": "torchtitan-fsdp2", "devices": 8, "pp": 4, "batch": 32}
    whole, layers = (llama(allocation(whole_in_pipelines=on), **job) for on in (True, False))
    parameters = size(whole, "gradients", 1) / 4
    assert size(layers, "gradients", 1) == pytest.approx(size(whole, "gradients", 1) / 2)
    assert size(whole, "gathered", 1) == pytest.approx(2 * parameters)
    assert size(layers, "gathered", 1) < size(whole, "gathered", 1)
    alone = {**job, "pp": 1}
    assert (
        llama(allocation(whole_in_pipelines=True), **alone).memory_peak
        == llama(allocation(whole_in_pipelines=False), **alone).memory_peak
    )
