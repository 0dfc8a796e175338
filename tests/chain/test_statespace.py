"""State-space layers and patterns of layers against what others count: parameters, FLOP, and the chunks one by one."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfmodel
from perfmodel.cost.compute import SCAN_PACE, Processor
from perfmodel.cost.position import position
from perfmodel.errors import InputError
from perfmodel.graph import expand
from perfmodel.graph.flops import active_parameters, model_flops
from perfmodel.graph.kernels import Chunked
from perfmodel.graph.ops import Experts, Linear, Scan, is_frozen
from perfmodel.graph.recomputation import dropped
from perfmodel.library import find
from perfmodel.parallel import Group, context, tensor
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from perfmodel.graph.graph import Graph

REPORTED = {
    # billions, all and of a token, as the models' reports give them
    "nemotron-3-nano-30b-a3b": (31.6, 3.6),
    "nemotron-3-super-120b-a12b": (120.6, 12.7),
    "nemotron-3-ultra-550b-a55b": (550, 55),
    "nemotron-h-8b": (8.1, 8.1),
    "nemotron-h-47b": (46.8, 46.8),
    "nemotron-h-56b": (56.3, 56.3),
    "mamba-2-2.7b": (2.7, 2.7),
}
SCAN = Scan("scan", 2, 1000, heads=16, groups=4, head_dim=64, state=128, chunk=128, kernel=4, element=2)


def graph_of(name: str, **changes: Any) -> Graph:
    overrides = {path.replace("__", "."): (value, "test") for path, value in changes.items()}
    return expand(find("workloads", name, overrides), microbatch=1, fused=True)


def scan_of(graph: Graph) -> Scan:
    return next(op for block in graph.body for op in block.ops if isinstance(op, Scan))


@pytest.mark.parametrize("name", REPORTED)
def test_parameters(name: str) -> None:
    """Without the modules that look ahead, which the reports leave out."""
    graph, (total, active) = graph_of(name, model__future_tokens=0), REPORTED[name]
    assert graph.parameters / 1e9 == pytest.approx(total, rel=0.012)
    assert active_parameters(graph) / 1e9 == pytest.approx(active, rel=0.02)


def test_parameters_of_a_checkpoint() -> None:
    """What benchmark_generation_mamba_simple.py prints of state-spaces/mamba2-130m (state-spaces/mamba, issue 578)."""
    small = {"model__layers": 24, "model__hidden": 768, "model__heads": 24, "model__state_space__heads": 24}
    assert graph_of("mamba-2-2.7b", **small).parameters == 128_989_632


def test_each_letter_is_a_layer() -> None:
    graph = graph_of("nemotron-h-8b")
    kinds = {block.name: block.repeat for block in graph.body}
    assert kinds == {"state space layer": 24, "perceptron layer": 24, "attention layer": 4}
    assert next(block.places for block in graph.body if "attention" in block.name) == (7, 18, 29, 40)


def test_a_pattern_repeats() -> None:
    """Attention, then a multilayer perceptron, in each layer of a transformer, are two layers of a pattern."""
    plain = graph_of("generic-llama", training__sequence=512)
    halves = graph_of("generic-llama", training__sequence=512, model__layers=64, model__pattern="*-")
    assert halves.parameters == plain.parameters
    assert halves.flops() == pytest.approx(plain.flops(), rel=1e-12)
    assert [(block.name, block.repeat) for block in halves.body] == [("attention layer", 32), ("perceptron layer", 32)]


def megatron(name: str) -> float:
    """FLOP of a token as Megatron-LM counts those of hybrids (training.py, hybrid_flops), which takes scans as 2 x hidden wide.

    It leaves out routers and the projections of modules that look ahead.
    """
    w = find("workloads", name)
    m, sequence = w.model, w.training.sequence
    h, s, count = m.hidden, m.state_space, m.pattern.count
    width = 2 * h
    scan = 2 * h * (2 * width + 2 * s.groups * s.state + s.heads) + 7 * width * s.state + 2 * width * h
    attention = 4 * h * (m.heads * m.head) * (1 + m.kv / m.heads) + 2 * sequence * m.heads * m.head
    mixture = 0
    if m.experts:
        e = m.experts
        latent = e.latent or h
        mixture = (
            4 * e.top_k * latent * e.ffn_hidden + 4 * h * e.shared_ffn_hidden + (4 * h * e.latent if e.latent else 0)
        )
    layers = count("M") * scan + count("*") * attention + count("-") * 4 * h * m.ffn + count("E") * mixture
    future = m.future_tokens * (attention + mixture)
    return float(3 * (layers + future + 2 * h * m.vocabulary * (1 + m.future_tokens)))


@pytest.mark.parametrize(
    "name", ["nemotron-h-8b", "nemotron-h-56b", "nemotron-3-super-120b-a12b", "nemotron-3-ultra-550b-a55b"]
)
def test_counted_flops_are_those_of_megatron(name: str) -> None:
    graph = graph_of(name)
    m = find("workloads", name).model
    routers = (m.pattern.count("E") + m.future_tokens) * m.hidden * m.experts.count if m.experts else 0
    left_out = 6 * (routers + m.future_tokens * 2 * m.hidden**2)
    assert graph.tokens is not None
    assert model_flops(graph, "causal") / graph.tokens == pytest.approx(megatron(name) + left_out, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("nemotron-3-nano-30b-a3b", 776e12 / 34816),
        ("nemotron-3.5-lightning-30b-a3b", 807e12 / 28672),
        ("nemotron-3-super-120b-a12b", 864e12 / 10240),
        ("nemotron-3-ultra-550b-a55b", 1281e12 / 3552),
    ],
)
def test_flops_of_a_token_are_those_of_megatron_bridges_tables(name: str, printed: float) -> None:
    """TFLOP/s over tokens/s, both rounded."""
    assert megatron(name) == pytest.approx(printed, rel=5e-3)


class TestScan:
    def test_products_are_those_of_its_chunks(self) -> None:
        """Chunk by chunk: pairs of a group, each head's states, and its output from states and pairs."""
        s: Any = SCAN
        flops = 0.0
        for _ in range(int(s.batch)):
            for begin in range(0, int(s.sequence), int(s.chunk)):
                tokens = min(s.chunk, s.sequence - begin)
                flops += s.groups * 2 * tokens * s.chunk * s.state
                flops += s.heads * (2 * 2 * tokens * s.head_dim * s.state + 2 * tokens * s.chunk * s.head_dim)
        assert sum(kernel.flops for kernel in s.forward()) == pytest.approx(flops, rel=1e-12)

    def test_blocks_of_later_tokens_are_skipped(self) -> None:
        """Two blocks to a chunk: of four pairs of blocks one is of later tokens alone."""
        long, short = (replace(SCAN, sequence=1024, chunk=chunk) for chunk in (256, 128))
        by_pairs = [next(k.flops for k in op.backward() if "pairs gradient" in k.name) for op in (long, short)]
        assert by_pairs[0] == 0.75 * 2 * by_pairs[1]

    def test_states_at_the_ends_of_chunks_pass_through_memory(self) -> None:
        states = SCAN.batch * ceil(SCAN.sequence / SCAN.chunk) * SCAN.heads * SCAN.head_dim * SCAN.state
        passing = next(k for k in SCAN.forward() if k.name == "scan passing")
        assert isinstance(passing, Chunked)
        assert passing.traffic == (4 + 2) * states

    def test_makes_again_what_it_did_not_keep(self) -> None:
        again = {kernel.name for kernel in SCAN.forward()} & {kernel.name for kernel in SCAN.backward()}
        assert again == {f"scan {what}" for what in ("convolution", "decays", "states", "passing", "pairs")}

    def test_only_several_samples_are_laid_out_anew(self) -> None:
        one = {kernel.name for kernel in replace(SCAN, batch=1).forward()}
        assert {kernel.name for kernel in SCAN.forward()} - one == {"scan layout"}

    def test_keeps_inputs_and_both_outputs(self) -> None:
        width, shared = 16 * 64, 4 * 128
        assert SCAN.saved == 2000 * (2 * (width + width + 2 * shared + 16 + 2 * width) + 4 * 4)

    def test_its_projections_are_as_wide(self) -> None:
        graph = graph_of("nemotron-h-8b")
        scan, width = scan_of(graph), 128 * 64
        into, out = (
            op
            for block in graph.body
            for op in block.ops
            if isinstance(op, Linear) and op.name.startswith("state space")
        )
        assert into.outputs == scan.inputs == 2 * width + 2 * 8 * 128 + 128
        assert out.inputs == scan.outputs == width

    def test_is_frozen_beside_adapters(self) -> None:
        graph = graph_of("nemotron-h-8b", training__adapters={"rank": 16})
        assert is_frozen(scan_of(graph))


class TestSharded:
    def test_tensor_ranks_have_heads_and_groups(self) -> None:
        """What four ranks do and hold adds up to the whole."""
        part = tensor.shard(SCAN, ranks=4, sequence=4)
        assert isinstance(part, Scan)
        assert (part.heads, part.groups, part.sequence) == (4, 1, 1000)
        assert 4 * part.parameters == SCAN.parameters
        assert 4 * sum(k.flops for k in part.backward()) == pytest.approx(
            sum(k.flops for k in SCAN.backward()), rel=1e-12
        )
        assert 4 * part.saved == SCAN.saved

    def test_context_ranks_have_heads_of_all_tokens(self) -> None:
        part = context.shard(SCAN, context.FORMS["ring"], ranks=8)
        assert isinstance(part, Scan)
        assert (part.heads, part.groups, part.sequence) == (2, 1, 1000)
        sent = context.messages(part, context.FORMS["ring"], Group(8, 1), backward=False)
        assert {message.collective for message in sent} == {"all-to-all"}
        # of 1/8 of the tokens all heads, and the groups twice
        width, shared, tokens = 16 * 64, 2 * 4 * 128, 2000 / 8
        assert sum(message.size for message in sent) == 2 * tokens * (3 * width + 2 * shared + 16)

    def test_degrees_are_columns(self) -> None:
        degrees = np.array([1, 2, 4])
        times = [tensor.shard(SCAN, ranks=d, sequence=1).forward() for d in (*degrees.tolist(), degrees)]
        for column, *alone in zip(times[-1], *times[:-1], strict=True):
            assert column.traffic == pytest.approx([kernel.traffic for kernel in alone], rel=1e-12)

    @pytest.mark.parametrize(("degrees", "words"), [
        ({"tp": 16}, "16 does not divide 8 state-space groups"),
        ({"tp": 8, "cp": 32, "sets": {"workload.model.heads": 1024}}, "tp x cp = 256 does not divide the 128 state-space heads"),
    ])  # fmt: skip
    def test_degrees_that_do_not_divide_are_refused(self, degrees: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            perfmodel.predict("nemotron-h-8b", "dgx-h100", devices=256, batch=256, **degrees)


class TestPipeline:
    def test_the_slowest_stage_sets_the_pace(self) -> None:
        """Of four stages of two layers; the average one is faster."""
        pattern = "MM*---M-"
        made = perfmodel.predict(
            "nemotron-h-8b", "dgx-h100", devices=4, pp=4, batch=16, microbatch=1,
            sets={"workload.model.layers": 8, "workload.model.pattern": pattern},
        )  # fmt: skip
        letters = {"state space layer": "M", "attention layer": "*", "perceptron layer": "-"}
        passes: list[Any] = [made.stage.body_forward, made.stage.body_backward]
        time = dict.fromkeys("M*-", 0.0)
        for one in (block for part in passes for block in part.parts):
            time[letters[one.name]] += float(duration(one.part))
        stages = [sum(time[letter] for letter in pattern[at : at + 2]) for at in range(0, 8, 2)]
        body = sum(float(duration(part)) for part in passes)
        assert body == pytest.approx(max(stages), rel=1e-12)
        assert body > 1.1 * sum(stages) / 4

    def test_one_stage_has_all_layers(self) -> None:
        made = perfmodel.predict("nemotron-h-8b", "dgx-h100", devices=4, tp=4, batch=16, microbatch=1)
        assert [float(block.repeat) for block in made.share.body] == [24, 24, 4]


class TestTime:
    def test_gpu_cores_set_the_pace(self) -> None:
        """On chips whose memory is faster than what their cores get through, as on one with a third of the bandwidth."""
        device = find("hardware", "dgx-b200").device
        slow = device.model_copy(
            update={"memory": device.memory.model_copy(update={"bandwidth": device.memory.bandwidth / 3})}
        )
        kernel = next(k for k in replace(SCAN, batch=64).forward() if k.name == "scan states")
        fast, slower = (float(duration(Processor(one, "bf16").time(kernel))) for one in (device, slow))
        launch = device.efficiency.launch.time
        assert fast == slower == pytest.approx(launch + kernel.traffic / (device.compute.cores * SCAN_PACE), rel=1e-12)

    def test_other_processors_keep_up_with_their_memory(self) -> None:
        device = find("hardware", "tpu-v5p-pod").device
        kernel = next(k for k in replace(SCAN, batch=64).forward() if k.name == "scan states")
        moved = kernel.traffic / (device.memory.bandwidth * device.efficiency.streaming.fraction)
        found = float(duration(Processor(device, "bf16").time(kernel)))
        assert found == pytest.approx(device.efficiency.launch.time + moved, rel=1e-12)

    def test_a_step_adds_up(self) -> None:
        prediction = perfmodel.predict(
            "nemotron-3-nano-30b-a3b", "gb200-nvl72", devices=8, ep=8, microbatch=2, batch=64, strategy="nemo"
        )
        bounds = {position(t).bound for t, *_ in prediction.terms if t.kind == "state space"}  # type: ignore[union-attr]
        assert bounds <= {"cores", "launch"}
        total, exposed = prediction.kinds["state space"]
        assert 0 < exposed == total < prediction.step_time
        assert sum(prediction.losses.values()) == pytest.approx(prediction.step_time, rel=1e-9)

    def test_experts_with_squared_relu_keep_what_goes_into_products_and_activation(self) -> None:
        experts = next(
            op for b in graph_of("nemotron-3-super-120b-a12b").body for op in b.ops if isinstance(op, Experts)
        )
        assert experts.saved == 22 * 8192 * (1024 + 2688 + 2688) * 2
        again, kept = replace(experts, squared=False), 22 * 8192 * 2688 * 2
        assert again.saved - experts.saved == kept
        assert [dropped(one, frozenset({"activations"})) for one in (experts, again)] == [kept, 2 * kept]

    def test_tokens_of_a_latent_mixture_travel_narrow(self) -> None:
        def sent(**changes: Any) -> float:
            sets = {f"workload.model.{name}": value for name, value in changes.items()}
            made = perfmodel.predict(
                "nemotron-3-super-120b-a12b", "gb300-nvl72", devices=64, ep=64, batch=64, strategy="nemo",
                sets={"workload.model.layers": 88, **sets},
            )  # fmt: skip
            return next(float(t.inputs["size"]) for t, *_ in made.terms if t.name == "expert dispatch")

        assert sent(**{"experts.latent": None}) == pytest.approx(4 * sent(), rel=1e-12)
