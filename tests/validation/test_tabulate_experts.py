"""Rows of mixtures of experts: which model they mean, and what their notes say of routing."""

from __future__ import annotations

from typing import Any

import pytest

from validation.tools import llm
from validation.tools.cases import Case, Skipped
from validation.tools.llm import recomputed_modules

MIXTRAL = {
    "source": "Some Lab", "address": "https://example.org/a", "table": "Table 1", "date": "2026-06-22", "seq_len": "4096",
    "hardware": "H100-SXM5-80GB", "device_mem_gb": "80", "devices": "32", "devices_per_node": "8", "interconnect": "NVLink4",
    "tp": "1", "pp": "1", "vpp": "1", "dp": "32", "cp": "1", "sp": "0", "zero_stage": "1", "microbatch": "1",
    "global_batch": "512", "tokens_per_s_per_device": "9000", "kind": "pretrain", "usable": "yes", "split": "test",
    "model": "mixtral-8x7b", "family": "moe-llama", "layers": "32", "hidden": "4096", "ffn_hidden": "14336", "heads": "32",
    "kv_heads": "8", "head_dim": "128", "vocab": "32000", "experts": "8", "top_k": "2", "moe_ffn": "14336", "ep": "8",
    "framework": "Megatron-Bridge (NeMo 26.06)", "recompute": "none", "precision": "bf16", "attention_impl": "",
}  # fmt: skip
DEEPSEEK = {
    **MIXTRAL, "model": "deepseek-v3", "family": "deepseek", "layers": "61", "hidden": "7168", "ffn_hidden": "18432",
    "heads": "128", "kv_heads": "128", "vocab": "129280", "experts": "256", "top_k": "8", "moe_ffn": "2048",
}  # fmt: skip


def case(**row: str) -> Case:
    (found,) = llm.rows(iter([row]))
    assert isinstance(found, Case), found
    return found


def reason(**row: str) -> str:
    (found,) = llm.rows(iter([row]))
    assert isinstance(found, Skipped), found
    return found.reason


def overrides(row: dict[str, str], **changes: str) -> dict[str, Any]:
    return dict(case(**{**row, **changes}).overrides)


def test_a_mixture_of_the_library_is_named() -> None:
    found = case(**MIXTRAL)
    assert (found.workload, found.ep, dict(found.overrides)) == ("mixtral-8x7b", 8, {})


def test_what_a_row_prints_otherwise_overrides_it() -> None:
    found = overrides(DEEPSEEK, layers="4", notes="reduced-depth model; 1 dense layer")
    assert found["workload.model.layers"] == 4
    assert found["workload.model.experts.dense_first"] == 1
    assert found["workload.model.future_tokens"] == 0


@pytest.mark.parametrize(
    ("notes", "path", "value"),
    [
        ("forced-balanced routing", "workload.model.experts.imbalance", 1.0),
        ("token-drop", "workload.model.experts.capacity", 1.0),
        ("MoE dispatcher hybridep", "strategy.dispatcher", "deduplicated"),
        ("moe-token-dispatcher-type=allgather", "strategy.dispatcher", "all-gather"),
        ("EP all-to-all overlap", "strategy.expert_overlap", "passes"),
        ("expert-tensor-parallel-size=2", "strategy.etp", 2),
    ],
)
def test_notes_say_how_tokens_were_routed(notes: str, path: str, value: object) -> None:
    assert overrides(MIXTRAL, notes=notes)[path] == value


def test_recipes_of_nemo_split_no_expert() -> None:
    assert overrides(DEEPSEEK, tp="2", dp="16")["strategy.etp"] == 1
    assert "strategy.etp" not in overrides(MIXTRAL, tp="2", dp="16")


def test_experts_are_launched_one_by_one_without_a_cuda_graph() -> None:
    assert case(**MIXTRAL).strategy == "nemo-eager"
    assert case(**{**MIXTRAL, "notes": "cuda graph full_iteration []"}).strategy == "nemo"
    graph = "cuda graph transformer_engine"
    assert case(**{**MIXTRAL, "notes": f"{graph} ['attn', 'moe_router', 'moe_preprocess']"}).strategy == "nemo-graphs"
    assert case(**{**MIXTRAL, "notes": f"{graph} ['moe_router', 'moe_preprocess']"}).strategy == "nemo-eager"


def test_rows_that_drop_tokens_by_a_capacity_place_them_by_masks() -> None:
    found = overrides(MIXTRAL, notes="capacity-factor dropped routing")
    assert found["strategy.permutation"] == "one-hot"
    assert found["workload.model.experts.capacity"] == 1.25


@pytest.mark.parametrize(
    ("row", "degrees", "rule"),
    [
        (DEEPSEEK, {"pp": "4", "vpp": "4", "dp": "2"}, "last-fewer"), (DEEPSEEK, {"pp": "8", "vpp": "4", "dp": "1"}, "ends-fewer"),
        (MIXTRAL, {"pp": "4", "vpp": "3", "dp": "8"}, "ends-fewer"), (MIXTRAL, {"pp": "4", "vpp": "4", "dp": "8"}, None),
    ],
)  # fmt: skip
def test_layers_that_do_not_divide(row: dict[str, str], degrees: dict[str, str], rule: str | None) -> None:
    assert overrides(row, **degrees).get("strategy.stage_layers") == rule


def test_chunks_mean_nothing_without_a_pipeline() -> None:
    assert case(**{**MIXTRAL, "vpp": "12"}).vpp is None


def test_a_mixture_that_a_test_made_up_overrides_a_generic_model() -> None:
    notes = "moe-layer-freq=([0]*4+[1]*9); mtp-num-layers=1"
    found = case(
        **{
            **MIXTRAL,
            "model": "tiny",
            "family": "moe-gpt",
            "framework": "Megatron-LM (CI golden values)",
            "notes": notes,
        }
    )
    assert found.workload == "generic-gpt"
    expected = {"count": 8, "top_k": 2, "ffn_hidden": 14336, "dense_first": 4}
    assert {name: found.overrides[f"workload.model.experts.{name}"] for name in expected} == expected
    assert found.overrides["workload.model.future_tokens"] == 1


def test_a_mixture_without_its_widths_is_no_case() -> None:
    unknown = {**DEEPSEEK, "model": "tiny", "framework": "Megatron-LM (CI golden values)"}
    assert reason(**unknown) == "mixture of experts whose shape is not stated in full"


@pytest.mark.parametrize(
    ("printed", "ours"),
    [
        ("selective: mla_up_proj", "latent"), ("selective: layernorm+moe_act", "norms+activations"),
        ("selective [moe_act]", "activations"), ("selective: mlp", "mlp"), ("selective: moe", ""),
        ("selective (norm + activation function)", "norms+activations"), ("selective", ""), ("none", ""),
    ],
)  # fmt: skip
def test_modules_that_are_recomputed_by_name(printed: str, ours: str) -> None:
    assert recomputed_modules(printed) == ours


HYBRID = {
    **MIXTRAL, "model": "Nemotron_3_Super", "family": "hybrid", "recompute": "", "precision": "mxfp8", "hardware": "GB300",
    "devices_per_node": "4", "device_mem_gb": "", "usable": "no", "completeness": "thin", "check": "layout-ok", "ep": "32",
    **dict.fromkeys(("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "head_dim", "vocab", "experts", "top_k", "moe_ffn"), ""),
}  # fmt: skip
"""A model with state-space layers, of which tables print the name alone."""


class TestHybrids:
    def test_the_library_knows_the_shape(self) -> None:
        found = case(**HYBRID)
        assert found.workload == "nemotron-3-super-120b-a12b"
        assert found.strategy == "nemo-eager"
        assert found.overrides == {"workload.model.experts.imbalance": 1.0, "strategy.dispatcher": "deduplicated"}

    def test_tensor_ranks_split_no_expert_and_hide_no_more_than_usual(self) -> None:
        found = case(**HYBRID | {"tp": "2", "dp": "16", "sp": "1"})
        assert found.overrides["strategy.etp"] == 1
        assert "strategy.tensor_overlap" not in found.overrides

    def test_a_hybrid_without_experts_runs_as_all_else(self) -> None:
        found = case(**HYBRID | {"model": "nemotron-h-56b", "ep": "1", "layers": "118", "ffn_hidden": "32768"})
        assert (found.workload, found.strategy, found.overrides) == ("nemotron-h-56b", "nemo", {})

    def test_one_that_nobody_has_described_is_left_out(self) -> None:
        assert reason(**HYBRID | {"model": "Nemotron_9"}) == "architecture hybrid, whose shape is not stated"
