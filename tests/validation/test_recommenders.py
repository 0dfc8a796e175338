"""Rows of recommenders become cases: which model, which preset, what the scripts do with the tables."""

from __future__ import annotations

import pytest

from perfmodel.library import find, names
from validation.tools import training
from validation.tools.cases import Case, Skipped

EXAMPLE = {
    "source": "NVIDIA DeepLearningExamples", "address": "https://example.org/doc/DLRM.md", "table": "Training performance",
    "model": "DLRM_and_DCNv2/doc [Model size: small]", "framework": "TensorFlow2", "device": "A100-SXM4-80GB", "devices": "1",
    "devices_per_node": "8", "precision": "mixed", "batch_per_device": "64k", "metric": "throughput", "value": "1000",
    "unit": "items/s", "notes": "", "split": "calibration", "strategy": "",
}  # fmt: skip
LOG = {
    **EXAMPLE, "source": "MLPerf Training v3.1", "model": "dlrm_dcnv2", "framework": "NVIDIA Merlin HugeCTR Release 23.09",
    "device": "NVIDIA H100-SXM5-80GB", "devices": "8", "batch_per_device": "6912", "batch_global": "55296", "precision": "",
    "unit": "as logged (samples/s for vision)", "interconnect": "Compute: 8x ConnectX-7 IB NDR 400Gb/s",
}  # fmt: skip
TORCHREC = {
    **EXAMPLE, "source": "facebookresearch/dlrm torchrec_dlrm", "model": "DLRM (dot interaction)", "framework": "PyTorch TorchRec",
    "device": "A100-SXM4-40GB", "devices": "8", "batch_per_device": "2048", "precision": "", "unit": "samples/s",
    "notes": "Adagrad; embedding tables 104.54 GiB in total", "strategy": "data-parallel MLP + model-parallel embeddings, pipelined",
}  # fmt: skip
WIDE = {**EXAMPLE, "model": "WideAndDeep", "notes": "XLA=Yes", "batch_per_device": "16384", "devices": "8"}


def converted(row: dict[str, str], **more: str) -> Case | Skipped:
    (found,) = training.rows(iter([{**row, **more}]))
    return found


def case(row: dict[str, str], **more: str) -> Case:
    found = converted(row, **more)
    assert isinstance(found, Case), found
    return found


def reason(row: dict[str, str], **more: str) -> str:
    found = converted(row, **more)
    assert isinstance(found, Skipped), found
    return found.reason


class TestExamples:
    @pytest.mark.parametrize(
        ("size", "workload"),
        [("small", "dlrm-criteo-t15"), ("large", "dlrm-criteo-t3"), ("extra large", "dlrm-criteo-t0")],
    )
    def test_sizes_are_data_sets(self, size: str, workload: str) -> None:
        found = case(EXAMPLE, model=f"DLRM_and_DCNv2/doc [Model size: {size}]")
        assert (found.workload, found.strategy, found.microbatch) == (workload, "tensorflow-xla", 65536)
        assert ("strategy.tables.slice" in found.overrides) == (size == "extra large")

    def test_dcn_is_told_by_its_document(self) -> None:
        found = case(EXAMPLE, address="https://example.org/doc/DCNv2.md").overrides
        assert found["workload.model.cross.rank"] == 512
        assert found["workload.model.updates"] == "adam"
        assert "workload.model.cross.rank" not in case(EXAMPLE).overrides

    def test_pytorch_runs_graphs_and_sparse_updates(self) -> None:
        found = case(EXAMPLE, model="DLRM [Model size: small]", framework="PyTorch", devices="8", batch_per_device="8k",
                     strategy="hybrid: model-parallel embeddings + data-parallel MLP")  # fmt: skip
        assert (found.strategy, found.global_batch) == ("data-parallel-graphs", 65536)
        assert found.overrides == {"strategy.tables.update": "sparse", "strategy.tables.overlap": "none"}
        assert "one rank" in found.notes

    @pytest.mark.parametrize(("printed", "told"), [("", "not stated"), ("8k/16k", "is 8k/16k")])
    def test_batches_that_are_no_number(self, printed: str, told: str) -> None:
        assert told in reason(EXAMPLE, batch_per_device=printed)

    def test_wide_and_deep_has_all_tables_on_each_rank(self) -> None:
        found = case(WIDE)
        assert (found.workload, found.strategy) == ("wide-and-deep-outbrain", "tensorflow-xla")
        assert found.overrides["strategy.tables.by"] == "replicated"
        assert case(WIDE, notes="XLA=No").strategy == "tensorflow"

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"table": "Evaluation performance results"}, "the forward pass alone"),
            ({"framework": "TensorFlow1"}, "hash ids"),
            ({"model": "SIM"}, "history"),
            ({"model": "DLRM [Model size: huge]"}, "size of the model"),
        ],
    )
    def test_what_is_no_case_says_why(self, changes: dict[str, str], told: str) -> None:
        assert told in reason({**WIDE, **changes})


class TestMlperf:
    def test_one_host_copies_small_tables_and_several_spread_rows(self) -> None:
        one, many = case(LOG), case(LOG, devices="64", batch_per_device="2112", batch_global="135168")
        assert (one.workload, one.strategy, one.precision) == ("dlrm-dcnv2", "hugectr", "fp16")
        assert not one.overrides
        assert many.overrides["strategy.tables.by"] == "table-row"

    def test_the_first_round_of_dcn_copied_none(self) -> None:
        assert case(LOG, source="MLPerf Training v3.0").overrides == {"strategy.tables.copied": "0 B"}

    def test_a_rack_of_nvlink_is_one_host(self) -> None:
        found = case(LOG, device="NVIDIA Blackwell GPU (GB200)", devices="64", devices_per_node="4")
        assert (found.hardware, dict(found.overrides)) == ("gb200-nvl72", {})

    def test_dlrm_in_pytorch_is_another_program(self) -> None:
        old = {"source": "MLPerf Training v1.0", "model": "dlrm"}
        hugectr = case(LOG, **old)
        assert (hugectr.strategy, dict(hugectr.overrides)) == ("hugectr", {"strategy.tables": "hybrid"})
        assert case(LOG, **old, framework="PyTorch NVIDIA Release 21.05").strategy == "data-parallel-graphs"

    def test_epochs_and_boards_that_the_library_lacks(self) -> None:
        assert "evaluation" in reason(LOG, metric="time_per_epoch", unit="s")
        assert reason(LOG, device="NVIDIA H200-NVL-141GB") == "the library has no machine of NVIDIA H200-NVL-141GB"


class TestTorchrec:
    def test_the_optimiser_stands_in_the_notes(self) -> None:
        found = case(TORCHREC)
        assert (found.workload, found.hardware, found.precision) == ("dlrm-torchrec", "aws-p4d-24xlarge", "tf32")
        assert found.overrides["workload.model.updates"] == "adagrad"
        assert case(TORCHREC, notes="SGD").overrides["workload.model.updates"] == "sgd"

    def test_dcn_crosses(self) -> None:
        assert case(TORCHREC, model="DLRM (DCN v2 interaction)").overrides["workload.model.cross.layers"] == 3

    def test_the_time_of_an_epoch_repeats_its_rate(self) -> None:
        assert reason(TORCHREC, metric="time_per_epoch", unit="s") == "the throughput of the same run is a case"


def test_every_name_is_in_the_library() -> None:
    for found in (case(EXAMPLE), case(WIDE), case(LOG), case(TORCHREC)):
        assert found.workload in names("workloads")
        assert found.strategy in names("strategies")


def test_tables_of_torchrec_have_the_size_that_it_prints() -> None:
    """104.54 GB of fp32 (its read-me says GiB)."""
    model = find("workloads", "dlrm-torchrec").model
    assert sum(4 * shape.rows * shape.width for shape in model.shapes) == pytest.approx(104.54e9, rel=1e-4)


def test_tables_of_the_largest_example_have_the_size_that_it_prints() -> None:
    model = find("workloads", "dlrm-criteo-t0").model
    assert sum(4 * shape.rows * shape.width for shape in model.shapes) / 2**30 == pytest.approx(421, abs=0.5)
