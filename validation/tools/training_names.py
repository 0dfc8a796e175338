"""What tables of training runs call models and machines, in the words of the library."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from validation.tools.machines import RULES, Rule, UnknownMachine, machine

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | int | float | bool


class UnfitError(ValueError):
    """A row is no case; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Model:
    """A workload of the library with what a source does otherwise."""

    workload: str
    overrides: Mapping[str, Value] = field(default_factory=dict)
    attention: str = ""
    seq_len: int | None = None
    note: str = ""

    def but(self, note: str = "", **settings: Value) -> Model:
        """The same with further overrides of the workload: `but(training__optimizer="sgd")`."""
        more = {f"workload.{path.replace('__', '.')}": value for path, value in settings.items()}
        notes = "; ".join(filter(None, (self.note, note)))
        return replace(self, overrides={**self.overrides, **more}, note=notes)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the library with what a source's has otherwise."""

    hardware: str
    overrides: Mapping[str, Value] = field(default_factory=dict)
    note: str = ""


UNFUSED = "unfused"
NO_AUXILIARY = "trained without the side classifier that the workload has"

BERT_BASE = Model("bert-base", attention=UNFUSED)
BERT_LARGE = Model("bert-large", attention=UNFUSED)
SQUAD_BASE = Model("bert-base-squad", attention=UNFUSED, seq_len=384)
SQUAD_LARGE = Model("bert-large-squad", attention=UNFUSED, seq_len=384)


def _batch_normed(workload: str) -> Model:
    return Model(workload).but(model__norm=True)


def _vit(hidden: int, layers: int, heads: int, patch: int = 16) -> Model:
    return Model("vit-b-16", attention=UNFUSED).but(
        model__hidden=hidden,
        model__layers=layers,
        model__heads=heads,
        model__patches__patch=patch,
        model__dropout=False,
    )


TIMM = {
    **dict.fromkeys(("resnet18", "ssl_resnet18", "swsl_resnet18"), Model("resnet-18")),
    **dict.fromkeys(("resnet34", "tv_resnet34", "gluon_resnet34_v1b"), Model("resnet-34")),
    **dict.fromkeys(("resnet50", "tv_resnet50", "gluon_resnet50_v1b", "ssl_resnet50", "swsl_resnet50"), Model("resnet-50")),
    **dict.fromkeys(("resnet101", "tv_resnet101", "gluon_resnet101_v1b"), Model("resnet-101")),
    "resnet152": Model("resnet-152"),
    **dict.fromkeys(("resnext50_32x4d", "gluon_resnext50_32x4d"), Model("resnext-50-32x4d")),
    "resnext101_32x4d": Model("resnext-101-32x4d"),
    **dict.fromkeys(("resnext101_64x4d", "gluon_resnext101_64x4d"), Model("resnext-101-64x4d")),
    "wide_resnet50_2": Model("wide-resnet-50-2"),
    "wide_resnet101_2": Model("wide-resnet-101-2"),
    "vgg11_bn": _batch_normed("vgg-11"),
    "vgg13": Model("vgg-13"),
    "vgg16": Model("vgg-16"),
    "vgg16_bn": _batch_normed("vgg-16"),
    "vgg19_bn": _batch_normed("vgg-19"),
    "inception_v3": Model("inception-v3", note=NO_AUXILIARY),
    "inception_v4": Model("inception-v4"),
    "mobilenetv2_100": Model("mobilenet-v2"),
    **dict.fromkeys(("vit_tiny_patch16_224", "vit_tiny_patch16_384", "deit_tiny_patch16_224"), _vit(192, 12, 3)),
    "deit_small_patch16_224": _vit(384, 12, 6),
    **dict.fromkeys(
        ("vit_base_patch16_224", "vit_base_patch16_224_miil", "vit_base_patch16_224_sam", "deit_base_patch16_224", "deit_base_patch16_384"),
        _vit(768, 12, 12),
    ),
    **dict.fromkeys(("vit_base_patch32_224", "vit_base_patch32_224_sam"), _vit(768, 12, 12, 32)),
    **dict.fromkeys(("vit_large_patch16_224", "vit_large_patch16_384"), _vit(1024, 24, 16)),
    "vit_large_patch32_384": _vit(1024, 24, 16, 32),
    "vit_large_patch14_224": _vit(1024, 24, 16, 14),
    "vit_huge_patch14_224": _vit(1280, 32, 16, 14),
}  # fmt: skip
"""Models of pytorch-image-models that the library has; images as each row says."""

TF_CNN = {
    "alexnet": Model("alexnet-tf-cnn"),
    "vgg16": Model("vgg-16"),
    "inceptionv3": Model("inception-v3", note=NO_AUXILIARY),
    "inception3": Model("inception-v3", note=NO_AUXILIARY),
    "inception4": Model("inception-v4"),
    "resnet50": Model("resnet-50-v1"),
    "resnet101": Model("resnet-101-v1"),
    "resnet152": Model("resnet-152-v1"),
}
"""Models of tf_cnn_benchmarks; its ResNets are of version 1."""

TORCH_CNN = {
    "alexnet (one weird trick paper)": Model("alexnet"),
    "overfeat [fast]": Model("overfeat"),
    "oxfordnet [model-a]": Model("vgg-11"),
    "googlenet v1": Model("googlenet"),
    "inception-v1": Model("googlenet", note="local response norm left out"),
    "vgg-16": Model("vgg-16"),
    "vgg16": Model("vgg-16"),
    "vgg-19": Model("vgg-19"),
    "resnet-18": Model("resnet-18"),
    "resnet-34": Model("resnet-34"),
    "resnet-50": Model("resnet-50"),
    "resnet-101": Model("resnet-101"),
    "resnet-152": Model("resnet-152"),
}
"""Models of benchmarks in Torch and PyTorch."""

LAMBDA = {
    "resnet50": Model("resnet-50"),
    "ssd": Model("ssd300-resnet-50"),
    "ncf": Model("neumf-ml20m"),
    "bert_base_squad": SQUAD_BASE,
    "bert_large_squad": SQUAD_LARGE,
}
"""Tasks of Lambda's benchmark, which are examples of NVIDIA."""

GAVEL = {
    "resnet-18": Model("resnet-18-cifar"),
    "resnet-50": Model("resnet-50"),
    "lm": Model("lstm-wikitext2"),
}
POLLUX = {
    "resnet18 (cifar-10)": Model("resnet-18-cifar"),
    "resnet-50 (imagenet)": Model("resnet-50"),
    "bert-base fine-tune (squad)": SQUAD_BASE,
    "neumf (movielens)": Model("neumf-ml1m"),
}
DDL = {
    "resnet-50": Model("resnet-50").but(training__optimizer="sgd"),
    "bert-base": replace(BERT_BASE, seq_len=64).but(model__predicted=1.0, model__vocabulary=30528),
    "bert-large": replace(BERT_LARGE, seq_len=64).but(model__predicted=1.0, model__vocabulary=30528),
}
"""Its scripts compute the logits of every position."""

OBSTACLES = (
    (r"transformer-?xl", "the memory and relative attention of Transformer-XL are not expressible"),
    (r"gnmt", "tokens are those of sentences whose lengths the source does not state, and the custom family has none"),
    (r"^transformer\b", "batches of tokens or sentences whose lengths the source does not state"),
    (r"efficientnet|se-res|widese|gpunet", "squeeze-and-excitation and swish are not expressible"),
    (r"efficientdet|mask|faster|rpn|retinanet|detect|kps|keypoint|cascade|\bR-?(50|101)|X-?101", "detectors with feature pyramids or proposals are not expressible"),
    (r"yolo|nnunet|\bu-?net|unet3|\bvnet|segment", "upsampling networks are not expressible"),
    (r"densenet", "norm before the convolution (DenseNet) is not expressible"),
    (r"deepspeech|jasper|quartznet|rnnt|wav2vec|tacotron|waveglow|fastpitch|hifigan", "utterances whose lengths the source does not state"),
    (r"amoebanet", "the cells of AmoebaNet are not in the library"),
    (r"resnet-?200|resnetv2", "residual units with the norm before the convolution are not expressible"),
    (r"gpt3|llama", "LLMs of MLPerf are in the study mlperf-training"),
)  # fmt: skip
"""Why a model has no workload: the first pattern that is found in its name."""


def model(name: str, known: Mapping[str, Model]) -> Model:
    """The workload that a name means; raises UnfitError with the obstacle where there is none.

    >>> model("ResNet-50", TORCH_CNN).workload
    'resnet-50'
    """
    found = known.get(name.lower())
    if found:
        return found
    raise UnfitError(obstacle(name))


def obstacle(name: str) -> str:
    """Why the library has no workload of this name.

    >>> obstacle("Jasper")
    'Jasper: utterances whose lengths the source does not state'
    """
    for pattern, reason in OBSTACLES:
        if re.search(pattern, name, re.IGNORECASE):
            return f"{name}: {reason}"
    return f"the library has no workload {name}"


TRAINING_RULES = (
    Rule("aws-g4dn-12xlarge", r"\bT4\b"),
    Rule("rtx-6000-ada-8gpu-pcie", r"RTX 6000 Ada"),
    Rule("quadro-rtx-8000-8gpu-nvlink", r"RTX 8000", fabric="NVLink"),
    Rule("quadro-rtx-8000-8gpu-pcie", r"RTX [68]000"),
    Rule("exxact-2080ti", r"2080 ?Ti", fabric="NVLink"),
    Rule("rtx-2080ti-8gpu-pcie", r"2080 ?Ti"),
    Rule("rtx-3090-8gpu-pcie", r"RTX 3090"),
    Rule("rtx-3080-2gpu-pcie", r"RTX 3080"),
    Rule("rtx-a6000-8gpu-pcie", r"RTX A6000"),
    Rule("rtx-4090-2gpu-pcie", r"RTX 4090"),
    Rule("rtx-a5000-2gpu-nvlink", r"RTX A5000", per_node=(2,)),
    Rule("rtx-3070-2gpu-pcie", r"RTX 3070"),
    Rule("l4-8gpu-pcie", r"\bL4\b"),
    Rule("l40-8gpu-pcie", r"\bL40\b", per_node=(8, 10)),
    Rule("l40s-8gpu-pcie", r"\bL40S\b", per_node=(4, 8)),
    Rule("aws-g5-48xlarge", r"\bA10G\b"),
    Rule("a10-8gpu-pcie", r"\bA10\b"),
    Rule("a40-8gpu-pcie", r"\bA40\b", per_node=(8,)),
    Rule("a30-8gpu-pcie", r"\bA30\b"),
    Rule("a100-pcie-40gb", r"A100.*PCIe", memory=(40,)),
    Rule("a100-pcie-80gb", r"A100.*PCIe", memory=(80,)),
    Rule("h100-pcie", r"H100.*PCIe"),
    Rule("dgx-a100-80gb", r"A100[ -]+(80GB )?SXM", memory=(80,)),
    Rule("dgx-a100-40gb", r"A100[ -]+(40GB )?SXM", memory=(40,)),
    Rule("dgx-h100", r"H100.*SXM"),
    Rule("dgx-h200", r"H200.*SXM"),
    Rule("dgx-b200", r"B200(?!.*GB200)(?<!GB200)"),
    Rule("gh200-96gb", r"\bGH200\b"),
    Rule("titan-v", r"Titan V\b"),
    Rule("v100s-8gpu-pcie", r"V100S"),
    Rule("aws-g3-16xlarge", r"\bM60\b"),
    Rule("radeon-pro-vii-2gpu-pcie", r"Radeon-?(VII-?Pro|ProVII)"),
    Rule("dgx-1-p100", r"P100-SXM2"),
    Rule("aws-p2-16xlarge", r"K80", per_node=(16,)),
    Rule("aws-p2-8xlarge", r"K80"),
    Rule("titan-x-maxwell", r"(GTX|Maxwell) Titan X"),
    Rule("titan-x-pascal", r"Pascal Titan X"),
    Rule("gtx-1080ti", r"\b1080 ?Ti"),
    Rule("gtx-1080", r"GTX 1080$"),
    Rule("p40-8gpu", r"P40"),
    Rule("dgx-1-v100-16gb", r"V100[ -]16GB"),
    *(rule for rule in RULES if not rule.name.startswith(("gb", "tpu"))),
)
"""As `machines.RULES`, with the smaller machines that only these tables name."""

AMPERE = re.compile(r"\bA100|\bA30\b|\bA10G?\b|\bA40\b|A[56]000|RTX 30|RTX 40|Ada|\bL40?S?\b|H100|H200|B200|GH200")
"""Devices that multiply fp32 as tf32 unless told otherwise."""
BEFORE_TF32 = re.compile(r"TensorFlow 2\.[0-3]\b")
"""Frameworks that do not tell them so: TensorFlow supports tf32 since 2.4 (its release notes). Builds of 1.15 for these
devices are NVIDIA's, which do."""
CHANNELS_LAST = "channels-last"


def find_machine(device: str, *, memory: float | None = None, per_node: int | None = None, fabric: str = "") -> Machine:
    """The machine that a device means; raises UnfitError where the library has none.

    >>> find_machine("Quadro RTX 6000").overrides
    {'hardware.device.memory.capacity': '24 GiB'}
    """
    try:
        name = machine(device, memory=memory, per_node=per_node, fabric=fabric, rules=TRAINING_RULES)
    except UnknownMachine:
        each = f", {per_node} per node" if per_node else ""
        raise UnfitError(f"the library has no machine of {device or 'unknown devices'}{each}") from None
    if name.startswith("quadro") and "6000" in device:
        return Machine(
            name, {"hardware.device.memory.capacity": "24 GiB"}, "the same chip as Quadro RTX 8000, half of the memory"
        )
    return Machine(name)
