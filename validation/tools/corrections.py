"""What a table leaves out or says otherwise than its source does, by the row's id; each with where it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfmodel.specs.measurement import FlopConvention

_SCRIPT = "benchmarks/mfu_scaling/mfu_bench.sh of KempnerForge"
_LIGHTNING = "src/megatron/bridge/perf_recipes/nemotronh/gb200/nemotronh.py of Megatron-Bridge at 067f987"
_FLAGPERF = "training/nvidia/llama3_8B-megatron/README.md of FlagPerf"
_CONFIGS = "configs/train of KempnerForge, by the name of the run"
_KWAI = "examples/atc24 of Megatron-Kwai, by the name of the run"
_BLOOM = (
    "train/tr11-176B-ml/tr11-176B-ml.slurm of bigscience at 003b250, --pp-partition-method 'type:transformer|embedding'"
)
_WEAK_SCALING = (
    "Table 1 of the SC 2021 paper, of the same models, layouts and batches three months later; not stated here"
)
_LORA = "of benchmarks/llama2_70b_lora, which includes config_common_fp4.sh"

CORRECTIONS: dict[str, tuple[dict[str, str], str]] = {
    **{
        f"flagperf-{row:03d}": ({"hardware": "A800-SXM4-80GB"}, f"machine in {_FLAGPERF}; its table says A100")
        for row in range(1, 7)
    },
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
    "megatron-kwai-030": ({"recompute": "full"}, f"3_run_7b_4gpus_origin_megatron.sh in {_KWAI}"),
    "megatron-kwai-032": ({"notes": "activation offload ratio alpha=0.1"}, f"2_run_7b_4gpus_ours.sh in {_KWAI}"),
    "megatron-kwai-033": ({"recompute": "full"}, f"3_run_7b_4gpus_origin_megatron.sh in {_KWAI}"),
    **{
        f"megatron-sc21-{row:03d}": (
            {
                "microbatch": str(samples),
                "notes": "microbatch of Table 1 assumed; model-parallel size alone is printed",
            },
            f"microbatch of {_WEAK_SCALING}",
        )
        for row, samples in zip(range(23, 33), (16, 16, 16, 8, 4, 2, 2, 1, 1, 1), strict=True)
    },
    "papers-misc-007": (
        {
            "notes": '"156 TFLOPs in our fastest configuration with A100"; ALiBi; first and last stage hold one layer fewer'
        },
        _BLOOM,
    ),
    "papers-misc-010": (
        {"global_batch": "1536"},
        "4 x 32 x 12 in configs/20B.yml of GPT-NeoX; the paper rounds 3.15 million tokens",
    ),
    "torchtitan-008": (
        {"microbatch": "4"},
        "as many microbatches as stages, of 32 sequences: torchtitan/parallelisms/pipelining_utils.py at 9dec370",
    ),
    "mlperf-training-137": (
        {"precision": "fp4", "cp": "2", "dp": "4"},
        f"Dell's config_1xXE9680Lx8B200-SXM-180GB.sh {_LORA}; two microbatches, as its log says",
    ),
    "mlperf-training-178": ({"precision": "fp4"}, f"Nebius' configs/nebius_b300_n1 {_LORA}"),
}
"""Cells, and their source."""

LAYERS_OF_A_CHUNK: dict[str, int] = {"megatron-kwai": 1}
"""Sources whose column of virtual stages holds the layers of one, as --num-layers-per-virtual-pipeline-stage takes them (PP_l of the
scripts of Megatron-Kwai, which its README names l); and that number where a row prints none (its runs of 7B)."""


def corrected(study: str, stem: str, cells: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row as its source means them.

    >>> corrected("megatron-kwai", "megatron-kwai-036", {"layers": "80", "pp": "8", "vpp": "2"})["vpp"]
    '5'
    """
    said = {**cells, **CORRECTIONS.get(stem, ({}, ""))[0]}
    layers, stages = said.get("layers", ""), said.get("pp", "")
    if study not in LAYERS_OF_A_CHUNK or not layers or not stages:
        return said
    each = int(said.get("vpp") or LAYERS_OF_A_CHUNK[study])
    return {**said, "vpp": str(int(layers) // (int(stages) * each))}


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
