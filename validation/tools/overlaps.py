"""Whose messages of tensor parallelism travel piece by piece beside the products, Transformer Engine's userbuffers."""

from __future__ import annotations

import re

ALWAYS = r"Megatron-Bridge|^mlperf-training; .*(NeMo|NEMO|Nemo)"
"""Study and framework of recipes that turn them on for every model: --tp-comm-overlap of Megatron-Bridge's
(docs/training/communication-overlap.md), and TP_COMM_OVERLAP of config_common.sh in NVIDIA's of MLPerf."""
PRETRAINING = {
    r"^dgxc-benchmarking; NeMo": r"llama3\.1|gpt3|nemotron4|nemotron-h|grok1",
    r"NeMo 25": r"llama3\.1-405b|gpt3|nemotron4",
    r"NeMo 24": r"gpt3-20b|nemotron3|llama3-70b|llama2-70b",
}
"""Models whose recipes do: ub_tp_comm_overlap of dgxc-benchmarking's (llama3.1/*.yaml, nemo_megatron/gpt3_175b_hydra.yaml,
nemotron/configure.sh and grok1/configure.sh at v24.11.1 and v25.02; those since v25.04 are NeMo's), tp_comm_overlap of NeMo's
(nemo/collections/llm/recipes at v2.3.0, nemotronh_56b.py too; not of DeepSeek-V3 and Llama 4) and ub_tp_comm_overlap of NeMo-Framework-Launcher's
(launcher_scripts/conf/training at 24.05 and 24.07; not of gpt3/175b.yaml and llama/llama2_13b.yaml)."""
TUNING = r"\b(lora|sft)\b"
"""Fine-tuning, whose recipes do not (launcher_scripts/conf/peft; recipes of NeMo)."""


def pipelined(run: str, model: str, *, hybrid: bool, zero: int | None) -> bool:
    """Whether a run with tensor parallelism hides its messages so.

    Args:
        run: study and framework.
        model: as the table names it.
        hybrid: with state-space layers, for which Megatron-Bridge's recipes with tensor ranks leave it off (perf_recipes/nemotronh).
        zero: stage, if stated; NeMo turns it off beside FSDP (scripts/performance/utils.py at v2.3.0).

    >>> pipelined("nemo-docs; NeMo 24.07 (Megatron-Core)", "llama3-70b", hybrid=False, zero=1)
    True
    >>> pipelined("nemo-launcher; NeMo 24.05", "gpt3-175b", hybrid=False, zero=1)
    False
    """
    if re.search(ALWAYS, run):
        return not hybrid
    tuned = re.search(TUNING, model, re.IGNORECASE)
    known = any(re.search(software, run) and re.search(models, model) for software, models in PRETRAINING.items())
    return known and not tuned and zero != 3
