"""Operations stated one by one: sizes by hand, repetitions, and what bad files are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.cost.compute import Processor
from perfmodel.errors import InputError
from perfmodel.graph.custom import custom
from perfmodel.graph.kernels import Repeated
from perfmodel.graph.ops import Linear
from perfmodel.library import find
from perfmodel.specs.custom import Custom, OpSpec
from perfmodel.specs.workload import Workload
from perfmodel.timeline import Serial, duration, launches
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.graph.graph import Graph

SIZES = st.integers(1, 512)


def graph_of(*ops: dict[str, Any], microbatch: Any = 1, element: float = 2.0) -> Graph:
    specs = tuple(OpSpec(**op) for op in ops)
    model = Custom(family="custom", ops=specs, source="test", status="assumed")
    return custom(model, microbatch=microbatch, element=element)


def only(graph: Graph) -> Any:
    ((op,),) = [block.ops for block in graph.body]
    return op


def flops(kernels: Any) -> Any:
    return sum(kernel.flops for kernel in kernels)


def traffic(kernels: Any) -> Any:
    return sum(k.times * k.kernel.traffic if isinstance(k, Repeated) else k.traffic for k in kernels)


def figures(op: Any) -> tuple[Any, ...]:
    return op.saved, traffic(op.forward()), traffic(op.backward())


class TestOps:
    @given(microbatch=SIZES, rows=SIZES, inputs=SIZES, outputs=SIZES)
    def test_matmul(self, microbatch: int, rows: int, inputs: int, outputs: int) -> None:
        spec = {"op": "matmul", "rows": rows, "inputs": inputs, "outputs": outputs, "bias": True}
        graph = graph_of({"op": "elementwise", "elements": 1}, spec, microbatch=microbatch)
        forward = 2 * microbatch * rows * inputs * outputs
        assert graph.parameters == inputs * outputs + outputs
        assert flops(graph.body[1].ops[0].forward()) == forward
        assert flops(graph.body[1].ops[0].backward()) == 2 * forward

    def test_first_matmul_needs_no_gradient_of_its_input(self) -> None:
        op = only(graph_of({"op": "matmul", "rows": 3, "inputs": 5, "outputs": 7}, microbatch=2))
        assert flops(op.backward()) == flops(op.forward()) == 2 * (2 * 3) * 5 * 7

    def test_conv2d(self) -> None:
        spec = {"op": "conv2d", "inputs": 64, "outputs": 128, "height": 56, "width": 28, "kernel": 3, "stride": 2}
        op = only(graph_of(spec, microbatch=2))
        assert (op.height, op.width) == (28, 14)  # padding 1
        assert op.parameters == 64 * 128 * 9
        assert flops(op.forward()) == 2 * 2 * (28 * 14) * 128 * 64 * 9
        assert op.saved == 2 * 64 * 56 * 28 * 2.0

    def test_conv2d_padding(self) -> None:
        spec = {"op": "conv2d", "inputs": 3, "outputs": 64, "height": 224, "width": 224, "kernel": 11, "stride": 4}
        assert only(graph_of({**spec, "padding": 2})).height == 55

    def test_attention(self) -> None:
        spec = {"op": "attention", "heads": 8, "kv_heads": 2, "head_dim": 64, "sequence": 128}
        op = only(graph_of(spec, microbatch=3))
        assert op.parameters == 0
        assert flops(op.forward()) == 2 * 2 * 3 * 8 * 128 * 128 * 64
        assert flops(only(graph_of({**spec, "causal": True}, microbatch=3)).forward()) == flops(op.forward()) / 2

    def test_norm_and_embedding_and_loss(self) -> None:
        assert only(graph_of({"op": "norm", "rows": 4, "width": 16})).parameters == 32
        assert only(graph_of({"op": "embedding", "rows": 4, "width": 16, "vocabulary": 100})).parameters == 1600
        loss = only(graph_of({"op": "softmax_loss", "rows": 4, "vocabulary": 100}, microbatch=2))
        assert (loss.parameters, loss.saved) == (0, 4 * 8 * 100)

    def test_elementwise(self) -> None:
        unary = only(graph_of({"op": "elementwise", "elements": 100}, microbatch=2))
        assert (unary.saved, traffic(unary.forward()), traffic(unary.backward())) == (400, 2 * 400, 3 * 400)
        total = only(graph_of({"op": "elementwise", "elements": 100, "operands": 2, "kept": 0}, microbatch=2))
        assert (total.saved, traffic(total.forward()), traffic(total.backward())) == (0, 3 * 400, 3 * 400)

    @given(inputs=SIZES, hidden=SIZES)
    def test_lstm_has_the_parameters_of_pytorch(self, inputs: int, hidden: int) -> None:
        """torch.nn.LSTM: weight_ih (4h x i), weight_hh (4h x h), bias_ih and bias_hh (4h each)."""
        op = only(graph_of({"op": "lstm", "inputs": inputs, "hidden": hidden, "sequence": 3}))
        assert op.parameters == 4 * hidden * (inputs + hidden + 2)

    @given(microbatch=SIZES, sequence=SIZES)
    def test_lstm_flops(self, microbatch: int, sequence: int) -> None:
        spec = {"op": "lstm", "inputs": 20, "hidden": 30, "sequence": sequence}
        op = only(graph_of(spec, microbatch=microbatch))
        assert flops(op.forward()) == 2 * microbatch * sequence * 4 * 30 * (20 + 30)
        assert flops(op.backward()) == 2 * flops(op.forward())

    @pytest.mark.parametrize("sequence", [1, 35, 500])
    def test_a_host_calls_an_lstm_once_for_all_steps(self, sequence: int) -> None:
        """Forward: the inputs' product, the steps and their gates; backward: these two and two products of gradients."""
        op = only(graph_of({"op": "lstm", "inputs": 20, "hidden": 30, "sequence": sequence}))
        device = Processor(find("hardware", "dgx-1-v100").device, "fp32")
        for kernels, calls in ((op.forward(), 3), (op.backward(), 4)):
            part = Serial("pass", tuple(device.time(kernel) for kernel in kernels))
            assert launches(part) == calls
            starts = 2 * sequence * device.device.efficiency.launch.time  # one by one on the device
            assert duration(part) > starts

    def test_opaque(self) -> None:
        op = only(graph_of({"op": "custom", "flops": "2 GFLOP", "bytes": "3 MB", "parameters": 7}, microbatch=4))
        assert (op.parameters, flops(op.forward()), traffic(op.forward())) == (7, 8e9, 12e6)
        assert (flops(op.backward()), traffic(op.backward())) == (16e9, 24e6)


class TestRepeat:
    LAYER = {"op": "matmul", "rows": 1, "inputs": 8, "outputs": 8}  # noqa: RUF012 - never changed

    def test_first_operation_stands_apart(self) -> None:
        graph = graph_of({**self.LAYER, "repeat": 3}, {**self.LAYER, "repeat": 2})
        firsts = [(block.repeat, block.ops[0]) for block in graph.body]
        assert [(n, isinstance(op, Linear) and op.first) for n, op in firsts] == [(1, True), (2, False), (2, False)]
        assert graph.layers == 5

    def test_repeat_equals_writing_it_out(self) -> None:
        short, long = graph_of({**self.LAYER, "repeat": 4}), graph_of(*[self.LAYER] * 4)
        assert short.parameters == long.parameters == 4 * 64
        assert short.flops() == long.flops() == 2 * 64 * (4 * 3 - 1)

    def test_graph_has_a_body_only(self) -> None:
        graph = graph_of(self.LAYER)
        assert (graph.prologue, graph.epilogue, graph.boundary) == ((), (), 0)
        assert not graph.tokens


class TestLibrary:
    def test_mlp(self) -> None:
        # LeNet-300-100: 784 x 300 + 300 x 100 + 100 x 10 weights and 410 biases
        graph = custom(find("workloads", "mlp-mnist").model, microbatch=1, element=4.0)
        assert graph.parameters == 235_200 + 30_000 + 1_000 + 410

    def test_lstm(self) -> None:
        # word_language_model with its defaults on WikiText-2: encoder, two layers of nn.LSTM, decoder
        graph = custom(find("workloads", "lstm-wikitext2").model, microbatch=20, element=4.0)
        assert graph.parameters == 33_278 * 200 + 2 * 4 * 200 * (200 + 200 + 2) + 33_278 * 201

    @pytest.mark.parametrize("name", ["mlp-mnist", "lstm-wikitext2"])
    def test_a_column_of_microbatches_equals_its_rows(self, name: str) -> None:
        model, rows = find("workloads", name).model, np.array([1, 20, 512])
        wide = custom(model, microbatch=rows, element=4.0)
        narrow = [custom(model, microbatch=int(row), element=4.0) for row in rows]
        np.testing.assert_array_equal(wide.flops(), [graph.flops() for graph in narrow])
        for number, block in enumerate(wide.body):
            alone = [graph.body[number].ops[0] for graph in narrow]
            for index, column in enumerate(figures(block.ops[0])):
                np.testing.assert_array_equal(np.broadcast_to(column, 3), [figures(op)[index] for op in alone])


HEAD = """\
schema: 1
name: test
sources: {test: none}
training: {batch: 8, optimizer: sgd, precision: fp32, source: test, status: assumed}
model:
  family: custom
  source: test
  status: assumed
  ops:
"""


class TestBadFiles:
    @pytest.mark.parametrize(
        ("ops", "expected"),
        [
            ("- {op: matmul, rows: 1}", ["bad.yaml:10:7: model.ops.0: matmul needs inputs and outputs"]),
            (
                "- {op: lstm, inputs: 4, hidden: 4}\n    - {op: norm, width: 4}",
                [
                    "bad.yaml:10:7: model.ops.0: lstm needs sequence",
                    "bad.yaml:11:7: model.ops.1: norm needs rows",
                ],
            ),
            (
                "- {op: embedding, rows: 1, width: 4, vocabulary: 9, hidden: 3}",
                ["bad.yaml:10:57: model.ops.0.hidden: means nothing for embedding"],
            ),
            (
                "- {op: attention, heads: 6, kv_heads: 4, head_dim: 8, sequence: 16}",
                ["bad.yaml:10:33: model.ops.0.kv_heads: 4 does not divide the 6 heads"],
            ),
            (
                "- {op: conv2d, inputs: 3, outputs: 8, height: 4, width: 4, kernel: 7, padding: 0, groups: 2}",
                [
                    "bad.yaml:10:87: model.ops.0.groups: 2 does not divide 3 inputs and 8 outputs",
                    "bad.yaml:10:64: model.ops.0.kernel: 7 does not fit into a map of 4 x 4",
                ],
            ),
            (
                "- {op: custom, flops: 5, bytes: 1 MB}",
                ["bad.yaml:10:20: model.ops.0.flops: needs a unit of FLOP, as in '2 GFLOP'"],
            ),
            ("  []", ["bad.yaml:9:3: model.ops: needs at least one operation"]),
            (
                "- {op: matmull, rows: 1}",
                [
                    (
                        "bad.yaml:10:8: model.ops.0.op: must be 'matmul', 'conv2d', 'attention', 'norm', 'elementwise', "
                        "'embedding', 'lstm', 'softmax_loss' or 'custom'; did you mean 'matmul'?"
                    )
                ],
            ),
        ],
    )
    def test_fault_with_its_place(self, tmp_path: Path, ops: str, expected: list[str]) -> None:
        file = tmp_path / "bad.yaml"
        file.write_text(f"{HEAD}    {ops}\n")
        with pytest.raises(InputError) as caught:
            load(file, Workload, shown="bad.yaml")
        assert [str(problem) for problem in caught.value.problems] == expected
