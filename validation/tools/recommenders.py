"""Which recommender a row of a training table means, and what its scripts do with the tables.

Read in the code of each source, which stands in the workload and in the preset; see the README of the study.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from validation.tools.training_names import Model, UnfitError, Value, obstacle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from validation.tools.training_studies import Row

SIZES = {"small": "dlrm-criteo-t15", "large": "dlrm-criteo-t3", "extra large": "dlrm-criteo-t0"}
"""Data sets of NVIDIA's examples by what their tables call the model."""
SLICES = "20 GB"
"""Above which the example in TensorFlow cuts a table: 5 billion numbers (main.py, column_slice_threshold)."""
SPARSE = {"strategy.tables.update": "sparse"}
"""Optimisers of PyTorch and Keras get a gradient for each lookup (gather_gpu_fused_pytorch_impl.cu; gradients of tf.gather)."""
AFTER = {**SPARSE, "strategy.tables.overlap": "none"}
"""Vectors travel when all before is done: one stream, no other work (dlrm/model/distributed.py)."""
HOROVOD = {"strategy.framework.cycle": "1 ms"}
"""Between two looks for collectives that are ready, by default since version 0.21 (its release notes, #2468)."""
HOSTS = {"strategy.tables.by": "table-row"}
"""Tables go to hosts, and their rows to the devices of each (sharding plan hier_auto, CommunicationStrategy.Hierarchical)."""
HYBRID = {"strategy.tables": "hybrid"}
"""DLRM's: HybridSparseEmbedding (dgx_a100_8x8x1120.json)."""
ALL_SPREAD = {"strategy.tables.copied": "0 B"}
"""Before v3.1 the planner had no threshold below which it copies tables (dp_sharding_threshold)."""


@dataclass(frozen=True, slots=True)
class Run:
    """A recommender as a source runs it."""

    model: Model
    preset: str
    batch: int | None = None
    """Samples of one rank, where the table prints them in another way."""

    def under(self, settings: Mapping[str, Value], note: str = "") -> Run:
        """The same with further overrides."""
        notes = "; ".join(filter(None, (self.model.note, note)))
        return replace(self, model=replace(self.model, overrides={**self.model.overrides, **settings}, note=notes))


def crossed(workload: str, updates: str) -> Model:
    """DCN-v2 of a DLRM's tables: three cross layers of rank 512, as dcnv2.py and torchrec_dlrm have by default."""
    return Model(workload).but(
        model__interaction="cat", model__cross__layers=3, model__cross__rank=512,
        model__updates=updates, training__optimizer=updates,
    )  # fmt: skip


def thousands(printed: str) -> int:
    """A batch as NVIDIA prints it.

    >>> thousands("64k"), thousands("131072")
    (65536, 131072)
    """
    found = re.fullmatch(r"(\d+)(k?)", printed)
    if not found:
        raise UnfitError(f"batch_per_device is {printed}" if printed else "batch_per_device is not stated")
    return int(found.group(1)) * (1024 if found.group(2) else 1)


def example(row: Row) -> Run | None:
    """A recommender of NVIDIA's examples; None where the row is of another model."""
    name = row["model"]
    if name.startswith("DLRM"):
        return _dlrm(row)
    if name == "WideAndDeep":
        return _wide_and_deep(row)
    if name == "SIM":
        raise UnfitError("SIM: attention over the items of a history (DIEN) is not expressible")
    return None


def _dlrm(row: Row) -> Run:
    size = re.search(r"\[Model size: (.*)\]", row["model"])
    if not size or size.group(1) not in SIZES:
        raise UnfitError("the size of the model is not stated")
    workload, batch = SIZES[size.group(1)], thousands(row["batch_per_device"])
    if row["framework"] == "PyTorch":
        run = Run(Model(workload), "data-parallel-graphs", batch)
        note = "one rank, which has no tables, makes the vectors of all numbers" if int(row["devices"]) > 4 else ""
        return run.under(AFTER, note)
    model = crossed(workload, "adam") if row["address"].endswith("DCNv2.md") else Model(workload)
    run = Run(model, "tensorflow-xla", batch).under({**SPARSE, **HOROVOD})
    return run.under({"strategy.tables.slice": SLICES}) if workload == "dlrm-criteo-t0" else run


def _wide_and_deep(row: Row) -> Run:
    """TensorFlow 2; each rank has all tables, whose gradients it makes dense and reduces at once (trainer.py)."""
    if row["framework"] == "TensorFlow1":
        raise UnfitError(
            "Wide & Deep in TensorFlow 1: processors of the host hash ids as texts, which is not expressible"
        )
    if row["table"].startswith("Evaluation"):
        raise UnfitError("evaluation, the forward pass alone")
    preset = "tensorflow-xla" if "XLA=Yes" in row["notes"] else "tensorflow"
    run = Run(Model("wide-and-deep-outbrain"), preset, thousands(row["batch_per_device"]))
    tables = {"strategy.tables.by": "replicated", **SPARSE}
    return run.under({**tables, "strategy.gradient_overlap": "none", **HOROVOD})


def mlperf(row: Row) -> Run:
    """DLRM or DCN-v2 in HugeCTR, which NVIDIA's submissions and those that took their code run; first ones in PyTorch.

    Labels of frameworks name all containers of a submission, but PyTorch alone in v1.0, with another rate, was DLRM's too.
    """
    if row["metric"] != "throughput":
        raise UnfitError("the time of an epoch may contain evaluation")
    if "NVL-" in row["device"]:
        raise UnfitError(f"the library has no machine of {row['device']}")
    hosts = HOSTS if row.number("devices") > row.number("devices_per_node") and "GB200" not in row["device"] else {}
    if row["model"] == "dlrm_dcnv2":
        spread = ALL_SPREAD if row["source"].endswith("v3.0") else {}
        return Run(Model("dlrm-dcnv2"), "hugectr").under({**hosts, **spread})
    if row["framework"].startswith("PyTorch NVIDIA"):
        return Run(Model("dlrm-mlperf"), "data-parallel-graphs").under(AFTER)
    return Run(Model("dlrm-mlperf"), "hugectr").under(HYBRID)


def torchrec(row: Row) -> Run:
    """TorchRec's example on one p4d.24xlarge; tables in fused kernels, copies of the next batch beside the passes."""
    if row["metric"] != "throughput":
        raise UnfitError("the throughput of the same run is a case")
    updates = "adagrad" if "Adagrad" in row["notes"] else "sgd"
    if "DCN" in row["model"]:
        return Run(crossed("dlrm-torchrec", updates), "data-parallel")
    if "dot" in row["model"]:
        return Run(Model("dlrm-torchrec").but(model__updates=updates, training__optimizer=updates), "data-parallel")
    raise UnfitError(obstacle(row["model"]))
