"""Workloads that the validation studies need, against what their sources count."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from perfmodel.graph import expand
from perfmodel.library import find

if TYPE_CHECKING:
    from perfmodel.graph import Graph
    from perfmodel.specs import Workload


def graph_of(name: str) -> Graph:
    workload: Workload = find("workloads", name)
    return expand(workload, microbatch=1, fused=False)


def parameters(name: str) -> int:
    return int(graph_of(name).parameters)


def forward_macs(name: str) -> float:
    ops = [op for block in graph_of(name).blocks() for op in block.ops * block.repeat]
    return float(sum(kernel.flops for op in ops for kernel in op.forward())) / 2


@pytest.mark.parametrize(
    ("name", "millions", "gmac"),
    # "num_params" and "_ops" of the default weights in torchvision/models/*.py
    [
        ("resnet-18", 11.689512, 1.814),
        ("resnet-34", 21.797672, 3.664),
        ("vgg-11", 132.863336, 7.609),
        ("vgg-13", 133.047848, 11.308),
        ("vgg-19", 143.667240, 19.632),
        ("resnext-50-32x4d", 25.028904, 4.230),
        ("resnext-101-64x4d", 83.455272, 15.460),
        ("wide-resnet-50-2", 68.883240, 11.398),
        ("wide-resnet-101-2", 126.886696, 22.753),
        ("mobilenet-v2", 3.504872, 0.301),
    ],
)
def test_parameters_and_macs_of_torchvision(name: str, millions: float, gmac: float) -> None:
    assert parameters(name) == round(millions * 1e6)
    assert forward_macs(name) == pytest.approx(gmac * 1e9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "millions"),
    # "param_count" in results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv of pytorch-image-models
    [("inception-v4", 42.68), ("resnext-101-32x4d", 44.18)],
)
def test_parameters_of_timm(name: str, millions: float) -> None:
    assert parameters(name) == pytest.approx(millions * 1e6, abs=5e3)


@pytest.mark.parametrize(("depth", "gmac"), [(50, 3.8), (101, 7.6), (152, 11.3)])
def test_version_1_moves_the_stride_and_nothing_else(depth: int, gmac: float) -> None:
    """Multiply-adds of He et al. 2015, Table 1."""
    assert parameters(f"resnet-{depth}-v1") == parameters(f"resnet-{depth}")
    assert forward_macs(f"resnet-{depth}-v1") == pytest.approx(gmac * 1e9, rel=0.02)


def test_resnet_18_for_cifar_as_kuangliu_counts() -> None:
    """11.17 million parameters, 0.56 GMAC: github.com/kuangliu/pytorch-cifar, ResNet18."""
    assert parameters("resnet-18-cifar") == 11_173_962
    assert forward_macs("resnet-18-cifar") == pytest.approx(0.56e9, rel=0.01)


def test_googlenet_as_its_paper_counts() -> None:
    """The column "params" of Szegedy et al. 2014, Table 1, has no biases; "ops" add up to 1.5 billion."""
    thousands = (2.7, 112, 159, 380, 364, 437, 463, 580, 840, 1072, 1388, 1000)
    assert parameters("googlenet") == pytest.approx(1e3 * sum(thousands), rel=0.04)
    assert forward_macs("googlenet") == pytest.approx(1.5e9, rel=0.07)


def test_overfeat_as_its_paper_counts() -> None:
    """Sermanet et al. 2013, Table 4: 145 million parameters, 2810 million connections of the fast model."""
    assert parameters("overfeat") == pytest.approx(145e6, rel=0.01)
    assert forward_macs("overfeat") == pytest.approx(2.81e9, rel=0.01)


def test_alexnet_of_tf_cnn_benchmarks_by_hand() -> None:
    convolutions = ((3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 384, 3), (384, 256, 3))
    linears = ((256 * 36, 4096), (4096, 4096), (4096, 1000))
    weights = sum(c * k * size**2 + k for c, k, size in convolutions) + sum(i * o + o for i, o in linears)
    assert parameters("alexnet-tf-cnn") == weights


@pytest.mark.parametrize(
    ("name", "trunk", "width", "norm"),
    [
        ("ssd300-resnet-50", 25_557_032 - 14_964_736 - 2_049_000, 1024, True),
        ("ssd300-resnet-34", 21_797_672 - 13_114_368 - 513_000, 256, False),
    ],
)
def test_ssd300_by_hand(name: str, trunk: int, width: int, *, norm: bool) -> None:
    """A ResNet of torchvision less its layer4 and fc, five further maps, heads of 4, 6, 6, 6, 4, 4 boxes (4 places, 81 classes)."""

    def conv(inputs: int, outputs: int, size: int, *, norm: bool) -> int:
        return inputs * outputs * size**2 + (2 * outputs if norm else outputs)

    maps = (width, 512, 512, 256, 256, 256)
    between = zip(maps, maps[1:], (256, 256, 128, 128, 128), strict=False)
    further = sum(conv(i, narrow, 1, norm=norm) + conv(narrow, o, 3, norm=norm) for i, o, narrow in between)
    heads = sum(conv(c, boxes * 85, 3, norm=False) for c, boxes in zip(maps, (4, 6, 6, 6, 4, 4), strict=True))
    assert parameters(name) == trunk + further + heads


@pytest.mark.parametrize(("name", "huggingface"), [("base", 108_893_186), ("large", 334_094_338)])
def test_bert_with_two_outputs(name: str, huggingface: int) -> None:
    """BertForQuestionAnswering also normalises the embeddings, which the library's does not."""
    width = {"base": 768, "large": 1024}[name]
    assert parameters(f"bert-{name}-squad") == huggingface - 2 * width


@pytest.mark.parametrize(
    ("name", "users", "items", "factors", "layers"),
    [("neumf-ml1m", 6040, 3706, 32, (256, 128, 64, 32)), ("neumf-ml20m", 138_493, 26_744, 64, (256, 256, 128, 64))],
)
def test_neural_matrix_factorisation_by_hand(
    name: str, users: int, items: int, factors: int, layers: tuple[int, ...]
) -> None:
    tables = (users + items) * (factors + layers[0] // 2)
    perceptron = sum(i * o + o for i, o in pairwise(layers))
    assert parameters(name) == tables + perceptron + factors + layers[-1] + 1
