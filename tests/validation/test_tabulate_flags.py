"""Flags and code that tell more of a run than its row: Megatron-LM's tests, nanotron's stages, JAX's scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from validation.tools import llm
from validation.tools.cases import Case, Skipped
from validation.tools.flags import flags, layout

RUN = {
    "source": "Some Lab", "date": "2026-08-22", "model": "gpt-1.7B", "family": "gpt", "layers": "24", "hidden": "2304",
    "ffn_hidden": "9216", "heads": "24", "seq_len": "2048", "hardware": "H100-SXM5-80GB", "device_mem_gb": "80", "devices": "32",
    "devices_per_node": "8", "tp": "1", "pp": "1", "dp": "32", "cp": "1", "microbatch": "1", "global_batch": "512",
    "precision": "bf16", "recompute": "none", "step_time_s": "1", "usable": "yes", "split": "test", "vocab": "51200",
}  # fmt: skip
GOLDEN = {**RUN, "framework": "Megatron-LM (CI golden values)", "vocab": ""}


def case(**row: str) -> Case:
    found = next(llm.rows(iter([row])))
    assert isinstance(found, Case), found
    return found


def golden(test: str, **changes: str) -> Case:
    return case(**{**GOLDEN, "notes": f"test case {test}, env dev", **changes})


def test_a_null_tokenizer_has_the_vocabulary_of_its_flag() -> None:
    found = golden("gpt/gpt3_7b_tp1_pp4_memory_speed")
    assert dict(found.overrides)["workload.model.vocabulary"] == 131200
    assert dict(found.overrides)["workload.model.tied"] is False


@pytest.mark.parametrize(("dp", "group"), [("4", 2), ("2", 1)])
def test_instances_of_the_optimizer_share_the_replicas(dp: str, group: int) -> None:
    test = "gpt/gpt3_mcore_te_tp2_pp1_resume_torch_dist_multi_dist_optimizer_instances"
    assert golden(test, dp=dp, devices=dp, zero_stage="1").shard_group == group


def test_layers_of_stages_are_told_or_drawn() -> None:
    told = golden("gpt/gpt3_mcore_te_tp1_pp4_vp1_uneven_pipeline", layers="12", pp="4", vpp="")
    assert dict(told.overrides)["strategy.stage_layers"] == "2-4-4-2"
    drawn = golden("moe/some_scoped_cudagraph", layers="13", pp="2", vpp="")
    assert (drawn.vpp, dict(drawn.overrides)["strategy.stage_layers"]) == (4, "1-2-2-2-2-2-2-0")
    assert layout("no flag") == ()


def test_a_teacher_of_unknown_shape_is_a_reason() -> None:
    notes = "test case gpt/gpt3_mcore_te_tp2_pp1_modelopt_distill_resume, env dev"
    found = next(llm.rows(iter([{**GOLDEN, "notes": notes}])))
    assert isinstance(found, Skipped)
    assert "second model" in found.reason


def test_other_notes_name_no_test() -> None:
    assert not flags("overlap-grad-reduce=True; some text")


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ({"layers": "16", "hidden": "2048", "ffn_hidden": "8192", "vocab": "131072", "pp": "2"}, "11-5"),
        ({"layers": "28", "hidden": "3072", "ffn_hidden": "8192", "vocab": "131072", "pp": "2"}, "16-12"),
        ({"layers": "32", "hidden": "4096", "ffn_hidden": "14336", "vocab": "131072", "pp": "4"}, "9-9-8-6"),
        ({"layers": "32", "hidden": "4096", "ffn_hidden": "14336", "vocab": "131072", "pp": "1"}, None),
    ],
)
def test_nanotron_cuts_by_the_weights_of_products(shape: dict[str, str], sizes: str | None) -> None:
    row = {**RUN, "framework": "nanotron", "family": "llama", **shape}
    assert dict(case(**row).overrides).get("strategy.stage_layers") == sizes


@pytest.mark.parametrize(
    ("framework", "preset", "precision"),
    [
        ("Pax (dgxc-benchmarking v24.11.1)", "jax-gpu", None),
        ("MaxText (JAX/XLA)", "jax-gpu", "fp32"),
        ("MaxText (dgxc-benchmarking v24.11.1)", "maxtext-fsdp", None),
    ],
)
def test_a_scheduler_without_profile_hides_nothing(framework: str, preset: str, precision: Any) -> None:
    found = case(**{**RUN, "framework": framework})
    assert found.strategy == preset
    assert dict(found.overrides).get("strategy.gradient_precision") == precision
