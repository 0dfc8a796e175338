"""What scripts and read-mes of a study say of its runs that its table leaves out, as overrides of the case.

Each habit was read in the source that stands beside it; it holds for all rows that its pattern finds, of both splits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | int | float | bool

KWAI = "https://github.com/kwai/Megatron-Kwai/tree/6c1ff864f67f/examples/atc24"
DEEPSPEED = "https://github.com/deepspeedai/DeepSpeed/blob/12a53b43833b/deepspeed/runtime/zero/partition_parameters.py"
LAUNCHER = "https://github.com/NVIDIA/NeMo-Framework-Launcher/tree/24.07"
DGXC = "https://github.com/NVIDIA/dgxc-benchmarking/tree/v25.05"
NEMO = "https://github.com/NVIDIA/NeMo/tree/7a8f1cc7bc40"
FLAGPERF = "https://github.com/FlagOpen/FlagPerf/tree/1b5a0303/training"


TUNED: Mapping[str, Mapping[str, Value]] = {
    r"^llama2-13b SFT; NeMo 24": {"strategy.vpp": 10},
    r"^llama2-70b SFT; NeMo 24": {"strategy.vpp": 20, "strategy.tensor_overlap": "passes"},
    r"^llama2-70b LoRA; NeMo 24": {"strategy.sequence_parallel": False},
}
"""Fine-tuning by the launcher's scripts."""


@dataclass(frozen=True, slots=True)
class Habit:
    """Overrides of the rows of one study whose model, framework, machine, date and table a pattern finds."""

    study: str
    run: str
    overrides: Mapping[str, Value]
    source: str


HABITS: tuple[Habit, ...] = (
    Habit(
        "megatron-kwai", "",
        {"strategy.attention": "flash-2"},
        f"flash-attn 2 called by its own megatron/model/transformer.py, of January 2024; {KWAI}/pretrain_llama.sh",
    ),
    Habit(
        "megascale", r"; Megatron-LM;",
        {"strategy.pipeline_overlap": "none"},
        "Overlapping sends between stages is a step of the paper's ablation table from Megatron-LM to MegaScale, arXiv:2402.15627",
    ),
    Habit(
        "flagperf", r"^llama3_\S+; Megatron-LM",
        {
            "strategy.attention": "flash-2", "workload.model.positions": "learned", "workload.model.bias": True,
            "workload.model.dropout": True, "workload.model.tied": True,
        },
        f"pretrain_llama3.sh leaves Megatron-LM's defaults of positions, biases, dropout and output layer; {FLAGPERF}/benchmarks",
    ),
    Habit(
        "flagperf", r"^mixtral\S*; Megatron-LM",
        {"strategy.dispatcher": "all-gather", "strategy.expert_kernels": "grouped"},
        f"megatron_main.sh sets no dispatcher, whose default is allgather, and --moe-grouped-gemm with grouped_gemm; {FLAGPERF}/benchmarks/mixtral_8x7B",
    ),
    Habit(
        "flagperf", r"^llama2_70b; Megatron-LM",
        {"strategy.attention": "flash-2"},
        f"read-me, optimisations; {FLAGPERF}/nvidia/llama2_70B-megatron",
    ),
    Habit(
        "flagperf", r"^llama1_7b; PaddlePaddle; A100-SXM4-40GB",
        {"strategy.elementwise": "composed"},
        f"use_fused_rms_norm=False in the read-me's table; {FLAGPERF}/nvidia/llama1_7B-paddle",
    ),
    Habit(
        "megatron-kwai", "",
        {"strategy.context": "all-gather"},
        f"DAttentionPreFunction gathers keys and values; {KWAI}/../../megatron/core/context_parallel/dattention.py",
    ),
    Habit(
        "mlperf-training", r"LoRA.*; (?!MI)[^;]*; 202(4-11|5-)",
        {"strategy.context": "ulysses"},
        "CP_COMM_TYPE of conf/megatron_gpt_peft_tuning_config.yaml is a2a in round 5.1, absent in 4.0 and taken to be as in 5.1 in 4.1 and 5.0; "
        "https://github.com/mlcommons/training_results_v5.1/tree/4da2d1cd71eb/Dell/benchmarks/llama2_70b_lora/implementations/nemo",
    ),
    Habit(
        "dgxc-benchmarking", r"^(grok1|deepseek-v3)",
        {"workload.model.experts.imbalance": 1.0, "workload.model.experts.capacity": 1.0},
        "moe_expert_capacity_factor and moe_pad_expert_input_to_capacity of grok1/grok1_314b.yaml at v24.11.1 and v25.02, MegatronTokenDropCallback of "
        f"pretrain_grok1_314b.py and pretrain_deepseek_v3.py since, {NEMO}/scripts/performance/llm",
    ),
    Habit(
        "llm-foundry", r"^mpt-(1b|3b|7b|70b);.*Large Scale",
        {"strategy.attention": "flash-2"},
        "attn_impl of scripts/train/benchmarking/sweep.py, which came with that table; https://github.com/mosaicml/llm-foundry/tree/5e85bd62d4ec",
    ),
    Habit(
        "dgxc-benchmarking", r"^grok1",
        {"strategy.permutation": "indexed"},
        f"no moe_permute_fusion in grok1/grok1_314b.yaml or pretrain_grok1_314b.py, whose default is false, {NEMO}",
    ),
    Habit(
        "dgxc-benchmarking", r"^grok1.*v25\.05[^;]*; H100",
        {"strategy.etp": 1},
        f"ET of grok1/launch.sh, {DGXC}",
    ),
    Habit(
        "dgxc-benchmarking", r"^grok1.*v25\.05[^;]*; GB200",
        {"strategy.etp": 8},
        f"likewise, {DGXC}",
    ),
    Habit(
        "dgxc-benchmarking", r"^deepseek-v3.*; H100",
        {"strategy.recompute_modules": "latent"},
        f"RM of deepseek_v3/pretraining/launch.sh, {DGXC}",
    ),
    Habit(
        "dgxc-benchmarking", r"^deepseek-v3.*; GB200",
        {"strategy.recompute_modules": "core"},
        f"likewise, {DGXC}",
    ),
    *(
        Habit(
            study, run, overrides,
            f"examples/peft/llama/h100, which the read-me's figures were run with, {LAUNCHER}",
        )
        for study in ("nemo-docs", "nemo-launcher")
        for run, overrides in TUNED.items()
    ),
    *(
        Habit(
            study, run,
            {"strategy.gradient_precision": "fp32"},
            "examples/training at 24.01 and 24.03 leave grad_sync_dtype to the optimiser, which takes fp32; those at 24.05 and 24.07 set bf16 but for "
            f"Nemotron; {LAUNCHER}/examples/training",
        )
        for study, run in (
            ("nemo-launcher", r"^(?!.*(SFT|LoRA)).*; NeMo 24\.0[13];|^nemotron3"), ("nemo-docs", r"^nemotron3\S*; NeMo 24"),
        )
    ),
    *(
        Habit(
            study, r"^[^;]*; [^;]*(ZeRO-3|HF Transformers \+ DeepSpeed)",
            {"strategy.part_copy": "10 us"},
            f"DeepSpeed before 0.5.5 (November 2021): lists of parts, parameter by parameter; _allgather_param, _reduce_scatter_gradient, {DEEPSPEED}; "
            "the time of one is that of AdaptDL's loop over weights (strategies/adaptdl.yaml)",
        )
        for study in ("bigscience", "megatron-sc21")
    ),
)  # fmt: skip
"""All that fit hold."""


def habits(study: str, model: str, framework: str, device: str, date: str = "", table: str = "") -> dict[str, Value]:
    """What is known of a run beyond its row.

    Args:
        study: name of the study.
        model: as the table names it.
        framework: likewise.
        device: likewise.
        date: of the runs, as the table prints it.
        table: heading of the table.

    >>> habits("megatron-kwai", "llama2-70b", "Megatron-Kwai", "H800-SXM5-80GB")
    {'strategy.attention': 'flash-2', 'strategy.context': 'all-gather'}
    >>> habits("flagperf", "llama1_7b", "PaddlePaddle", "A100-SXM4-80GB")
    {}
    """
    run = f"{model}; {framework}; {device}; {date}; {table}"
    found: dict[str, Value] = {}
    for habit in HABITS:
        if habit.study == study and re.search(habit.run, run):
            found |= habit.overrides
    return found
