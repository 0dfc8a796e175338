"""Tables of training runs become cases: what rates and times mean, which machine and which batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.library import names
from perfmodel.specs.measurement import read_measurements
from validation.tools import tabulate, training
from validation.tools.cases import Case, Skipped, write
from validation.tools.training_names import GAVEL, LAMBDA, POLLUX, TF_CNN, TIMM, TORCH_CNN, TRAINING_RULES, obstacle
from validation.tools.training_studies import STUDIES, cards, study

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
STUDY_FOLDERS = Path(__file__).resolve().parents[2] / "validation"

ROW = {
    "source": "NVIDIA DeepLearningExamples", "address": "https://example.org/a", "table": "Training performance", "date": "2021",
    "model": "RN50v1.5", "task": "training", "framework": "MXNet", "hardware": "DGX-1", "device": "V100-SXM2-16GB",
    "devices": "8", "devices_per_node": "8", "interconnect": "NVLink2 hybrid cube-mesh", "precision": "mixed",
    "batch_per_device": "192", "batch_global": "", "strategy": "data-parallel", "metric": "throughput", "value": "10723.0",
    "unit": "images/s", "notes": "container=20.12", "split": "test",
}  # fmt: skip
"""One row of a study; the tests change what they are about."""

POLLUX_ROW = {
    "source": "Pollux (OSDI21) artifact traces", "model": "ResNet18 (CIFAR-10)", "device": "T4-16GB", "devices": "11",
    "devices_per_node": "4", "precision": "", "batch_per_device": "64", "metric": "step_time", "value": "0.2", "unit": "s",
    "notes": "placement 1433 (GPUs per node); sync_time=0.1 s",
}  # fmt: skip
DDL_ROW = {
    "source": "HKBU ddl-benchmarks (arXiv 2005.13247)", "model": "BERT-Large", "device": "", "devices": "32", "precision": "",
    "devices_per_node": "4", "interconnect": "10GbE with TCP/IP", "batch_per_device": "8", "unit": "samples/s", "value": "105.1",
    "strategy": "data parallel, no overlap (BSP); all-to-all (Horovod/NCCL)", "notes": "method BSP-A2A; +-0.5; 4 GPUs per node",
}  # fmt: skip
LOG = {
    "source": "MLPerf Training v2.0", "table": "NVIDIA / a / resnet", "model": "resnet", "device": "NVIDIA A100-SXM4-80GB",
    "devices": "16", "precision": "", "interconnect": "NVLINK 3.0; Compute: 4x ConnectX-6 IB HDR 200Gb/Sec", "strategy": "",
    "batch_per_device": "204", "batch_global": "3264", "value": "50000", "unit": "as logged (samples/s for vision)",
    "notes": "division closed; 2 nodes; tracked_stats/throughput entry of log, median of runs",
}  # fmt: skip


def converted(*changes: dict[str, str]) -> list[Case | Skipped]:
    return list(training.rows(iter({**ROW, **change} for change in changes)))


def case(changes: dict[str, str] | None = None, **more: str) -> Case:
    found = converted({**(changes or {}), **more})[0]
    assert isinstance(found, Case), found
    return found


def reason(changes: dict[str, str] | None = None, **more: str) -> str:
    (found,) = converted({**(changes or {}), **more})
    assert isinstance(found, Skipped), found
    return found.reason


def test_its_header_is_known() -> None:
    assert tabulate.kind(ROW) == "training"


def test_a_rate_of_images_becomes_samples_per_second() -> None:
    found = case()
    assert (found.metric, found.value, found.unit) == ("samples_per_second", "10723.0", "samples/s")
    assert (found.workload, found.hardware, found.precision) == ("resnet-50", "dgx-1-v100-16gb", "fp16")
    assert (found.devices, found.dp, found.microbatch, found.global_batch) == (8, 8, 192, 1536)
    assert found.id == "deeplearningexamples-0001#samples_per_second"
    assert found.split == "test"


def test_rows_of_a_study_are_numbered_in_order_whether_cases_or_not() -> None:
    ids = [result.id for result in converted({}, {"metric": "time_to_train"}, DDL_ROW, {})]
    assert ids == [
        "deeplearningexamples-0001#samples_per_second", "deeplearningexamples-0002",
        "ddl-benchmarks-0001#samples_per_second", "deeplearningexamples-0003#samples_per_second",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "part"),
    [
        ("time_to_train", "convergence"),
        ("speedup", "ratio"),
        ("forward_time", "forward pass alone"),
        ("backward_time", "backward pass alone"),
    ],
)
def test_what_is_no_step_is_skipped_with_the_reason(metric: str, part: str) -> None:
    assert part in reason(metric=metric)


def test_units_that_count_something_else_are_skipped() -> None:
    assert reason(unit="tok/s") == "tok/s is no count of samples"


class TestExamples:
    def test_of_a_pair_of_batches_the_precision_takes_its_own(self) -> None:
        bert = {"model": "BERT", "table": "Fine-tuning training performance for SQuAD", "batch_per_device": "12,8"}
        assert case(bert).microbatch == 12
        assert case(bert, precision="FP32").microbatch == 8

    def test_accumulated_batches_are_divided_by_the_passes(self) -> None:
        found = case(
            model="BERT", batch_per_device="8192", notes="grad-accum=64; seq=128", framework="PaddlePaddle", precision="TF32",
            device="A100-SXM4-80GB", devices="1",
        )  # fmt: skip
        assert (found.microbatch, found.global_batch, found.seq_len) == (128, 8192, 128)
        assert found.overrides["workload.training.optimizer"] == "lamb"

    def test_passes_of_a_printed_global_batch_count(self) -> None:
        found = case(
            model="BERT", batch_per_device="60", batch_global="61440", notes="grad-accum=64; seq=128",
            device="V100-SXM3-32GB (450 W)", devices="16", devices_per_node="16",
        )  # fmt: skip
        assert (found.hardware, found.microbatch, found.global_batch) == ("dgx-2h", 60, 61440)

    def test_batches_from_bins_of_length_are_skipped(self) -> None:
        assert "LDDL" in reason(model="BERT", framework="PyTorch", notes="grad-accum=256; seq=512")

    def test_networks_that_the_library_lacks_say_why(self) -> None:
        assert "squeeze-and-excitation" in reason(model="ConvNets/se-resnext101-32x4d")
        assert "upsampling" in reason(model="nnUNet [Dimension: 2]")


class TestPollux:
    def test_an_uneven_placement_is_evened_out_over_its_nodes(self) -> None:
        found = case(POLLUX_ROW)
        assert (found.workload, found.hardware, found.precision) == ("resnet-18-cifar", "aws-g4dn-12xlarge", "fp32")
        assert found.overrides["hardware.network.0.devices"] == 3
        assert found.overrides["hardware.network.1.bandwidth"] == "2.08333 GB/s"
        assert (found.metric, found.unit, found.global_batch) == ("step_time", "s", 704)

    def test_full_nodes_are_the_machine_as_it_is(self) -> None:
        assert not case(POLLUX_ROW, devices="12", notes="placement 444 (GPUs per node)").overrides

    def test_between_two_nodes_is_one_flow_for_both_ways(self) -> None:
        found = case(POLLUX_ROW, devices="8", notes="placement 44 (GPUs per node)")
        assert found.overrides == {"hardware.network.1.bandwidth": "0.90625 GB/s"}

    def test_statistics_of_adam_divide_by_its_second_moment(self) -> None:
        loops = [case(POLLUX_ROW, model=name).overrides for name in ("NeuMF (MovieLens)", POLLUX_ROW["model"])]
        assert [found.get("strategy.weight_loop.operations") for found in loops] == [34, None]

    def test_one_device_needs_no_network(self) -> None:
        assert case(POLLUX_ROW, devices="1", notes="placement 1 (GPUs per node)").dp is None

    def test_neumf_is_a_study_of_its_own(self) -> None:
        assert study({**POLLUX_ROW, "model": "NeuMF (MovieLens)"})[0] == "pollux-ncf"


class TestDdl:
    def test_methods_are_presets_and_networks_machines(self) -> None:
        found = case(DDL_ROW)
        assert (found.strategy, found.hardware, found.seq_len) == ("all-reduce-after-backward", "pcie-4gpu-10gbe", 64)
        assert found.spread == "0.00476"

    @pytest.mark.parametrize(
        ("strategy", "preset"),
        [
            ("data parallel, no overlap (BSP); parameter server (BytePS)", "byteps-after-backward"),
            ("data parallel, wait-free backprop overlap; parameter server (BytePS)", "byteps"),
        ],
    )
    def test_byteps_has_servers(self, strategy: str, preset: str) -> None:
        assert case(DDL_ROW, notes="method BSP-PS", strategy=strategy).strategy == preset

    def test_servers_of_no_known_kind_are_skipped(self) -> None:
        words = "data-parallel PS (BytePS), compression onebit"
        assert (
            reason(DDL_ROW, notes="method BSP-PS", strategy=words)
            == "gradients that are compressed are not expressible"
        )
        unknown = reason(DDL_ROW, notes="method BSP-PS", strategy="parameter server")
        assert unknown == "which servers these are is not stated"

    def test_a_figure_of_one_device_counts_once(self) -> None:
        one = {**DDL_ROW, "devices": "1", "interconnect": ""}
        first, second = converted(one, {**one, "notes": "method WFBP-A2A"})
        assert isinstance(first, Case)
        assert isinstance(second, Skipped)


class TestMlperf:
    def test_cards_of_the_nodes_are_an_override(self) -> None:
        found = case(LOG)
        assert found.hardware == "dgx-a100-80gb"
        assert found.overrides == {"hardware.network.1.bandwidth": "12.5 GB/s"}
        assert found.precision == "fp16"

    def test_nodes_without_known_cards_are_skipped(self) -> None:
        assert reason(LOG, interconnect="NVLink") == "the network cards of the nodes are not stated"

    def test_epochs_without_evaluation_count_where_there_is_no_throughput(self) -> None:
        epoch = {
            **LOG, "metric": "time_per_epoch", "value": "50", "unit": "s",
            "notes": "division closed; epoch_start..epoch_stop; logged train_samples 1281167",
        }  # fmt: skip
        assert case(epoch).value == "25623.3"
        throughput, repeated = converted(LOG, epoch)
        assert isinstance(throughput, Case)
        assert isinstance(repeated, Skipped)
        assert "evaluation" in reason(epoch, notes="block_start..block_stop divided by epochs in block")

    @pytest.mark.parametrize(
        ("printed", "gbits"),
        [
            ("NVLink; 4xHDR", None),
            ("InfiniBand EDR; 2x ConnectX-5 IB EDR 100Gb/Sec", 200),
            ("NVLINK; Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s", 3200),
        ],
    )
    def test_only_cards_between_the_nodes_count(self, printed: str, gbits: float | None) -> None:
        assert cards(printed) == gbits


def test_iterations_per_second_are_inverted() -> None:
    found = case(
        source="Gavel (OSDI20) throughput tables", model="LM (batch size 20)", device="K80", devices="1", precision="FP32",
        metric="iterations_per_second", value="4", unit="steps/s", batch_per_device="20", devices_per_node="",
    )  # fmt: skip
    assert (found.metric, found.value, found.workload) == ("step_time", "0.25", "lstm-wikitext2")
    assert "1 / iterations per second" in found.notes
    assert found.overrides["strategy.input.when"] == "before"  # its DataLoader has no workers


def test_passes_without_an_optimiser_keep_their_unit_and_say_so() -> None:
    found = case(
        source="jcjohnson/cnn-benchmarks", model="VGG-16", device="GTX 1080 Ti", devices="1", precision="FP32", value="128",
        metric="forward+backward_time", unit="ms", framework="Torch7 cuDNN 5.1", batch_per_device="16",
    )  # fmt: skip
    assert (found.metric, found.value, found.unit) == ("step_time", "128", "ms")
    assert found.overrides["workload.training.optimizer"] == "sgd"
    assert "no optimiser step" in found.notes


def test_fp32_is_tf32_where_a_device_does_so_by_default() -> None:
    lambda_row = {
        "source": "Lambda deeplearning-benchmark", "model": "resnet50", "precision": "FP32 (TF32 where the GPU has it)",
        "devices_per_node": "",
    }  # fmt: skip
    assert case(lambda_row, device="A100 80GB PCIe", devices="2").precision == "tf32"
    assert case(lambda_row, device="V100 16GB", devices="2").precision == "fp32"


def test_images_of_timm_stand_in_the_notes() -> None:
    timm = {"source": "timm benchmark-train", "devices": "1", "device": "RTX 3090"}
    vision = case(timm, model="vit_tiny_patch16_384", notes="img 384, params 5.79 M").overrides
    assert vision["workload.model.patches.image"] == 384
    assert "workload.model.image" not in case(timm, model="resnet50", notes="img 224, params 25.56 M").overrides


def test_a_pipeline_keeps_its_micro_batches() -> None:
    found = case(
        source="torchgpipe benchmarks", model="ResNet-101", device="Tesla P40", devices="4", precision="", batch_per_device="",
        batch_global="5632", strategy="pipeline parallel GPipe, 4 stages, 256 micro-batches", unit="samples/s",
    )  # fmt: skip
    assert (found.strategy, found.pp, found.dp, found.microbatch, found.global_batch) == ("gpipe", 4, 1, 22, 5632)


def test_machines_that_the_library_lacks_are_a_reason() -> None:
    assert reason(device="Radeon VII", devices_per_node="") == "the library has no machine of Radeon VII"


def test_every_name_that_the_tables_map_to_is_in_the_library() -> None:
    models = [found for table in (TIMM, TF_CNN, TORCH_CNN, LAMBDA, GAVEL, POLLUX) for found in table.values()]
    assert {found.workload for found in models} <= set(names("workloads"))
    assert {rule.name for rule in TRAINING_RULES} <= set(names("hardware"))
    assert obstacle("anything else") == "the library has no workload anything else"


def test_a_written_study_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    cases, skipped = write(converted({}, POLLUX_ROW, DDL_ROW, LOG, {"metric": "speedup"}), path)
    assert (cases, skipped) == (4, 1)
    try:
        read = read_measurements(path)
    except InputError as error:  # pragma: no cover - shown where it fails
        pytest.fail(str(error))
    assert len(read) == 4


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside the checkout")
def test_the_committed_studies_are_what_the_table_gives(tmp_path: Path) -> None:
    results = tabulate.tabulate(SHARED / "training.csv.gz")
    studies = {name for _, name, _ in STUDIES} | {"misc"}
    assert {tabulate.study_of(result.id) for result in results} == studies
    for name in sorted(studies):
        path = tmp_path / name / "cases.csv"
        path.parent.mkdir()
        write([result for result in results if tabulate.study_of(result.id) == name], path)
        for file in ("cases.csv", "skipped.csv"):
            made, committed = (folder / name / file for folder in (tmp_path, STUDY_FOLDERS))
            assert made.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), f"{name}/{file}"
