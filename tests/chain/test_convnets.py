"""Convolutional networks against what others count, and against themselves."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.graph.convnet import convnet
from perfmodel.graph.ops import Conv2d, Elementwise, Linear, Loss, Norm
from perfmodel.library import find
from perfmodel.specs.convnet import Convnet, Layer, Shape, output, positions, through
from perfmodel.specs.workload import Workload
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

NETWORKS = ("alexnet", "vgg-16", "resnet-50", "resnet-101", "resnet-152", "inception-v3")


def network(name: str) -> Convnet:
    model = find("workloads", name).model
    assert isinstance(model, Convnet)
    return model


def build(*layers: dict[str, Any], **more: Any) -> Convnet:
    return Convnet(
        family="convnet", image=8, layers=tuple(Layer(**layer) for layer in layers),
        source="test", status="assumed", **more,
    )  # fmt: skip


def ops_of(graph: Any) -> list[Any]:
    return [op for block in graph.blocks() for op in block.ops * block.repeat]


def forward_macs(graph: Any) -> Any:
    return sum(kernel.flops for op in ops_of(graph) for kernel in op.forward()) / 2


def saved(graph: Any) -> Any:
    return sum(op.saved for op in ops_of(graph))


def traffic(kernels: Any) -> Any:
    return sum(kernel.traffic for kernel in kernels)


class TestPublished:
    @pytest.mark.parametrize(
        ("name", "parameters", "gmac"),
        # "num_params" and "_ops" of the default weights in torchvision/models/*.py, as its documentation lists
        # them ("GFLOPS", which are multiply-adds); Inception-v3 is counted with its auxiliary classifier.
        [
            ("alexnet", 61_100_840, 0.714),
            ("vgg-16", 138_357_544, 15.47),
            ("resnet-50", 25_557_032, 4.089),
            ("resnet-101", 44_549_160, 7.801),
            ("resnet-152", 60_192_808, 11.514),
            ("inception-v3", 27_161_264, 5.713),
        ],
    )
    def test_parameters_and_macs_of_torchvision(self, name: str, parameters: int, gmac: float) -> None:
        graph = convnet(network(name), microbatch=1, element=2.0)
        assert graph.parameters == parameters
        assert forward_macs(graph) == pytest.approx(gmac * 1e9, rel=0.01)

    @pytest.mark.parametrize(
        ("name", "millions"),
        # infer_macts, outputs of convolutions and linear layers, in results/benchmark-infer-amp-nhwc-pt112-cu113-
        # rtx3090.csv of github.com/huggingface/pytorch-image-models
        [("vgg-16", 13.56), ("resnet-50", 11.11), ("resnet-101", 16.23), ("resnet-152", 22.56), ("inception-v3", 8.97)],
    )
    def test_activations_of_timm(self, name: str, millions: float) -> None:
        ops = ops_of(convnet(network(name), microbatch=1, element=2.0))
        convolved = sum(op.outputs * op.height * op.width for op in ops if isinstance(op, Conv2d))
        linear = sum(op.outputs for op in ops if isinstance(op, Linear))
        assert convolved + linear == pytest.approx(millions * 1e6, rel=0.003)


class TestShapes:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (
                "resnet-50",  # He et al. 2015, Table 1
                (
                    "64 x 112 x 112, 64 x 56 x 56, 256 x 56 x 56, 256 x 56 x 56, 512 x 28 x 28, 512 x 28 x 28, "
                    "1024 x 14 x 14, 1024 x 14 x 14, 2048 x 7 x 7, 2048 x 7 x 7, 2048 x 1 x 1, 1000 x 1 x 1"
                ),
            ),
            (
                "alexnet",
                (
                    "64 x 55 x 55, 64 x 27 x 27, 192 x 27 x 27, 192 x 13 x 13, 384 x 13 x 13, 256 x 13 x 13, "
                    "256 x 6 x 6, 256 x 6 x 6, 4096 x 1 x 1, 4096 x 1 x 1, 1000 x 1 x 1"
                ),
            ),
            (
                "inception-v3",  # the comments in Inception3._forward of torchvision
                (
                    "32 x 149 x 149, 32 x 147 x 147, 64 x 147 x 147, 64 x 73 x 73, 80 x 73 x 73, 192 x 71 x 71, "
                    "192 x 35 x 35, 256 x 35 x 35, 288 x 35 x 35, 768 x 17 x 17, 768 x 17 x 17, 768 x 17 x 17, "
                    "768 x 17 x 17, 768 x 17 x 17, 1280 x 8 x 8, 2048 x 8 x 8, 2048 x 1 x 1, 1000 x 1 x 1"
                ),
            ),
        ],
    )
    def test_after_each_layer(self, name: str, expected: str) -> None:
        model = network(name)
        image = Shape(model.channels, model.image, model.image)
        stages = [through(model.layers[: n + 1], image, "layers") for n in range(len(model.layers))]
        assert ", ".join(map(str, stages)) == expected

    def test_auxiliary_classifier_sees_one_pixel(self) -> None:
        auxiliary = next(layer.auxiliary for layer in network("inception-v3").layers if layer.auxiliary)
        assert auxiliary is not None
        assert through(auxiliary[:3], Shape(768, 17, 17), "auxiliary") == Shape(768, 1, 1)

    @given(
        size=st.integers(1, 64), kernel=st.integers(1, 9), stride=st.integers(1, 5),
        padding=st.integers(0, 4), ceil=st.booleans(),
    )  # fmt: skip
    def test_positions_by_sliding(self, size: int, kernel: int, stride: int, padding: int, ceil: bool) -> None:
        """Slide the window until it leaves the map; rounding up lets the last one hang over the far edge."""
        padding = min(padding, kernel // 2)  # as PyTorch demands of pools
        end, count, start = size + 2 * padding, 0, 0
        while start + kernel <= end:
            count, start = count + 1, start + stride
        left_over = count and (count - 1) * stride + kernel < end
        if ceil and left_over and start < size + padding:
            count += 1
        assert positions(size, kernel=kernel, stride=stride, padding=padding, ceil=ceil) == count

    def test_default_padding_keeps_the_size(self) -> None:
        shape = Shape(4, 9, 9)
        assert output(Layer(conv=6, kernel=3), shape) == Shape(6, 9, 9)
        assert output(Layer(conv=6, kernel=(1, 7)), shape) == Shape(6, 9, 9)
        assert output(Layer(conv=6, kernel=3, padding=0), shape) == Shape(6, 7, 7)
        assert output(Layer(pool="max", kernel=3, stride=2), shape) == Shape(4, 4, 4)


class TestColumns:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_a_column_of_microbatches_equals_its_rows(self, name: str) -> None:
        rows = np.array([1, 3, 32, 256])
        column = convnet(network(name), microbatch=rows, element=2.0)
        singles = [convnet(network(name), microbatch=int(row), element=2.0) for row in rows]
        for number, wide in enumerate(ops_of(column)):
            narrow = [ops_of(single)[number] for single in singles]
            np.testing.assert_array_equal(np.broadcast_to(wide.saved, 4), [op.saved for op in narrow])
            for way in ("forward", "backward"):
                for index, kernel in enumerate(getattr(wide, way)()):
                    alone = [getattr(op, way)()[index] for op in narrow]
                    for field in fields(kernel):
                        expected = [getattr(each, field.name) for each in alone]
                        if field.name != "name":
                            np.testing.assert_array_equal(np.broadcast_to(getattr(kernel, field.name), 4), expected)

    @given(name=st.sampled_from(NETWORKS), microbatch=st.integers(1, 4096))
    def test_flops_and_saved_bytes_are_linear_in_the_microbatch(self, name: str, microbatch: int) -> None:
        one = convnet(network(name), microbatch=1, element=2.0)
        many = convnet(network(name), microbatch=microbatch, element=2.0)
        assert many.flops() == pytest.approx(microbatch * one.flops(), rel=1e-12)
        assert saved(many) == pytest.approx(microbatch * saved(one), rel=1e-12)
        assert many.parameters == one.parameters

    @pytest.mark.parametrize("name", NETWORKS)
    def test_backward_takes_twice_the_flops_but_for_the_image(self, name: str) -> None:
        graph = convnet(network(name), microbatch=1, element=2.0, channels_last=True)
        first = ops_of(graph)[0]
        assert first.first
        assert graph.flops() == pytest.approx(6 * forward_macs(graph) - first.forward()[0].flops, rel=1e-12)


class TestBlocks:
    def test_graph_has_a_body_only(self) -> None:
        graph = convnet(network("resnet-50"), microbatch=4, element=2.0)
        assert (graph.prologue, graph.epilogue, graph.boundary) == ((), (), 0)
        assert not graph.tokens

    def test_equal_repetitions_share_a_block(self) -> None:
        graph = convnet(network("resnet-152"), microbatch=1, element=2.0)
        assert [(block.name, block.repeat) for block in graph.body if block.repeat > 1] == [
            ("56x56", 2), ("28x28", 7), ("14x14", 35), ("7x7", 2),
        ]  # fmt: skip

    def test_repetition_that_changes_the_map_does_not(self) -> None:
        graph = convnet(build({"conv": 3, "repeat": 3}, {"linear": 10}), microbatch=1, element=2.0)
        # 3 -> 3 channels throughout, but only the first needs no gradient of its input
        assert [(block.ops[0].name, block.repeat) for block in graph.body] == [
            ("conv 1x1", 1), ("conv 1x1", 2), ("linear", 1), ("loss", 1),
        ]  # fmt: skip

    def test_repeat_equals_writing_it_out(self) -> None:
        short = build({"conv": 16, "kernel": 3, "repeat": 3}, {"linear": 10})
        layer = {"conv": 16, "kernel": 3}
        long = build(layer, layer, layer, {"linear": 10})
        assert ops_of(convnet(short, microbatch=2, element=2.0)) == ops_of(convnet(long, microbatch=2, element=2.0))


class TestLayers:
    def names(self, *layers: dict[str, Any], **more: Any) -> str:
        return ", ".join(op.name for op in ops_of(convnet(build(*layers, **more), microbatch=1, element=2.0)))

    def test_rectifiers(self) -> None:
        layers: list[dict[str, Any]] = [{"residual": [{"conv": 3}, {"conv": 3}]}, {"linear": 5}, {"linear": 10}]
        assert self.names(*layers, norm=False) == (
            "conv 1x1, relu, conv 1x1, add, relu, linear, relu, linear, loss"
        )  # the last convolution of the residual and the last linear layer have none

    def test_dropout_and_norm_on_request(self) -> None:
        assert self.names({"conv": 4, "activation": False, "dropout": True}, {"linear": 10}) == (
            "conv 1x1, batch norm, dropout, linear, loss"
        )

    def test_grouped_convolution(self) -> None:
        graph = convnet(build({"conv": 12, "kernel": 3, "groups": 3, "bias": True}), microbatch=5, element=4.0)
        conv = ops_of(graph)[0]
        assert conv.parameters == 12 * (3 // 3) * 9 + 12
        assert conv.forward()[0].flops == 5 * 64 * 12 * 2 * (3 // 3) * 9

    def test_batch_norm_takes_as_long_as_three_and_a_half_passes_and_six_back(self) -> None:
        norm = next(op for op in ops_of(convnet(build({"conv": 4}), microbatch=2, element=2.0)) if isinstance(op, Norm))
        numbers = 2 * 64 * 4
        assert (norm.rows, norm.width, norm.parameters) == (2 * 64, 4, 8)
        assert traffic(norm.forward()) == pytest.approx(3.4 * numbers * 2.0)
        assert traffic(norm.backward()) == pytest.approx(5.8 * numbers * 2.0)

    def test_convolution_bias_is_a_pass_of_its_own(self) -> None:
        plain, biased = (
            ops_of(convnet(build({"conv": 4, "bias": bias}, norm=False), microbatch=2, element=2.0))[0]
            for bias in (False, True)
        )
        numbers = 2 * 64 * 4
        assert traffic(biased.forward()) - traffic(plain.forward()) == 2 * numbers * 2.0
        assert traffic(biased.backward()) - traffic(plain.backward()) == numbers * 2.0

    def test_sum_reads_two_and_its_backward_pass_sums_the_gradients_at_the_fork(self) -> None:
        layer = {"residual": [{"conv": 6}], "shortcut": [{"conv": 6}]}
        add = next(op for op in ops_of(convnet(build(layer), microbatch=2, element=2.0)) if op.name == "add")
        assert traffic(add.forward()) == 3 * (2 * 64 * 6) * 2.0
        assert traffic(add.backward()) == 3 * (2 * 64 * 3) * 2.0

    def test_concatenation_copies(self) -> None:
        layer = {"branches": [[{"conv": 2}], [{"conv": 4}], []]}
        concatenate = ops_of(convnet(build(layer), microbatch=1, element=2.0))[-2]
        assert concatenate.name == "concatenate"
        assert traffic(concatenate.forward()) == 2 * 64 * (2 + 4 + 3) * 2.0
        assert traffic(concatenate.backward()) == 2 * 3 * (64 * 3) * 2.0  # three readers: two sums

    def test_pools(self) -> None:
        layers = ({"pool": "max", "kernel": 2, "stride": 2}, {"pool": "global"})
        maximum, average, _ = ops_of(convnet(build(*layers), microbatch=1, element=2.0))
        assert isinstance(maximum, Elementwise)
        assert traffic(maximum.forward()) == 3 * (64 + 16) * 2.0 + 3 * 16 * 8  # the index is a 64-bit integer
        assert traffic(average.forward()) == 3 * (16 + 1) * 2.0

    def test_two_losses_with_an_auxiliary_classifier(self) -> None:
        ops = ops_of(convnet(network("inception-v3"), microbatch=8, element=2.0))
        losses = [op for op in ops if isinstance(op, Loss)]
        assert [(loss.name, loss.rows, loss.vocabulary) for loss in losses] == [
            ("auxiliary loss", 8, 1000), ("loss", 8, 1000),
        ]  # fmt: skip


class TestSaved:
    """Each map that the backward pass needs is counted once, in elements of one sample (element=1)."""

    def count(self, *layers: dict[str, Any], **more: Any) -> float:
        graph = convnet(build(*layers, **more), microbatch=1, element=1.0)
        return float(saved(graph) - ops_of(graph)[-1].saved)  # without the logits

    def test_bottleneck(self) -> None:
        block = {"residual": [{"conv": 2}, {"conv": 2, "kernel": 3}, {"conv": 8}]}
        one = self.count({"conv": 8}, {**block, "repeat": 1}, {"pool": "global"})
        two = self.count({"conv": 8}, {**block, "repeat": 2}, {"pool": "global"})
        # inputs of the three norms, and outputs of the three rectifiers
        assert two - one == 64 * (2 + 2 + 8) + 64 * (2 + 2 + 8)

    def test_without_norm_only_rectified_maps_and_the_image(self) -> None:
        assert self.count({"conv": 4}, {"conv": 5}, {"linear": 10}, norm=False) == 64 * (3 + 4 + 5)

    def test_branches_share_their_input(self) -> None:
        layers = ({"conv": 4}, {"branches": [[{"conv": 5}], [{"conv": 6}]]}, {"linear": 7})
        # image, three rectified maps, and the concatenation, which is a copy
        assert self.count(*layers, norm=False) == 64 * (3 + 4 + 5 + 6 + 11)

    def test_dropout_keeps_a_mask_and_its_output(self) -> None:
        layers = ({"linear": 16, "dropout": True}, {"linear": 10})
        assert self.count(*layers) == 3 * 64 + 16 + 16 + 16

    def test_maximum_pool_keeps_its_indices(self) -> None:
        assert self.count({"conv": 4}, {"pool": "max", "kernel": 2, "stride": 2}, {"linear": 10}, norm=False) == (
            64 * (3 + 4) + 8 * 16 * 4 + 16 * 4
        )

    def test_size_of_an_element_scales_all_but_masks_and_logits(self) -> None:
        model = build({"conv": 4}, {"linear": 10})
        narrow, wide = (convnet(model, microbatch=1, element=element) for element in (2.0, 4.0))
        assert saved(wide) - 40 == 2 * (saved(narrow) - 40)


HEAD = """\
schema: 1
name: test
sources: {test: none}
training: {batch: 8, optimizer: sgd, precision: fp32, source: test, status: assumed}
model:
  family: convnet
  image: 8
  source: test
  status: assumed
  layers:
"""


class TestBadFiles:
    @pytest.mark.parametrize(
        ("layers", "expected"),
        [
            (
                "- {conv: 4}\n    - {conv: 4, linear: 10}",
                (
                    "bad.yaml:12:7: model.layers.1: must be exactly one of conv, linear, pool, residual, branches, "
                    "auxiliary, not conv and linear"
                ),
            ),
            (
                "- {kernel: 3}",
                (
                    "bad.yaml:11:7: model.layers.0: must be exactly one of conv, linear, pool, residual, branches, "
                    "auxiliary"
                ),
            ),
            (
                "- residual:\n      - {conv: 3}\n      - {pool: max, stride: 2}",
                "bad.yaml:13:9: model.layers.0.residual.1: max pool needs a kernel",
            ),
            ("- {linear: 10, kernel: 3}", "bad.yaml:11:20: model.layers.0.kernel: means nothing for linear"),
            ("- {pool: global, stride: 2}", "bad.yaml:11:22: model.layers.0.stride: means nothing for global pool"),
            ("- {conv: 4, kernal: 3}", "bad.yaml:11:17: model.layers.0.kernal: unknown key; did you mean 'kernel'?"),
            ("- {conv: 0}", "bad.yaml:11:8: model.layers.0.conv: must be greater than 0"),
            ("- {branches: [[{conv: 4}]]}", "bad.yaml:11:8: model.layers.0.branches: needs at least two branches"),
            ("- {auxiliary: []}", "bad.yaml:11:8: model.layers.0.auxiliary: needs at least one layer"),
            ("  []", "bad.yaml:10:3: model.layers: needs at least one layer"),
            (
                "- {conv: 4, groups: 3}",
                "bad.yaml:11:7: model.layers.0: 3 groups do not divide 3 input and 4 output channels",
            ),
            (
                "- {conv: 4, repeat: 2}\n    - residual: [{conv: 5}]",
                (
                    "bad.yaml:12:7: model.layers.1: the residual is 5 x 8 x 8, but its input (there is no shortcut) is "
                    "4 x 8 x 8"
                ),
            ),
            (
                "- {residual: [{conv: 5}], shortcut: [{conv: 5, stride: 2}]}",
                "bad.yaml:11:7: model.layers.0: the residual is 5 x 8 x 8, but its shortcut is 5 x 4 x 4",
            ),
            (
                "- branches: [[{conv: 5}], [{conv: 5, stride: 2}]]",
                "bad.yaml:11:7: model.layers.0: branches of different size: 5 x 8 x 8, 5 x 4 x 4",
            ),
            (
                "- branches:\n      - []\n      - [{conv: 4, kernel: 9, padding: 0}]",
                "bad.yaml:13:10: model.layers.0.branches.1.0: a window of 9 x 9 does not fit into a map of 3 x 8 x 8",
            ),
            (
                "- {residual: [{conv: 3, repeat: 1000}], repeat: 1000}",
                "bad.yaml:10:3: model.layers: repeat 1001000 layers in all, more than 100000",
            ),
        ],
    )
    def test_fault_with_its_place(self, tmp_path: Path, layers: str, expected: str) -> None:
        file = tmp_path / "bad.yaml"
        file.write_text(f"{HEAD}    {layers}\n")
        with pytest.raises(InputError) as caught:
            load(file, Workload, shown="bad.yaml")
        assert [str(problem) for problem in caught.value.problems] == [expected]


def test_ops_keep_working_as_copies() -> None:
    """`perfmodel.parallel` makes copies with `replace`."""
    conv = next(op for op in ops_of(convnet(network("resnet-50"), microbatch=4, element=2.0)) if isinstance(op, Conv2d))
    assert replace(conv, batch=2).saved * 2 == conv.saved
