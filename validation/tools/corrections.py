"""What a table leaves out or says otherwise than its source does, by the row's id; each with where it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfmodel.specs.measurement import FlopConvention

_SCRIPT = "benchmarks/mfu_scaling/mfu_bench.sh of KempnerForge"
_LIGHTNING = "src/megatron/bridge/perf_recipes/nemotronh/gb200/nemotronh.py of Megatron-Bridge at 067f987"
_CONFIGS = "configs/train of KempnerForge, by the name of the run"
_LORA = "of benchmarks/llama2_70b_lora, which includes config_common_fp4.sh"

CORRECTIONS: dict[str, tuple[dict[str, str], str]] = {
    "kempnerforge-001": (
        {"microbatch": "2"},
        f"--train.batch_size=2 in {_SCRIPT}; its report prints 4 for all runs of 7B",
    ),
    "kempnerforge-007": ({"microbatch": "8"}, f"7b.toml in {_CONFIGS}"),
    "kempnerforge-008": ({"microbatch": "4"}, f"7b_12gpu_tp4.toml in {_CONFIGS}"),
    "kempnerforge-009": ({"microbatch": "4"}, f"7b_32gpu_fsdp.toml in {_CONFIGS}"),
    "kempnerforge-010": ({"microbatch": "4"}, f"13b_32gpu_tp4_pp2.toml in {_CONFIGS}"),
    "megatron-bridge-007": (
        {
            "notes": "cuda graph transformer_engine ['attn', 'mamba', 'moe_router', 'moe_preprocess']; MoE dispatcher hybridep"
        },
        _LIGHTNING,
    ),
    "kempnerforge-011": ({"microbatch": "1"}, f"70b_32gpu_tp4_pp4.toml in {_CONFIGS}"),
    "mlperf-training-137": (
        {"precision": "fp4", "cp": "2", "dp": "4"},
        f"Dell's config_1xXE9680Lx8B200-SXM-180GB.sh {_LORA}; two microbatches, as its log says",
    ),
    "mlperf-training-178": ({"precision": "fp4"}, f"Nebius' configs/nebius_b300_n1 {_LORA}"),
}
"""Cells, and their source."""

MEMORY: dict[str, tuple[str, str]] = {
    # max over nodes of nvidia-smi (chronicles-prequel.md)
    "bigscience": ("device", ""),
    # used / total of the device, as nvidia-smi prints them
    "flagperf": ("device", ""),
    # the share of the device's memory that rocm-smi prints
    "amd-primus": ("device", ""),
    # torch.cuda.max_memory_allocated (metrics/memory.py), in GiB
    "kempnerforge": ("allocated", "first"),
    # allocated_bytes.all.peak of the rank that writes for TensorBoard, the last one (global_vars.py)
    "megatron-golden": ("allocated", "last"),
    # the paper's formula
    "megatron-recompute": ("states", "first"),
    "simumax-b200": ("allocated", ""),
    # max_reserved of the device memory monitor
    "torchtitan": ("reserved", ""),
    "nanotron": ("reserved", ""),
}
"""What each source's memory is, and of which pipeline stage; sources that are not here print what tensors take at most."""

CONVENTIONS: dict[str, FlopConvention] = {
    # Liu et al., 2025, section 4: half of the score matrix, as Megatron-Bridge counts
    "moe-parallel-folding": "causal",
}
"""How sources count FLOP whose rates are their only figures, where not under full attention."""
