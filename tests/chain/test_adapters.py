"""Low-rank adapters: what is frozen has no gradients, no optimiser states and no sums among replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfmodel
from perfmodel.graph import expand
from perfmodel.graph.kernels import Gemm
from perfmodel.library import find
from perfmodel.prediction import predict

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, RANK = 32, 4096, 32, 8, 14336, 16
QKV = HIDDEN * (HEADS + 2 * KV_HEADS) // HEADS
"""Llama 3.1 8B."""


def tuned(
    rank: int = RANK,
    modules: str = "qkv+output+up+down",
    model: str = "llama-3.1-8b",
    base: str = "whole",
    **options: Any,
) -> Prediction:
    told = {"rank": rank, "modules": modules, "base": base}
    adapters = {f"workload.training.adapters.{name}": value for name, value in told.items()}
    return perfmodel.predict(model, "dgx-h100", sets=adapters, **{"devices": 8, "batch": 32, "seq": 4096, **options})


@pytest.mark.parametrize(
    ("modules", "widths"),
    [
        ("qkv", HIDDEN + QKV),
        ("qkv+output", HIDDEN + QKV + 2 * HIDDEN),
        ("up+down", HIDDEN + 2 * FFN + FFN + HIDDEN),
    ],
)
def test_two_narrow_products_are_trained_beside_each(modules: str, widths: int) -> None:
    prediction = tuned(modules=modules)
    assert prediction.graph.trained == LAYERS * RANK * widths
    assert (
        prediction.graph.parameters
        == prediction.graph.trained + expand(find("workloads", "llama-3.1-8b"), microbatch=1, fused=True).parameters
    )


def test_only_adapters_have_gradients_of_weights() -> None:
    graph = tuned(modules="qkv").graph
    gradients = [
        k.name
        for b in graph.blocks()
        for op in b.ops
        for k in op.backward()
        if isinstance(k, Gemm) and k.is_weight_gradient
    ]
    assert gradients == ["attention qkv adapter in weight gradient", "attention qkv adapter out weight gradient"]


def test_states_are_those_of_the_adapters() -> None:
    small, full = tuned(modules="qkv"), perfmodel.predict("llama-3.1-8b", "dgx-h100", devices=8, batch=32, seq=4096)
    share = float(small.graph.trained) / float(full.graph.trained)
    one, all_ = small.footprint.classes, full.footprint.classes
    assert np.all(one["gradients"] == pytest.approx(all_["gradients"] * share))
    assert np.all(one["optimizer"] == pytest.approx(all_["optimizer"] * share))
    assert np.all(one["weights"] >= all_["weights"])
    assert np.all(one["activations"] < all_["activations"])
    assert small.kinds["data parallel"][0] < 0.05 * full.kinds["data parallel"][0]


def test_a_frozen_product_counts_twice_its_forward_pass() -> None:
    small, full = (
        tuned(modules="qkv", rank=1),
        perfmodel.predict("llama-3.1-8b", "dgx-h100", devices=8, batch=32, seq=4096),
    )
    tokens = 32 * 4096
    frozen = 4 * (float(small.graph.parameters) - float(small.graph.trained)) + 6 * float(small.graph.trained)
    assert small.flops("6nd") == pytest.approx(frozen * tokens)
    assert 2 / 3 < small.flops("full-attention") / full.flops("full-attention") < 0.75
    assert small.step_time < full.step_time


def test_tensor_parallel_ranks_share_the_wide_sides() -> None:
    whole, split = tuned(tp=1), tuned(tp=4, sequence_parallel=True)
    trained = [sum(float(b.repeat) * float(b.trained.parameters) for b in p.share.body) for p in (whole, split)]
    narrow = LAYERS * RANK * (HIDDEN + HIDDEN + HIDDEN + HIDDEN)
    assert trained[0] - narrow == pytest.approx(4 * (trained[1] - narrow))


@pytest.mark.parametrize(
    ("model", "set_", "message"),
    [
        (
            "llama-3.1-8b",
            {"rank": 8, "modules": "qkv+gate"},
            "knows no 'gate'; join some of qkv, output, up, down with +",
        ),
        ("vit-b-16", {"rank": 8}, "are for language models alone; leave them out"),
        (
            "deepseek-v3",
            {"rank": 8, "modules": "qkv+output"},
            "this model has no 'qkv' outside of experts and latent attention",
        ),
        ("mixtral-8x7b", {"rank": 8}, "this model has no 'down' outside of experts"),
    ],
)
def test_what_has_no_adapters(model: str, set_: dict[str, Any], message: str) -> None:
    overrides = {f"workload.training.adapters.{name}": value for name, value in set_.items()}
    with pytest.raises(perfmodel.InputError, match=message.replace("+", r"\+")):
        perfmodel.predict(model, "dgx-h100", devices=8, sets=overrides)


class TestFewBits:
    """Frozen weights in 4 bits (QLoRA)."""

    BODY = LAYERS * (HIDDEN * QKV + HIDDEN * HIDDEN + 3 * HIDDEN * FFN)

    @pytest.mark.parametrize(("base", "bits"), [("nf4", 4.5), ("nf4-double", 4 + 8 / 64 + 32 / (64 * 256))])
    def test_products_of_layers_take_few_bits_and_the_rest_is_whole(self, base: str, bits: float) -> None:
        whole, narrow = tuned(), tuned(base=base)
        spared = whole.footprint.weights - narrow.footprint.weights
        assert spared == pytest.approx(self.BODY * (2 - bits / 8))
        assert narrow.graph.parameters == whole.graph.parameters
        assert narrow.flops("full-attention") == whole.flops("full-attention")

    def test_tensor_parallel_ranks_and_stages_share_what_is_spared(self) -> None:
        whole, narrow = (tuned(base=base, tp=2, pp=2) for base in ("whole", "nf4"))
        spared = whole.footprint.weights - narrow.footprint.weights
        assert spared == pytest.approx([self.BODY / 4 * (2 - 4.5 / 8)] * 2)

    def test_weights_are_written_out_for_each_product(self) -> None:
        """Once forward and once backward, and once more where a layer is recomputed."""
        once, again = (
            tuned(base="nf4", recompute=policy, devices=1).step_time - tuned(recompute=policy, devices=1).step_time
            for policy in ("none", "full")
        )
        assert again == pytest.approx(1.5 * once)
        microbatches, rate = 32, 3.35e12
        assert once > 2 * microbatches * self.BODY * (2 + 4.5 / 8) / rate

    def test_what_is_written_out_is_there_in_the_backward_pass(self) -> None:
        """With few tokens the widest place of a layer is then the product whose weights are written out, not its activation."""
        whole, narrow = (tuned(base=base, pp=2, recompute="full", seq=512) for base in ("whole", "nf4"))
        activation, product = 512 * 2 * 3 * FFN, 512 * 2 * (HIDDEN + 2 * FFN) + 2 * HIDDEN * 2 * FFN
        more = np.asarray(narrow.footprint.backward) - np.asarray(whole.footprint.backward)
        assert more[0] == pytest.approx(product - activation)

    @pytest.mark.parametrize(
        ("model", "options", "message"),
        [
            (
                "llama-3.1-8b",
                {"zero": 3},
                "shards of weights in nf4 are not modelled; take zero 0, 1 or 2, or base whole",
            ),
            ("mixtral-8x7b", {"modules": "qkv"}, "experts are kept whole alone; take base whole"),
            ("llama-3.1-8b", {"offload": "parameters=host"}, "weights in nf4 stay on the device"),
        ],
    )
    def test_where_weights_are_whole_alone(self, model: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(perfmodel.InputError, match=message):
            tuned(base="nf4", model=model, **options)

    def test_plans_price_what_predict_says_and_leave_shards_out(self) -> None:
        sets = {"workload.training.adapters.rank": RANK, "workload.training.adapters.base": "nf4-double"}
        plan = perfmodel.plan("llama-3.1-8b", "dgx-h100", devices=8, batch=32, sets=sets)
        assert {row.strategy.sharding.parameters for row in plan.rows} == {"N"}
        for row in plan.rows[:4]:
            alone = predict(row.question.workload, row.question.hardware, row.strategy)
            assert row.step_time == pytest.approx(alone.step_time, rel=1e-12, abs=0)
            assert row.memory == pytest.approx(alone.memory_peak, rel=1e-12, abs=0)
