"""What the rows of each source mean: which job of the library each is.

A recipe takes a row and gives its job, or raises UnfitError with the reason why it is none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from validation.tools import recommenders
from validation.tools.gavel_scripts import HABITS
from validation.tools.training_names import (
    BERT_BASE,
    BERT_LARGE,
    CHANNELS_LAST,
    DDL,
    GAVEL,
    LAMBDA,
    POLLUX,
    SQUAD_LARGE,
    TF_CNN,
    TIMM,
    TORCH_CNN,
    Machine,
    Model,
    UnfitError,
    find_machine,
    model,
    obstacle,
)  # fmt: skip
from validation.tools.training_servers import ON_DEVICES, is_served, server_count, server_preset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from validation.tools.training_names import Value

    Recipe = Callable[["Row", "Sources"], "Job"]

IMAGENET = 1281167
"""Training images, as the logs of MLPerf count them."""
SSD300_ROUNDS = {"MLPerf Training v1.0", "MLPerf Training v1.1"}
"""In which NVIDIA's SSD300 is one program, in MXNet."""
MISLOGGED = "42549766.20495652"
"""Samples in a second, in the log of 4,216 A100 (MLPerf Training v2.0, v2.1, dgxa100_n527); by its blocks they are 6.1 million."""
FRAMEWORKS = (
    (r"\bXLA", "tensorflow-xla"),
    (r"tensorflow|\bTF1|tensorpack|keras", "tensorflow"),
    (r"mxnet", "mxnet"),
    (r"paddle", "paddlepaddle"),
    (r"oneflow", "oneflow"),
    (r"torch7|\(torch\)|^cudnn", "torch7"),
)
"""Which preset a framework's name means; the first that is found in it, else PyTorch's data-parallel."""
G4DN_NIC = 6.25
"""GB/s of one g4dn.12xlarge: 50 Gbit/s."""
BETWEEN_TWO = 0.58
"""Of that, what a ring of two nodes reaches. The pods' traffic is IP in IP (calico.yaml 3.11 in the artifact's benchmark/main.tf), so
that all between two nodes is one flow to the network, which a ring of two uses both ways; fitted to calibration rows of two nodes."""
COMPACT: dict[str, Value] = {"strategy.gradient_precision": "same"}
"""tf_cnn_benchmarks casts the gradients of half-precision runs to fp16 before they travel (compact_gradient_transfer, on by default;
batch_allreduce.py and variable_mgr.py)."""
PREPARING: dict[str, tuple[float, float, Callable[[int], int]]] = {
    "dgx-a100-40gb": (6.7, 7.1, lambda _: 128),
    "quadro-rtx-8000-8gpu-pcie": (13.7, 19.6, lambda devices: 7 * devices),
    "exxact-2080ti": (9.8, 11.8, lambda _: 40),
}
"""Milliseconds of a core for a picture, without and with distortions, and the cores of a job's host: fitted to the calibration rows
of AlexNet, which no device slows. The Quadros are an instance of Lambda's cloud, whose cores grow with its devices (14 virtual ones, 46 GB
each: assumed, only the product counts)."""
ONE_CARD: dict[str, Value] = {
    "hardware.network.1.bandwidth": "1.5625 GB/s", "hardware.network.1.ports": 1, "hardware.network.1.efficiency": 0.48,
}  # fmt: skip
"""DLPerf's hosts have one card of 100 Gbit/s, under the PCIe switch of devices 2 and 3 (topology in
NVIDIADeepLearningExamples/README.md). No set-up has GPUDirect, so that what arrives passes the 12 GB/s of that switch's link twice,
up to the host and down to a device: 6 of 12.5 GB/s (derived; calibration rows in which nothing overlaps ask for 0.4 to 0.5)."""
AMP_O1: dict[str, Value] = {"strategy.gradient_precision": "fp32"}
"""apex amp at O1 keeps weights in fp32 and casts them for each product, so that gradients are fp32 too."""
ADAM_LOOP: dict[str, Value] = {"strategy.weight_loop.numbers": 33, "strategy.weight_loop.operations": 34}
"""AdaScale divides gradients by the root of Adam's second moment before it squares them, in the backward pass and after it."""


class Row:
    """A raw row, whose columns are text."""

    def __init__(self, cells: Mapping[str, str]) -> None:
        """Keep the cells."""
        self.cells = cells

    def __getitem__(self, column: str) -> str:
        """A cell; empty where the table lacks it."""
        return self.cells.get(column) or ""

    def number(self, column: str) -> int:
        """A whole number above 0; raises UnfitError for anything else."""
        if not re.fullmatch(r"\d+", self[column]) or int(self[column]) < 1:
            printed = self[column]
            raise UnfitError(f"{column} is {printed}" if printed else f"{column} is not stated")
        return int(self[column])

    def whole(self, column: str) -> int | None:
        """Likewise, or None."""
        return int(self[column]) if re.fullmatch(r"[1-9]\d*", self[column]) else None

    def noted(self, pattern: str) -> int | None:
        """The number that a pattern captures in the notes."""
        found = re.search(pattern, self["notes"])
        return int(found.group(1)) if found else None


class Sources:
    """What a row says only together with others of its source."""

    def __init__(self, table: Iterable[Mapping[str, str]]) -> None:
        """Look for logs that hold a throughput, and for figures that a table repeats."""
        self.logged: set[tuple[str, str, str, str]] = set()
        self._first: dict[tuple[str, ...], int] = {}
        self._repeats: dict[int, bool] = defaultdict(bool)
        for line in table:
            if line.get("metric") == "throughput":
                self.logged.add(self.log(line))
            if line.get("devices") == "1":
                figure = tuple(
                    str(line.get(c)) for c in ("source", "model", "device", "batch_per_device", "precision", "value")
                )
                self._repeats[id(line)] = figure in self._first
                self._first.setdefault(figure, id(line))

    @staticmethod
    def log(line: Mapping[str, str]) -> tuple[str, str, str, str]:
        """What tells one log of MLPerf from others."""
        return line.get("source", ""), line.get("table", ""), line.get("devices", ""), line.get("batch_global", "")

    def repeats(self, row: Row) -> bool:
        """Whether a row of one device prints the figure of an earlier one."""
        return self._repeats[id(row.cells)]


@dataclass(frozen=True, slots=True)
class Job:
    """What a row measured; what is left out stands in the row's own columns."""

    model: Model
    machine: Machine
    strategy: str = ""
    devices: int | None = None
    pp: int | None = None
    microbatch: int | None = None
    accumulation: int = 1
    global_batch: int | None = None
    precision: str = ""
    """Where the row prints none."""
    as_run: str = ""
    """Precision by the scripts, where they contradict the table."""
    recompute: str = ""
    schedule: str = ""
    layout: str = ""
    """Of the maps, where it is not the preset's."""
    epoch: int | None = None
    """Samples of an epoch, where the value is the time of one and nothing else happens in it."""
    share: float = 1.0
    """Of the printed value, what was done in the time that it was divided by."""
    note: str = ""


SQUAD = 88641
"""Sequences of SQuAD 1.1 at 384 tokens, as the logs of Lambda print (training_features)."""


def study(line: Mapping[str, str]) -> tuple[str, Recipe]:
    """The study that a row belongs to, and its recipe.

    >>> study({"source": "timm benchmark-train"})[0]
    'timm'
    """
    for pattern, name, recipe in STUDIES:
        text = f"{line.get('source')} | {line.get('model')} | {line.get('notes')}"
        if re.search(pattern, text):
            return name, recipe
    return "misc", misc


def parallel(row: Row, preset: str = "") -> str:
    """The preset of a data-parallel job; raises UnfitError where it splits the model, or has servers of no known kind.

    >>> parallel(Row({"strategy": "data-parallel replicated", "framework": "TensorFlow 2.2 tf_cnn_benchmarks XLA"}))
    'tensorflow-xla'
    """
    if is_served(row["strategy"]):
        served = server_preset(row["strategy"], row["source"])
        if not served:
            compressed = "compression" in row["strategy"]
            raise UnfitError(
                "gradients that are compressed are not expressible"
                if compressed
                else "which servers these are is not stated"
            )
        return served
    if re.search(r"model.?parallel|hybrid", row["strategy"]):
        raise UnfitError("how the model is split is not stated")
    return preset or _framework(row)


def _framework(row: Row) -> str:
    """The preset of a row's framework; XLA may stand in its notes."""
    return framework(f"{row['framework']} {'XLA' if re.search(r'XLA(?!=No)', row['notes']) else ''}")


def framework(printed: str) -> str:
    """The preset of a framework.

    >>> framework("NGC TensorFlow 1.x w/XLA"), framework("PyTorch 1.12 timm NCHW")
    ('tensorflow-xla', 'data-parallel')
    """
    found = (preset for pattern, preset in FRAMEWORKS if re.search(pattern, printed, re.IGNORECASE))
    return next(found, "data-parallel")


def pollux(row: Row, _: Sources) -> Job:
    """PyTorch under AdaptDL on g4dn.12xlarge; the model's script says the precision."""
    found = model(row["model"], POLLUX)
    devices = row.number("devices")
    placement = re.search(r"placement (\d+)", row["notes"])
    nodes = len(placement.group(1)) if placement else row.noted(r"(\d+) nodes") or 1
    machine = _spread_out(devices, min(nodes, devices))
    amp = found.workload == "resnet-50"
    habits = AMP_O1 if amp else {} if found.workload == "resnet-18-cifar" else ADAM_LOOP
    return Job(
        found, replace(machine, overrides={**machine.overrides, **habits}), parallel(row, "adaptdl"),
        precision="fp16" if amp else "fp32", note="apex amp at its default O1" if amp else "",
    )  # fmt: skip


def _spread_out(devices: int, nodes: int) -> Machine:
    """g4dn nodes of which each holds its share of the devices; an uneven placement is evened out."""
    each = -(-devices // nodes)
    card = G4DN_NIC * (BETWEEN_TWO if nodes == 2 else 1)
    overrides: dict[str, Value] = {}
    if each != 4:
        overrides = {
            "hardware.host.devices": each, "hardware.network.0.devices": each, "hardware.network.1.devices": 16 * each,
        }  # fmt: skip
    if each != 4 or nodes == 2:
        overrides["hardware.network.1.bandwidth"] = f"{card / each:.6g} GB/s"
    return Machine("aws-g4dn-12xlarge", overrides, f"{nodes} nodes of {each}")


def gavel(row: Row, sources: Sources) -> Job:
    """PyTorch; only one device, since the machines are not described."""
    name = row["model"].partition(" (batch")[0]
    if name == "Recommendation":
        raise UnfitError("the widths of the autoencoder hang on a data set whose items the source does not state")
    if name in {"A3C", "CycleGAN"}:
        raise UnfitError(f"{name} is not in the library")
    found = model(name, GAVEL)
    if row["devices"] != "1":
        raise UnfitError("the servers of the cluster and their network are not described")
    if sources.repeats(row):
        raise UnfitError("one device: repeats the figure of another table or placement")
    device = {"P100": "P100-SXM2-16GB", "V100": "V100-SXM2-16GB"}.get(row["device"], row["device"])
    machine = find_machine(device)
    overrides = {**machine.overrides, **HABITS[found.workload]}
    return Job(found, replace(machine, overrides=overrides, note=f"{row['device']} of an unknown board"), parallel(row))


def ddl(row: Row, sources: Sources) -> Job:
    """Four GPUs a node over three networks; the device is inferred in the hardware files."""
    found = model(row["model"], DDL)
    if sources.repeats(row):
        raise UnfitError("repeats the figure of one GPU for another method")
    method = row["notes"].partition(";")[0].removeprefix("method ").strip()
    if method.startswith("ByteScheduler"):
        raise UnfitError("priority scheduling across iterations is not expressible")
    strategy = {"BSP-A2A": "all-reduce-after-backward", "WFBP-A2A": "wait-free-backpropagation", "MG-WFBP": "horovod"}
    if "-PS" not in method and method not in strategy:
        raise UnfitError(f"method {method} is not known")
    networks = (("10GbE ", "pcie-4gpu-10gbe"), ("100GbIB", "pcie-4gpu-100gib"), ("100GbE", "pcie-4gpu-100gbe"))
    hardware = next((name for text, name in networks if row["interconnect"].startswith(text)), "pcie-4gpu-100gib")
    return Job(found, Machine(hardware), parallel(row, strategy.get(method, "")), precision="fp32")


def examples(row: Row, _: Sources) -> Job:
    """NVIDIA's DeepLearningExamples on DGX machines."""
    device = row["device"]
    fabric = find_machine(
        device if "450 W" not in device else "V100-SXM3-32GB-H", per_node=row.whole("devices_per_node")
    )
    run = recommenders.example(row)
    if run:
        return Job(run.model, fabric, run.preset, microbatch=run.batch)
    found = _example(row)
    microbatch, accumulation, total = _accumulated(row, found)
    preset = parallel(row)
    if preset == "tensorflow" and row["model"].startswith("BERT"):
        preset = "tensorflow-xla"  # its scripts run_squad.sh and run_pretraining_lamb_phase1.sh set use_xla
    return Job(
        found, fabric, preset, microbatch=microbatch, accumulation=accumulation, global_batch=total,
        layout=_example_layout(row, found),
    )  # fmt: skip


def _example_layout(row: Row, found: Model) -> str:
    """In mixed precision the classifiers in PyTorch ask for nhwc (configs.yml), SSD does so by default (main.py)."""
    convolutional = found.workload.startswith(("resnet", "resnext", "ssd"))
    mixed = row["precision"] in {"mixed", "FP16"}
    return CHANNELS_LAST if row["framework"] == "PyTorch" and convolutional and mixed else ""


def _example(row: Row) -> Model:
    name = row["model"]
    if re.fullmatch(r"BERT(/biobert)?", name):
        return _bert(row)
    if name == "NCF":
        return LAMBDA["ncf"]
    if name == "SSD" and row["framework"] == "PyTorch":
        return LAMBDA["ssd"]
    if name == "SSD":
        raise UnfitError("SSD320 with feature pyramid (TensorFlow) is not in the library")
    if re.search(r"(?<!se-)resnext101-32x4d", name):
        return Model("resnext-101-32x4d")
    if re.search(r"resnet50|RN50v1.5", name):
        return Model("resnet-50", note="sparse tensor cores (ASP)" if "ASP" in row["notes"] else "")
    raise UnfitError(obstacle(name))


def _bert(row: Row) -> Model:
    """BERT-large, or BERT-base of BioBERT; on SQuAD, or in pre-training at the length that the notes give."""
    biobert = row["model"].endswith("biobert")
    if re.search("fine-tuning", row["table"], re.IGNORECASE):
        if biobert:
            raise UnfitError("the sequence length of this fine-tuning is not stated")
        return SQUAD_LARGE
    sequence = row.noted(r"seq=(\d+)")
    if not sequence:
        raise UnfitError("the sequence length is not stated")
    if sequence == 512 and row["framework"] in {"PyTorch", "PaddlePaddle"}:
        raise UnfitError("phase 2 draws batches from bins of similar length (LDDL), which are shorter than 512")
    pretrained = BERT_BASE if biobert else BERT_LARGE
    return replace(pretrained, seq_len=sequence).but(training__optimizer="lamb")


def _accumulated(row: Row, found: Model) -> tuple[int, int, int | None]:
    """Samples of one pass, passes of one step, and the global batch where the table prints one that fits.

    Some tables print as the batch of a GPU what it accumulates over all passes. A pair of batches is one
    for mixed precision, then one for fp32.
    """
    batch = _one_of(row["batch_per_device"], mixed=row["precision"] == "mixed")
    passes = row.noted(r"grad-accum=(\d+)") or 1
    whole = row.noted(r"accumulated batch/GPU=(\d+)")
    if passes > 1 and whole and whole % passes == 0:
        return whole // passes, passes, None
    if passes > 1 and batch > 512 and batch % passes == 0:
        return batch // passes, passes, None
    devices = row.number("devices")
    total = _one_of(row["batch_global"], mixed=row["precision"] == "mixed") if row["batch_global"] else None
    fits = total is not None and total % (devices * batch) == 0
    return batch, passes, total if fits and found.workload.startswith("bert") else None


def _one_of(printed: str, *, mixed: bool) -> int:
    """A number, or the one of a pair that the precision means.

    >>> _one_of("76,38", mixed=False), _one_of("128 (TF) / 256 (AMP)", mixed=True)
    (38, 256)
    """
    numbers = [int(number) for number in re.findall(r"\d+", printed)]
    if len(numbers) == 2:
        pair = numbers if "AMP)" not in printed else numbers[::-1]
        return pair[0] if mixed else pair[1]
    if len(numbers) != 1 or not printed.strip().isdigit():
        raise UnfitError(f"batch_per_device is {printed}" if printed else "batch_per_device is not stated")
    return numbers[0]


def dlperf(row: Row, _: Sources) -> Job:
    """Four DGX-1-like nodes with one InfiniBand card each.

    NVIDIA's BERT for PyTorch (run_pretraining.py) computes the logits of every position, and tells apex to gather 250 million
    gradients before it reduces any: more than BERT-base has. OneFlow fuses batch norm with rectifier and sum (local_train.sh).
    MXNet without a container of NVIDIA is the wheel of Apache with scripts of GluonCV and GluonNLP. NVIDIA's BERT for TensorFlow
    reduces gradients in fp16 where it trains so (optimization.py at fed7ba99, compression=Compression.fp16).
    """
    bert = row["model"].startswith("BERT")
    preset = parallel(row, "mxnet-apache" if row["framework"].startswith("MXNet") else "")
    found = replace(BERT_BASE, seq_len=128) if bert else model(row["model"].removesuffix(" v1.5"), TORCH_CNN)
    settings: dict[str, Value] = {}
    if row.number("devices") > 8:
        settings |= ONE_CARD
    if bert and preset == "data-parallel":
        found = found.but(model__predicted=1.0, model__vocabulary=30528)
        settings |= {"strategy.gradient_overlap": "none"}
    if bert and preset.startswith("tensorflow") and row["precision"] != "fp32":
        settings |= COMPACT
    if not bert and preset == "oneflow":
        settings |= {"strategy.elementwise": "merged"}
    return Job(found, Machine("dgx-1-v100-16gb", settings), preset)


def tf_cnn(row: Row, _: Sources) -> Job:
    """tf_cnn_benchmarks of the TensorFlow team: K80 instances and a DGX-1 of P100."""
    found = model(re.sub(r"-(?=\d)", "", row["model"]), TF_CNN)
    per_node = 8 if "GCE" in row["table"] else row.whole("devices_per_node")
    machine = find_machine(row["device"], per_node=per_node)
    servers = server_count(row["strategy"], row["model"], row["batch_per_device"], row["devices"])
    if servers:
        machine = replace(machine, overrides={**machine.overrides, "strategy.servers.count": servers})
    return Job(found, machine, parallel(row))


def lambda_tf(row: Row, _: Sources) -> Job:
    """tf_cnn_benchmarks by Lambda: variables replicated, or on servers, which that script spreads over the devices by default."""
    if "laptop" in row["device"]:
        raise UnfitError(f"{row['device']}: the clock that its power limit leaves is not stated")
    found = model(row["model"], TF_CNN)
    machine = find_machine(row["device"].removeprefix("Tesla "), fabric=row["interconnect"])
    machine = replace(machine, overrides={**machine.overrides, **_prepared(machine.hardware, row)})
    if row["precision"] == "mixed" and row["devices"] != "1":
        machine = replace(machine, overrides={**machine.overrides, **COMPACT})
    if is_served(row["strategy"]):
        machine = replace(machine, overrides={**machine.overrides, **ON_DEVICES})
        return Job(found, machine, _framework(row))
    return Job(found, machine, parallel(row))


def _prepared(hardware: str, row: Row) -> dict[str, Value]:
    """How the host of a row with real images prepares them, where calibration rows tell."""
    if "real data" not in row["notes"] or hardware not in PREPARING:
        return {}
    plain, distorted, cores = PREPARING[hardware]
    time = distorted if "distortions" in row["notes"] else plain
    return {"strategy.input.sample": f"{time} ms", "strategy.input.cores": cores(row.number("devices"))}


def lambda_torch(row: Row, _: Sources) -> Job:
    """NVIDIA's examples, run by Lambda; the node's size is the job's."""
    found = model(row["model"], LAMBDA)
    machine = find_machine(row["device"], fabric="PCIe")
    if row["model"].startswith("bert"):
        return Job(found, machine, parallel(row), **_squad(row))
    if row["model"] == "ncf" and row["precision"] == "mixed" and re.search("[48]0GB", row["device"]):
        note = "run in tf32: the configurations of 40 and 80 GB start NCF without --amp, those of 24 and 48 GB with it"
        return Job(found, machine, parallel(row), as_run="tf32", note=note)
    return Job(found, machine, parallel(row))


def _squad(row: Row) -> dict[str, Any]:
    """run_squad.py divides the samples of 100 steps by the time of two epochs or 101 steps, whichever is less.

    >>> _squad(Row({"batch_per_device": "320", "devices": "8"}))["share"]
    0.693
    """
    batch = row.number("batch_per_device") * row.number("devices")
    trained = min(101 * batch, 2 * SQUAD)
    share = round(trained / (100 * batch), 3)
    return {"share": share, "note": f"x {share}, samples trained in the time over samples printed"}


def timm(row: Row, _: Sources) -> Job:
    """One RTX 3090, mixed precision; the notes hold the size of the image."""
    if row["model"] not in TIMM:
        raise UnfitError(f"the library has no workload {row['model']}")
    found = TIMM[row["model"]]
    image = row.noted(r"img (\d+)") or 224
    if found.workload.startswith("vit"):
        found = found.but(model__patches__image=image)
    elif image != {"inception-v3": 299, "inception-v4": 299}.get(found.workload, 224):
        found = found.but(model__image=image)
    layout = CHANNELS_LAST if row["framework"].endswith("NHWC") and not found.workload.startswith("vit") else ""
    return Job(found, find_machine(row["device"]), parallel(row), layout=layout)


def torch_passes(row: Row, _: Sources) -> Job:
    """Forward and backward pass in Torch and PyTorch; only with the vendor's kernels."""
    _vendor_kernels(row)
    if row["device"].startswith("CPU"):
        raise UnfitError(f"the library has no machine of {row['device']}")
    if row["model"] == "AlexNet":
        raise UnfitError("AlexNet of two towers with local response norm is not in the library")
    return Job(model(row["model"], TORCH_CNN), find_machine(row["device"]), parallel(row))


def _vendor_kernels(row: Row) -> None:
    library = row["framework"]
    if "convnet" in row["source"] and not re.search("cudnn", library, re.IGNORECASE):
        raise UnfitError(f"kernels of {library}, which no efficiency constants describe")
    if "cuDNN None" in library:
        raise UnfitError("kernels of Torch without cuDNN, which no efficiency constants describe")


def mxnet(row: Row, _: Sources) -> Job:
    """Apache MXNet on single GPUs; its ResNet has the stride in the 3x3 convolution."""
    names = {"resnet 50": Model("resnet-50"), "resnet-152": Model("resnet-152"), "inception-v3": TF_CNN["inception3"],
             "inceptionv3": TF_CNN["inception3"]}  # fmt: skip
    if row["model"].lower() == "alexnet":
        raise UnfitError("which AlexNet it is is not stated")
    device = "V100-SXM2-16GB" if row["device"] == "V100" else row["device"]
    machine = find_machine(device, per_node=row.whole("devices_per_node"))
    return Job(model(row["model"], names), machine, parallel(row, "mxnet-apache"))


def torchgpipe(row: Row, _: Sources) -> Job:
    """GPipe in PyTorch on P40; one device, or stages of a pipeline."""
    found = model(row["model"], TORCH_CNN)
    if "DataParallel" in row["strategy"]:
        raise UnfitError("nn.DataParallel gathers outputs on one device, which is not expressible")
    batch, devices = row.number("batch_global"), row.number("devices")
    micro = re.search(r"(\d+) micro-batches", row["strategy"])
    if not micro:
        return Job(found, find_machine(row["device"]), parallel(row), microbatch=batch, precision="fp32")
    if batch % int(micro.group(1)):
        raise UnfitError(f"{micro.group(1)} micro-batches do not divide the batch of {batch}")
    return Job(
        found, find_machine(row["device"]), "gpipe", pp=devices, microbatch=batch // int(micro.group(1)),
        global_batch=batch, precision="fp32", note=row["strategy"],
    )  # fmt: skip


def deepspeed(row: Row, _: Sources) -> Job:
    """BERT-large on one V100."""
    sequence = re.search(r"seq(\d+)", row["model"])
    if not sequence:
        raise UnfitError("the time to train hangs on convergence")
    if "SQuAD" in row["model"]:
        return Job(SQUAD_LARGE, find_machine("V100-SXM2-16GB"), parallel(row))
    micro = {"128": 64, "512": 8}[sequence.group(1)]
    found = replace(BERT_LARGE, seq_len=int(sequence.group(1))).but(training__optimizer="lamb")
    return Job(
        found, find_machine("V100-SXM3-32GB", per_node=16), parallel(row), microbatch=micro, accumulation=10,
        note="batch of one pass from the same post's multi-node runs",
    )  # fmt: skip


def mlperf(row: Row, sources: Sources) -> Job:
    """ResNet-50, SSD300 and recommenders of MLPerf, from throughput entries of the logs; ResNet-50 else from epochs without evaluation."""
    if row["model"].startswith("dlrm"):
        run = recommenders.mlperf(row)
        rack = Machine("gb200-nvl72") if "GB200" in row["device"] else None
        return Job(run.model, rack or _submitted(row), run.preset, precision="fp16", note="fp16 as in NVIDIA's code")
    detector = row["model"] == "ssd" and row["source"] in SSD300_ROUNDS and row["metric"] == "throughput"
    if row["model"] != "resnet" and not detector:
        raise UnfitError(_no_mlperf_model(row["model"]))
    if row["metric"] == "throughput" and row["value"] == MISLOGGED:
        raise UnfitError(
            "the log contradicts itself: its blocks take 0.2085 s for an epoch, 7 times as long as this throughput says"
        )
    epoch = None
    if row["metric"] == "time_per_epoch":
        if "epoch_start..epoch_stop" not in row["notes"] or row.noted(r"train_samples (\d+)") != IMAGENET:
            raise UnfitError("the time of an epoch may contain evaluation")
        if sources.log(row.cells) in sources.logged:
            raise UnfitError("the throughput of the same log is a case")
        epoch = IMAGENET
    return Job(
        Model("ssd300-resnet-34" if detector else "resnet-50"),
        _submitted(row),
        parallel(row, "mxnet"),
        precision="fp16",
        epoch=epoch,
        note="fp16 as in NVIDIA's code",
    )


def _no_mlperf_model(name: str) -> str:
    if name == "bert":
        return "bert: sequences without padding, of lengths that the log does not state"
    if name == "ssd":
        return "ssd: before v1.0 in frameworks that differ, RetinaNet from v2.0 on, and epochs may contain evaluation"
    return obstacle(name)


CARDS = {"FDR": 56, "EDR": 100, "HDR": 200, "NDR": 400}
"""Gbit/s of one InfiniBand card by its generation."""


def cards(printed: str) -> float | None:
    """Gbit/s that a node has into the network, where a description of links says so.

    >>> cards("NVLINK 3.0; Storage: 2x ConnectX-6 IB HDR 200Gb/sec, Compute: 8x ConnectX-6 IB HDR 200Gb/Sec")
    1600.0
    >>> cards("NVLink; 4x Mellanox Technologies MT27700"), cards("N/A; 1x ConnectX-5 IB EDR 100Gb/Sec")
    (None, 100.0)
    """
    compute = re.search(r"Compute:(.*)", printed)
    text = compute.group(1) if compute else re.sub(r"(Storage|Management):[^,;+]*", "", printed)
    found = re.search(r"(\d+) ?x [^,;]*?\b(FDR|EDR|HDR|NDR)\b", text)
    return float(found.group(1)) * CARDS[found.group(2)] if found else None


def _submitted(row: Row) -> Machine:
    """The machine of a submission; nodes of four boards and other cards than the library's are overrides."""
    device, each = row["device"], row.number("devices_per_node")
    devices = row.number("devices")
    memory = re.search(r"(\d+) ?GB", device)
    found = find_machine(
        re.sub(r"^N?(VIDIA|vidia) (Tesla )?|^Tesla ", "", device), memory=float(memory.group(1)) if memory else None
    )
    if found.hardware == "dgx-2h" or re.search(r"SXM3.*H\b|SXM3.*450", device):
        found = Machine("dgx-2h")
    if devices <= each:
        return replace(found, note=device if "SXM" in device and each != 8 else "")
    if "SXM" not in device:
        raise UnfitError("the library's machine has no network between hosts")
    gbits = cards(row["interconnect"])
    if gbits is None:
        raise UnfitError("the network cards of the nodes are not stated")
    overrides: dict[str, Value] = {"hardware.network.1.bandwidth": f"{gbits / 8 / each:.6g} GB/s"}
    if each != {"dgx-2h": 16}.get(found.hardware, 8):
        overrides |= {"hardware.host.devices": each, "hardware.network.0.devices": each}
    return Machine(found.hardware, overrides, f"nodes of {each} with {gbits:g} Gbit/s")


def misc(row: Row, sources: Sources) -> Job:
    """Small sources."""
    source = row["source"]
    if source.startswith("u39kun"):
        return torch_passes(row, sources)
    if source.startswith("tensorpack"):
        device = "V100-SXM2-16GB" if "V100" in row["device"] else "P100-SXM2-16GB"
        if "P100" in row["device"] and row["devices"] != "1":
            raise UnfitError("the links of the P100 server are not stated")
        return Job(model(row["model"], TORCH_CNN), find_machine(device, per_node=8), parallel(row))
    if source.startswith("facebookresearch/dlrm"):
        run = recommenders.torchrec(row)
        note = "tf32 as PyTorch before 1.12 by default"
        return Job(run.model, Machine("aws-p4d-24xlarge"), run.preset, precision="tf32", note=note)
    if row["metric"] == "time_per_epoch":
        raise UnfitError("the time of an epoch may contain evaluation")
    if source.startswith("Horovod"):
        raise UnfitError("the library has no servers of 4 P100 with 25 Gbit/s")
    raise UnfitError(obstacle(row["model"]) if row["batch_per_device"] else "batch_per_device is not stated")


STUDIES: tuple[tuple[str, str, Recipe], ...] = (
    (r"^Pollux.*\| NeuMF", "pollux-ncf", pollux),
    (r"^Pollux", "pollux", pollux),
    (r"^Gavel", "gavel", gavel),
    (r"^HKBU ddl-benchmarks", "ddl-benchmarks", ddl),
    (r"^NVIDIA DeepLearningExamples", "deeplearningexamples", examples),
    (r"^DLPerf", "dlperf", dlperf),
    (r"^tensorflow\.org", "tf-cnn-benchmarks", tf_cnn),
    (r"^Lambda lambda-tensorflow.*\| real data", "lambda-real-data", lambda_tf),
    (r"^Lambda lambda-tensorflow", "lambda-tensorflow", lambda_tf),
    (r"^Lambda", "lambda-pytorch", lambda_torch),
    (r"^timm", "timm", timm),
    (r"^soumith", "soumith-convnet", torch_passes),
    (r"^jcjohnson", "jcjohnson-cnn", torch_passes),
    (r"^MXNet", "mxnet", mxnet),
    (r"^torchgpipe", "torchgpipe", torchgpipe),
    (r"^DeepSpeed", "deepspeed-bert", deepspeed),
    (r"^MLPerf", "mlperf-steps", mlperf),
)
"""Pattern of source, model and notes; name of the study; what its rows mean. All others are misc."""
