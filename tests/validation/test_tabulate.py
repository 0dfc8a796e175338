"""Published tables become measurement CSVs: every raw row ends as a case or is skipped with its reason."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.specs.measurement import HEADER, read_measurements
from validation.tools import llm, tabulate
from validation.tools.cases import COLUMNS, Case, Skipped, UnknownMachine, machine, write
from validation.tools.fabric import fabric_overrides
from validation.tools.shapes import Shape, named

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

ROW = {
    "source": "Some Lab", "address": "https://example.org/a", "table": "Table 1", "date": "2021-04-08", "model": "gpt-1.7B",
    "family": "gpt", "layers": "24", "hidden": "2304", "ffn_hidden": "9216", "heads": "24", "kv_heads": "24",
    "head_dim": "96", "vocab": "51200", "seq_len": "2048", "hardware": "A100-SXM4-80GB", "device_mem_gb": "80",
    "devices": "32", "devices_per_node": "8", "interconnect": "NVLink3", "tp": "1", "pp": "1", "vpp": "1", "dp": "32", "cp": "1",
    "sp": "0", "zero_stage": "0", "microbatch": "16.0", "global_batch": "512", "precision": "fp16",
    "recompute": "full (uniform, every layer)", "attention_impl": "fused softmax (no flash)",
    "framework": "Megatron-LM (commit 6985e58)", "tflops_per_device": "137", "tflops_convention": "hardware",
    "hfu": "0.44", "kind": "pretrain", "usable": "yes", "split": "test",
}  # fmt: skip
"""One usable row; the tests change what they are about."""


def converted(*changes: dict[str, str]) -> list[Case | Skipped]:
    return list(llm.rows(iter({**ROW, **change} for change in changes)))


def case(**changes: str) -> Case:
    found = converted(changes)[0]
    assert isinstance(found, Case), found
    return found


def reason(**changes: str) -> str:
    (found,) = converted(changes)
    assert isinstance(found, Skipped), found
    return found.reason


def test_columns_are_those_of_the_measurement_csv() -> None:
    assert COLUMNS == HEADER


def test_one_row_for_each_metric_under_one_stem() -> None:
    found = converted({}, {"step_time_s": "3.5"})
    assert [result.id for result in found] == [
        "some-lab-001#hardware_flops_per_device_per_second", "some-lab-001#hfu",
        "some-lab-002#step_time", "some-lab-002#hardware_flops_per_device_per_second", "some-lab-002#hfu",
    ]  # fmt: skip


def test_a_model_of_the_library_is_named_and_its_columns_are_taken_over() -> None:
    found = case()
    assert (found.workload, found.hardware, found.strategy) == ("megatron-1.7b", "dgx-a100-80gb", "megatron-2021")
    assert (found.dp, found.microbatch, found.global_batch, found.zero) == (32, 16, 512, 0)
    assert (found.recompute, found.attention, found.precision, found.sequence_parallel) == (
        "full",
        "unfused",
        "fp16",
        False,
    )
    assert (found.value, found.unit, found.split) == ("137", "TFLOP/s", "test")
    assert not found.overrides


def test_another_shape_is_a_generic_model_with_overrides() -> None:
    found = case(layers="3", vocab="1000", framework="Some new code")
    assert found.workload == "generic-gpt"
    assert found.strategy == ""
    assert found.overrides["workload.model.layers"] == 3
    assert found.overrides["workload.model.vocabulary"] == 1000


def test_what_the_notes_say_becomes_overrides() -> None:
    assert case(notes="DDP torch for PP=1 else local").overrides == {"strategy.gradient_overlap": "backward"}
    assert case(notes="DDP torch for PP=1 else local", pp="2", dp="16").overrides == {}
    assert case(notes="no grad/param overlap").overrides == {"strategy.gradient_overlap": "none"}


@pytest.mark.parametrize(
    ("change", "offload"),
    [
        ({"notes": "activation offload ratio alpha=0.522"}, "activations=host+activations_fraction=0.522"),
        ({"notes": "activation offload ratio alpha=1.0"}, "activations=host"),
        ({"notes": "activation offload ratio alpha=0.000"}, None),
        ({"notes": "activation CPU offload 6 layers"}, "activations=host+activations_fraction=0.25"),
        ({"notes": "no offload; partitioned activations checkpoint in CPU"}, "activations=host"),
        ({"notes": "CPU offload: optimizer offload, param offload"}, "optimizer=host+gradients=host+parameters=host"),
        ({"notes": "CPU offload: Opt Offl"}, "optimizer=host+gradients=host"),
        ({"notes": "CPU offload: none; ZeRO-3 with CPU offload capability"}, None),
    ],
)
def test_what_leaves_the_devices(change: dict[str, str], offload: str | None) -> None:
    assert case(**change).overrides.get("strategy.offload") == offload


def test_policies_of_jax_that_send_products_to_the_host() -> None:
    maxtext = {"framework": "MaxText", "dp": "32", "zero_stage": "3"}
    named = case(recompute="custom: decoder_layer_input=offload, query_proj=offload ; rest recomputed", **maxtext)
    assert named.overrides["strategy.offload"] == "activations=host"
    assert named.overrides["strategy.recompute_modules"] == "norms+core+output+mlp+activations"
    assert (
        case(recompute="qkv_proj_offloaded", **maxtext).overrides["strategy.offload"]
        == "activations=host+tensors=inside"
    )


def test_megatron_pads_a_vocabulary_and_assumes_one_where_none_is_printed() -> None:
    found = case(vocab="", tp="4", dp="8")
    assert found.overrides["workload.model.vocabulary"] == 50688
    assert found.notes == "vocabulary of GPT-2 assumed"
    assert reason(vocab="", framework="llm-foundry") == "vocabulary not stated"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "lora"}, "adapters"),
        ({"kind": "oom"}, "out of memory"),
        ({"experts": "8"}, "mixture of experts"),
        ({"family": "deepseek"}, "mixture of experts"),
        ({"family": "hybrid"}, "architecture hybrid"),
        ({"usable": "no", "check": "inconsistent:batch", "check_detail": "batch:-75.0%"}, "contradicts itself (batch): batch:-75.0%"),
        ({"usable": "no", "completeness": "thin", "notes": "no layout"}, "marked unusable (thin): no layout"),
        ({"notes": "ours; interleaving factor and offload ratio per README script"}, "how much of the activations"),
        ({"recompute": "custom: decoder_layer_input, mlpwo offloaded"}, "offloading"),
        ({"recompute": "selective (per-op SAC) of another kind"}, "recomputation"),
        ({"notes": "schedule V-half"}, "pipeline schedule V-half"),
        ({"hardware": "Abacus"}, "no machine of Abacus"),
        ({"precision": ""}, "precision not stated"),
        ({"global_batch": ""}, "global batch not stated"),
        ({"tflops_per_device": "", "hfu": ""}, "no metric"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_case_is_skipped_with_the_reason(change: dict[str, str], words: str) -> None:
    assert words in reason(**change)


def test_columns_that_the_table_derived_are_left_out() -> None:
    found = converted(
        {"step_time_s": "2.0", "tokens_per_s_per_device": "1000", "notes": "tokens/s/device derived from step time"}
    )
    assert found[0].id.endswith("#step_time")
    assert not any("tokens" in result.id for result in found)


@pytest.mark.parametrize(
    ("printed", "name"),
    [("bf16?", "bf16"), ("amp_bf16 (DEFAULT)", "bf16"), ("mxfp8", "fp8"), ("nvfp4", "fp4"), ("fp8-cs", "fp8")],
)
def test_precisions(printed: str, name: str) -> None:
    assert case(precision=printed).precision == name


@pytest.mark.parametrize(
    ("change", "zero", "group"),
    [
        ({"zero_stage": "1 (distributed optimizer)"}, 1, None),
        ({"zero_stage": "", "fsdp": "FULL_SHARD"}, 3, None),
        ({"zero_stage": "2", "fsdp": "SHARD_GRAD_OP"}, 2, None),
        ({"zero_stage": "", "fsdp": "no"}, None, None),
        ({"zero_stage": "3", "fsdp": "ici_fsdp=16"}, 3, 16),
        ({"zero_stage": "3", "fsdp": "ici_fsdp=32"}, 3, None),
        ({"zero_stage": "3", "fsdp": "1", "notes": "HSDP; none"}, 3, 8),
    ],
)
def test_sharding(change: dict[str, str], zero: int | None, group: int | None) -> None:
    found = case(**change)
    assert (found.zero, found.shard_group) == (zero, group)


def test_plain_megatron_is_dated() -> None:
    presets = [llm.strategy("Megatron-LM", date) for date in ("2020-09-11", "2022-05-10", "2024-08-01")]
    assert presets == ["megatron-2021", "megatron-2022", "megatron-core"]


def test_machines_are_told_apart_by_memory_hosts_and_links() -> None:
    assert machine("A100-SXM4-40GB", per_node=8) == "dgx-a100-40gb"
    assert machine("A100-SXM4-80GB", per_node=8, fabric="4 Omni-Path links") == "jean-zay-a100"
    assert machine("NVIDIA H100 80GB", memory=80) == "dgx-h100"
    with pytest.raises(UnknownMachine, match=r"it has .*dgx-a100-80gb"):
        machine("NVIDIA A100-PCIe-80GB", memory=80)


def test_a_network_that_differs_from_the_library_is_overridden() -> None:
    assert fabric_overrides("dgx-a100-80gb", "NVLink3 + 8x200Gb/s HDR IB per node", 64) == {}
    assert fabric_overrides("dgx-a100-80gb", "NVLink3 + 400Gb/s RoCE per node", 8) == {}
    assert fabric_overrides("dgx-h100", "NVLink4 + 800Gb/s per node", 96) == {
        "hardware.network.1.bandwidth": "12.5 GB/s"
    }


def test_a_fact_that_differs_is_no_model_of_the_library() -> None:
    llama = Shape("generic-llama", 32, 4096, 11008, 32, 32, 128, 32000)
    assert named(llama) == ("llama-2-7b", {})
    tied = replace(llama, facts=(("workload.model.tied", True),))
    assert named(tied)[0] == "generic-llama"
    assert named(tied)[1]["workload.model.tied"] is True


def test_the_file_written_can_be_read_as_measurements(tmp_path: Path) -> None:
    assert write(converted({}, {"layers": "3"}, {"kind": "lora"}), tmp_path / "cases.csv") == (4, 1)
    measured = [row.measurement for row in read_measurements(tmp_path / "cases.csv")]
    assert measured[0].measured == 137e12
    assert measured[2].sets["workload.model.layers"] == 3
    with (tmp_path / "skipped.csv").open(encoding="utf-8", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["some-lab-003"]


def test_twins_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two cases are called some-lab-001"):
        write([case(), case()], tmp_path / "cases.csv")


def test_the_command_reads_a_table_and_writes_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, row = tmp_path / "raw.csv", ROW | {"step_time_s": "3.5"}
    with raw.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerows([row, row | {"source": "Another"}])
    assert tabulate.main([str(raw), "-o", str(tmp_path / "lab" / "cases.csv"), "--study", "some-lab"]) == 0
    assert "3 cases, 0 rows skipped" in capsys.readouterr().err


def test_an_unknown_header_is_refused_with_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert tabulate.main([str(tmp_path / "raw.csv"), "-o", str(tmp_path / "cases.csv")]) == 2
    assert "a llm table lacks" in capsys.readouterr().err


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside the checkout")
@pytest.mark.parametrize("study", ["megatron-sc21", "maxtext"])
def test_the_committed_study_is_what_the_table_gives(study: str, tmp_path: Path) -> None:
    raw = SHARED / "llm" / f"{study}.csv"
    write(tabulate.tabulate(raw), tmp_path / "cases.csv")
    committed = Path(__file__).resolve().parents[2] / "validation" / study
    for name in ("cases.csv", "skipped.csv"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (committed / name).read_text(encoding="utf-8"), name


def test_schedules_of_tables_have_names_of_ours() -> None:
    assert case(notes="schedule ZB-1p").schedule == "zero-bubble-h1"
    assert case(notes="schedule 1F1B-I; interleaved").schedule == ""


def test_torchtitan_executes_every_other_product_again() -> None:
    found = case(framework="torchtitan (2024-12)", recompute="selective (per-op SAC)", notes="no torch.compile")
    assert found.recompute == "none"
    assert found.overrides["strategy.recompute_modules"] == "norms+output+gate+activations+heads"
    assert found.overrides["strategy.elementwise"] == "composed"


PARTIAL = {"usable": "no", "completeness": "partial", "microbatch": "", "split": "calibration"}


def test_what_stands_in_for_a_setting_is_told_and_no_constant_is_fitted_to_it() -> None:
    found = case(source="megascale", framework="Megatron-LM", **PARTIAL)
    assert (found.microbatch, found.split) == (1, "test")
    assert "(assumed)" in found.notes


def test_a_setting_that_is_printed_stands() -> None:
    assert case(source="megascale", framework="Megatron-LM", **PARTIAL | {"microbatch": "2"}).microbatch == 2


def test_nothing_stands_in_where_no_source_says_what() -> None:
    assert "marked unusable (partial)" in reason(**PARTIAL)


def test_a_source_that_halves_attention_says_so_beside_its_rates_alone() -> None:
    rates = {"tflops_convention": "model", "mfu": "0.4", "step_time_s": "3.5", "notes": "method MCore"}
    found = [c for c in converted({"source": "moe-parallel-folding", **rates}) if isinstance(c, Case)]
    assert {c.metric: c.convention for c in found} == {
        "step_time": None, "model_flops_per_device_per_second": "causal", "mfu": "causal", "hfu": "causal",
    }  # fmt: skip
