"""Mixtures of experts, latent attention and windows against what others count: parameters, FLOP, activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfmodel.graph import expand
from perfmodel.graph.flops import active_parameters, model_flops, recomputed_flops
from perfmodel.graph.ops import Attention, Experts, Norm
from perfmodel.graph.recomputation import dropped, repeated
from perfmodel.library import find

if TYPE_CHECKING:
    from perfmodel.graph.graph import Graph

PUBLISHED = {
    # safetensors indices on huggingface.co; billions that a token uses, as the models' reports give them
    "mixtral-8x7b": (46_702_792_704, 12.9),
    "mixtral-8x22b": (140_630_071_296, 39),
    "deepseek-v2": (235_741_434_880, 21),
    "deepseek-v2-lite": (15_706_484_224, 2.4),
    "qwen3-30b-a3b": (30_532_122_624, 3.3),
    "qwen3-235b-a22b": (235_093_634_560, 22),
    "qwen2-57b-a14b": (57_409_000_000, 14),
    "gpt-oss-120b": (116_829_156_672, 5.7),
    "dbrx": (131_596_523_520, 36),
    "grok-1": (316_490_000_000, 86),
    "llama-4-scout": (107_770_000_000, 17),
    "llama-4-maverick": (400_710_000_000, 17),
}
EXACT = {"mixtral-8x7b", "mixtral-8x22b", "deepseek-v2", "deepseek-v2-lite", "qwen3-30b-a3b", "qwen3-235b-a22b"}
"""The others have sinks, biases or norms without shift that are left out, or are rounded."""


def graph_of(name: str, **changes: Any) -> Graph:
    overrides = {path.replace("__", "."): (value, "test") for path, value in changes.items()}
    return expand(find("workloads", name, overrides), microbatch=1, fused=True)


def ops(graph: Graph, kind: type) -> list[Any]:
    return [op for block in graph.body for op in block.ops if isinstance(op, kind)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters(name: str) -> None:
    total, active = PUBLISHED[name]
    graph = graph_of(name)
    assert graph.parameters == pytest.approx(total, rel=0 if name in EXACT else 1e-5, abs=0)
    assert active_parameters(graph) / 1e9 == pytest.approx(active, rel=0.12 if name == "deepseek-v2-lite" else 0.035)


def test_deepseek_v3_with_and_without_the_module_that_looks_ahead() -> None:
    """671 B and 37 B that a token uses; the module adds a layer, two norms, a projection of 2h to h and a final norm."""
    alone = graph_of("deepseek-v3", model__future_tokens=0)
    assert alone.parameters == 671_026_404_352
    assert active_parameters(alone) / 1e9 == pytest.approx(37, rel=0.02)
    layer = next(block.parameters for block in alone.body if "mixture" in block.name)
    added = graph_of("deepseek-v3").parameters - alone.parameters
    assert added == layer + 2 * 7168**2 + 3 * 7168


def test_layers_are_mixtures_from_a_layer_on_or_at_intervals() -> None:
    deep, every = graph_of("deepseek-v3"), graph_of("llama-4-maverick")
    assert [(block.name, block.repeat) for block in deep.body] == [("dense layer", 3), ("mixture layer", 58)]
    assert [block.places for block in every.body] == [tuple(range(0, 48, 2)), tuple(range(1, 48, 2))]


def test_a_model_of_one_kind_of_layer_is_one_block() -> None:
    assert [(block.name, block.places) for block in graph_of("mixtral-8x7b").body] == [("layer", ())]


def test_flops_of_a_mixture_are_those_of_its_active_experts() -> None:
    """A dense model whose multilayer perceptron is as wide as the experts of a token does the same but for the router."""
    name = {"model__layers": 4}
    mixture = graph_of("mixtral-8x7b", **name)
    dense = graph_of("generic-llama", **name, model__ffn_hidden=2 * 14336, model__kv_heads=8, training__sequence=4096)
    router = 3 * 4 * 2 * 4096 * 4096 * 8
    assert model_flops(mixture) == pytest.approx(model_flops(dense) + router, rel=1e-12)


def test_6nd_counts_what_a_token_uses() -> None:
    graph = graph_of("mixtral-8x7b")
    assert model_flops(graph, "6nd") == 6 * active_parameters(graph) * 4096


def test_latent_attention_has_the_flops_of_its_widths() -> None:
    core = ops(graph_of("deepseek-v3"), Attention)[0]
    assert (core.head_dim, core.pair_width) == (192, 320)
    assert model_flops(graph_of("deepseek-v3")) > model_flops(graph_of("deepseek-v3"), "causal")
    saved = 4096 * 128 * 2 * (192 + 192 + 128 + 128) + 4 * 128 * 4096
    assert core.saved == saved


def test_a_window_costs_less_and_only_in_its_layers() -> None:
    windowed, full = ops(graph_of("gpt-oss-120b"), Attention)
    assert (windowed.window, full.window) == (128, None)
    assert windowed.pairs == full.pairs * 128 / 4096
    assert windowed.seen_pairs == pytest.approx(windowed.pairs * (1 - 128 / 8192))
    wide = graph_of("gpt-oss-120b", model__window=4096)
    assert model_flops(wide) > model_flops(graph_of("gpt-oss-120b"))


def test_norms_of_heads_have_weights_as_wide_as_a_head() -> None:
    norms = [op for op in ops(graph_of("qwen3-30b-a3b"), Norm) if op.split == "heads"]
    assert [(op.parameters, op.rows) for op in norms] == [(128, 4096 * 32), (128, 4096 * 4)]


def test_narrow_products_cast_tokens_of_experts_too() -> None:
    wide, narrow = (ops(graph_of("mixtral-8x7b", training__precision=p), Experts)[0] for p in ("bf16", "fp8"))
    assert len(narrow.forward()) == len(wide.forward()) + 2
    assert len(narrow.backward()) == len(wide.backward()) + 2


class TestRecomputedModules:
    LAYER = graph_of("deepseek-v3").body[1].ops

    @pytest.mark.parametrize("module", ["norms", "activations", "latent"])
    def test_what_runs_again_is_not_kept(self, module: str) -> None:
        modules = frozenset({module})
        assert sum(len(repeated(op, modules)) for op in self.LAYER) > 0
        assert 0 < sum(dropped(op, modules) for op in self.LAYER) < sum(op.saved for op in self.LAYER)

    def test_latent_projections_count_as_hardware_flops(self) -> None:
        graph = graph_of("deepseek-v3")
        up = 2 * 4096 * (1536 * 128 * 192 + 512 * 128 * 256)
        assert recomputed_flops(graph, "none", modules=frozenset({"latent"})) == 61 * up
        assert recomputed_flops(graph, "none") == 0
