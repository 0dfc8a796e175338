"""Transformers against what others count: parameters, FLOP, activations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from perfmodel.cost.capacity import footprint
from perfmodel.graph import expand
from perfmodel.graph.flops import model_flops, recomputed_flops
from perfmodel.graph.ops import Attention
from perfmodel.library import find, names
from perfmodel.parallel import Layout, divide
from perfmodel.parallel.sharded_state import state_of
from perfmodel.specs import Strategy, Workload
from perfmodel.specs.workload import Transformer

if TYPE_CHECKING:
    from perfmodel.graph import Graph

PARAMETERS = {
    # nanoGPT prints 124.44 M and the like; sum of the shapes in the checkpoints of huggingface.co/openai-community/gpt2*
    "gpt2-124m": 124_439_808,
    "gpt2-355m": 354_823_168,
    "gpt2-774m": 774_030_080,
    "gpt2-1.5b": 1_557_611_200,
    # BertForPreTraining of huggingface.co/google-bert/bert-*-uncased
    "bert-base": 110_106_428,
    "bert-large": 336_226_108,
    # safetensors index of huggingface.co/meta-llama/*
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    # huggingface.co/google-t5/*
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    # safetensors indices, likewise
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "mistral-large-2": 122_610_069_504,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-14b": 14_768_307_200,
    "phi-4": 14_659_507_200,
    "smollm2-1.7b": 1_711_376_384,
    "tinyllama-1.1b": 1_100_048_384,
    "gemma-7b": 8_537_680_896,
    "falcon-40b": 41_303_293_952,
    "falcon-180b": 179_522_565_120,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "gpt-neox-20b": 20_554_567_680,
    # "num_params" in torchvision/models/vision_transformer.py; H/14 at 224 pixels
    "vit-b-16": 86_567_656,
    "vit-l-16": 304_326_632,
    "vit-h-14": 632_045_800,
}
NEARLY = {
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "olmo-2-7b": 7_298_617_344,
    "olmo-2-13b": 13_716_198_400,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-27b": 27_009_346_304,
    "falcon-7b": 6_921_720_704,
    "bloom-176b": 176_247_271_424,
    "palm-540b": 540_350_000_000,
    "gpt-oss-20b": 20_914_757_184,
    "kimi-k2": 1_026_408_232_448,
}
"""Those of which the description leaves out biases of queries and keys, or norms."""
MEGATRON = [name for name in names("workloads") if name.startswith("megatron-")]


def graph_of(name: str, microbatch: Any = 1, *, fused: bool = True) -> Graph:
    return expand(find("workloads", name), microbatch=microbatch, fused=fused)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str) -> None:
    assert graph_of(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", NEARLY)
def test_parameters_without_small_terms(name: str) -> None:
    assert graph_of(name).parameters == pytest.approx(NEARLY[name], rel=1e-4)


class Shape(NamedTuple):
    """The symbols of the two Megatron papers."""

    b: int
    s: int
    h: int
    a: int
    l: int  # noqa: E741 - layers, as in the papers
    v: int

    @staticmethod
    def of(workload: Workload, microbatch: int = 1) -> Shape:
        model = workload.model
        assert isinstance(model, Transformer)
        sequence, vocabulary = workload.training.sequence, model.vocabulary
        assert sequence
        assert vocabulary
        return Shape(microbatch, sequence, model.hidden, model.heads, model.layers, vocabulary)


class TestFlops:
    """Narayanan et al., SC 2021, section 5.1 and appendix: F = 72 B l s h^2 (1 + s/6h + V/12hl), forward and backward."""

    @pytest.mark.parametrize("name", [*MEGATRON, "gpt3-175b"])
    @pytest.mark.parametrize("fused", [True, False])
    def test_equal_the_closed_form(self, name: str, fused: bool) -> None:
        b, s, h, _, l, v = Shape.of(find("workloads", name), 3)  # noqa: E741
        closed = 72 * b * l * s * h**2 * (1 + s / (6 * h) + v / (12 * h * l))
        assert model_flops(graph_of(name, 3, fused=fused), "full-attention") == pytest.approx(closed, rel=1e-12)

    def test_full_recomputation_adds_a_forward_pass_of_the_layers(self) -> None:
        """96 B l s h^2 (1 + s/6h + V/16hl) in the same place."""
        b, s, h, _, l, v = Shape.of(find("workloads", "megatron-1t"), 1)  # noqa: E741
        graph = graph_of("megatron-1t")
        closed = 96 * b * l * s * h**2 * (1 + s / (6 * h) + v / (16 * h * l))
        assert model_flops(graph) + recomputed_flops(graph, "full") == pytest.approx(closed, rel=1e-12)

    def test_selective_recomputation_adds_the_attention_core(self) -> None:
        b, s, h, _, l, _ = Shape.of(find("workloads", "megatron-22b"), 2)  # noqa: E741
        assert recomputed_flops(graph_of("megatron-22b", 2, fused=False), "selective") == 4 * b * s**2 * h * l
        assert recomputed_flops(graph_of("megatron-22b", 2, fused=True), "selective") == 0

    def test_conventions(self) -> None:
        graph, (b, s, h, _, l, _) = graph_of("gpt3-175b"), Shape.of(find("workloads", "gpt3-175b"))  # noqa: E741
        assert model_flops(graph) - model_flops(graph, "causal") == pytest.approx(6 * b * s**2 * h * l)
        assert model_flops(graph, "6nd") == 6 * graph.parameters * b * s
        assert model_flops(graph_of("bert-large")) == model_flops(graph_of("bert-large"), "causal")


class TestActivations:
    """Korthikanti et al., 2022, equations 1 to 4 and 6: bytes per layer in 16 bits."""

    @pytest.fixture(params=["gpt3-175b", "megatron-530b", "megatron-22b"])
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def kept(self, name: str, tp: Any, strategy: Strategy, *, fused: bool = False) -> Any:
        """Of one layer and one microbatch of 2."""
        workload = find("workloads", name)
        layout = Layout(tp=tp, pp=1, vpp=1, cp=1, dp=1, microbatch=2, batch=2, shard_group=1)
        share = divide(expand(workload, microbatch=2, fused=fused), layout, strategy)
        alone = replace(share, prologue=(), body=tuple(replace(block, repeat=1) for block in share.body))
        return footprint(alone, state_of(workload, strategy), layout, strategy, stage=0).activations

    def test_one_device(self, name: str) -> None:
        b, s, h, a, _, _ = Shape.of(find("workloads", name), 2)
        assert self.kept(name, 1, Strategy()) == pytest.approx(s * b * h * (34 + 5 * a * s / h), rel=1e-12)

    @pytest.mark.parametrize("tp", [2, 8, np.array([1, 2, 4, 8])], ids=str)
    def test_tensor_parallel(self, name: str, tp: Any) -> None:
        b, s, h, a, _, _ = Shape.of(find("workloads", name), 2)
        closed = s * b * h * (10 + 24 / tp + 5 * a * s / (h * tp))
        assert self.kept(name, tp, Strategy()) == pytest.approx(closed, rel=1e-12)

    @pytest.mark.parametrize("tp", [2, 8, np.array([1, 2, 4, 8])], ids=str)
    def test_sequence_parallel(self, name: str, tp: Any) -> None:
        b, s, h, a, _, _ = Shape.of(find("workloads", name), 2)
        closed = s * b * h * (34 / tp + 5 * a * s / (h * tp))
        assert self.kept(name, tp, Strategy(sequence_parallel=True)) == pytest.approx(closed, rel=1e-12)

    @pytest.mark.parametrize("tp", [1, 8])
    def test_selective_recomputation(self, name: str, tp: int) -> None:
        b, s, h, _, _, _ = Shape.of(find("workloads", name), 2)
        strategy = Strategy(sequence_parallel=True, recompute="selective")
        assert self.kept(name, tp, strategy) == pytest.approx(s * b * h * 34 / tp, rel=1e-12)

    def test_full_recomputation(self, name: str) -> None:
        b, s, h, _, _, _ = Shape.of(find("workloads", name), 2)
        assert self.kept(name, 8, Strategy(recompute="full")) == 2 * s * b * h
        assert self.kept(name, 8, Strategy(recompute="full", sequence_parallel=True)) == 2 * s * b * h / 8

    @pytest.mark.parametrize(("stage", "flights"), [(0, 4), (1, 3), (3, 1)])
    def test_full_recomputation_of_a_stage(self, stage: int, flights: int) -> None:
        """Inputs of 24 layers for each microbatch in flight; the first stage also keeps those of the embedding."""
        workload, strategy = find("workloads", "gpt3-175b"), Strategy(recompute="full")
        layout = Layout(tp=8, pp=4, vpp=1, cp=1, dp=1, microbatch=2, batch=64, shard_group=1)
        share = divide(expand(workload, microbatch=2, fused=True), layout, strategy)
        embedding = sum(block.saved for block in share.prologue) if stage == 0 else 0
        held = footprint(share, state_of(workload, strategy), layout, strategy, stage)
        assert held.activations == flights * (24 * 2 * 2048 * 2 * 12288 + embedding)
        assert held.recomputed == sum(block.saved for block in share.body)

    def test_fused_attention_keeps_its_normaliser_instead_of_the_scores(self, name: str) -> None:
        """Its output is the input of the projection after it, which is kept once and is among the 34 h."""
        b, s, h, a, _, _ = Shape.of(find("workloads", name), 2)
        assert self.kept(name, 1, Strategy(), fused=True) == s * b * (34 * h + 4 * a)


class TestShares:
    def test_what_the_devices_hold_adds_up_to_the_model(self) -> None:
        """Weights that tensor parallelism splits, once; norms and row-split biases on every rank."""
        workload, tp, pp = find("workloads", "gpt3-175b"), 8, 4
        graph = expand(workload, microbatch=1, fused=True)
        layout = Layout(tp=tp, pp=pp, vpp=1, cp=1, dp=1, microbatch=1, batch=8, shard_group=1)
        share = divide(graph, layout, Strategy())
        blocks = [(1, b) for b in (*share.prologue, *share.epilogue)] + [(pp, b) for b in share.body]
        held = tp * sum(times * block.repeat * block.parameters for times, block in blocks)
        h, l = 12288, 96  # noqa: E741
        norms = l * 4 * h + 2 * h
        row_biases = l * 2 * h
        positions = 2048 * h
        assert held == pytest.approx(graph.parameters + (tp - 1) * (norms + row_biases + positions), rel=1e-12)

    def test_grouped_queries_are_never_cut_below_one_head(self) -> None:
        workload = find("workloads", "llama-3.1-8b")
        layout = Layout(tp=np.array([4, 8, 16]), pp=1, vpp=1, cp=1, dp=1, microbatch=1, batch=1, shard_group=1)
        share = divide(expand(workload, microbatch=1, fused=True), layout, Strategy())
        (core,) = (local.op for local in share.body[0].ops if isinstance(local.op, Attention))
        np.testing.assert_array_equal(core.kv_heads, [2, 1, 1])
        np.testing.assert_array_equal(core.heads, [8, 4, 2])
