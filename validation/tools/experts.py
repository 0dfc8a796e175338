"""Mixtures of experts in tables of LLM training: which workload a row means, and how its tokens were routed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perfmodel.library import find
from perfmodel.specs.workload import Transformer
from validation.tools.flags import UNBALANCED

if TYPE_CHECKING:
    from validation.tools.llm import Line

Value = str | int | bool | float

MODELS: tuple[tuple[str, str], ...] = (
    (r"mixtral[-_]8x7b", "mixtral-8x7b"),
    (r"mixtral-8x22b-g8t8", "mixtral-8x22b-g8t8"),
    (r"mixtral-8x22b", "mixtral-8x22b"),
    (r"deepseek-?v3", "deepseek-v3"),
    (r"deepseek-v2-lite", "deepseek-v2-lite"),
    (r"deepseek-v2", "deepseek-v2"),
    (r"qwen3-30b", "qwen3-30b-a3b"),
    (r"qwen3-235b", "qwen3-235b-a22b"),
    (r"qwen2-57b", "qwen2-57b-a14b"),
    (r"llama3-8x70b", "llama-3-8x70b"),
    (r"gpt-oss-120b", "gpt-oss-120b"),
    (r"grok1", "grok-1"),
    (r"llama4-scout", "llama-4-scout"),
    (r"llama4-maverick", "llama-4-maverick"),
    (r"nemotron-h-56b", "nemotron-h-56b"),
    (r"nemotron_3_nano", "nemotron-3-nano-30b-a3b"),
    (r"nemotron_3_5_lightning", "nemotron-3.5-lightning-30b-a3b"),
    (r"nemotron_3_ultra", "nemotron-3-ultra-550b-a55b"),
    (r"nemotron_3_super", "nemotron-3-super-120b-a12b"),
)
"""Which workload the name of a model means; the first that is found in it."""

SHAPE: tuple[tuple[str, str], ...] = (
    ("layers", "layers"), ("hidden", "hidden"), ("ffn_hidden", "ffn_hidden"), ("heads", "heads"), ("vocab", "vocabulary"),
    ("experts", "experts.count"), ("top_k", "experts.top_k"), ("moe_ffn", "experts.ffn_hidden"),
)  # fmt: skip
"""Columns that a workload of the library must agree with, or else is overridden by."""

ROUTING: tuple[tuple[str, dict[str, Value]], ...] = (
    (r"force[d]?[- ]balanced|capacity factor 1\b|token-drop", {"workload.model.experts.imbalance": 1.0}),
    (r"capacity factor 1\b|token-drop", {"workload.model.experts.capacity": 1.0}),
    (r"capacity-factor dropped", {"workload.model.experts.capacity": 1.25, "strategy.permutation": "one-hot"}),
    (r"w/o MTP", {"workload.model.future_tokens": 0}),
    (r"MTP included|mtp-num-layers=1", {"workload.model.future_tokens": 1}),
    (r"dispatcher (hybridep|deepep)|\+DeepEP", {"strategy.dispatcher": "deduplicated"}),
    (r"dispatcher(-type)?[ =]all-?gather", {"strategy.dispatcher": "all-gather"}),
    (r"all-to-all overlap", {"strategy.expert_overlap": "passes"}),
    (r"(baseline|\+loss fusion|\+DeepEP|\+VPP3) \(cumulative", {"strategy.permutation": "indexed"}),
)
"""What notes say of experts; all that are found count. Google's recipes that drop tokens: capacity_factor 1.25, megablox False
(AI-Hypercomputer/tpu-recipes, training/trillium, Mixtral; benchmarks/maxtext_trillium_model_configs.py of MaxText)."""

LOOSE = 1.7
"""Imbalance with hardly any loss that balances (specs/experts.py)."""

BALANCED = 1.0
"""Imbalance of the hybrids in NVIDIA's recipes, which set moe_router_force_load_balancing (Megatron-Bridge, commit 067f987,
perf_recipes/nemotronh)."""

FUSED_PERMUTATION = "2025"
"""Year from which Megatron-Core sorts tokens by Transformer Engine's kernels (--moe-permute-fusion, MCore 0.10 and TE 2.0)."""

WHOLE_EXPERTS = r"(Megatron-Bridge|NeMo).*(deepseek|qwen3|gpt-oss|Nemotron_3)"
"""Recipes that split no expert: expert_tensor_parallel_size is 1 in those of Megatron-Bridge.

NVIDIA-NeMo/Megatron-Bridge, commit 067f987, src/megatron/bridge/perf_recipes; there too DeepEP or HybridEP carry what is
not dropped.
"""


RECIPES: tuple[tuple[str, tuple[str, str, str], dict[str, Value]], ...] = (
    (
        r"Megatron-Bridge.* deepseek-?v3 B200", ("8", "2", "32"),
        {"strategy.expert_overlap": "passes", "strategy.recompute_modules": "latent"},
    ),
)  # fmt: skip
"""What a recipe of Megatron-Bridge with this model, machine and (pp, vpp, ep) does where a row's notes are silent.

At the same commit, deepseek/b200/deepseek_v3.py; it recomputes the three dense layers' products too, which is left out.
"""


def is_mixture(line: Line) -> bool:
    """Whether a row is of a mixture of experts, or of attention as such models have."""
    family, known = line.text("family"), _known(line) if is_hybrid(line) else ""
    mixed = bool(known) and _model(known).experts is not None
    return mixed or (line.whole("experts") or 0) > 1 or family.startswith("moe") or family == "deepseek"


def is_hybrid(line: Line) -> bool:
    """Whether a row is of a model with state-space layers; tables name such a model and print no shape."""
    return line.text("family") == "hybrid"


def _known(line: Line) -> str:
    name = line.text("model").lower()
    return next((workload for pattern, workload in MODELS if re.search(pattern, name)), "")


def mixture_workload(line: Line) -> tuple[str, dict[str, Value]]:
    """A workload and what a row prints otherwise; empty where the library has no such model."""
    known = _known(line)
    if not known:
        return "", {}
    overrides: dict[str, Value] = {
        f"workload.model.{field}": value for field, value in _differences(line, known).items()
    }
    for pattern, facts in ROUTING:
        if line.notes(pattern):
            overrides |= {path: value for path, value in facts.items() if path.startswith("workload.")}
    dense = line.notes(r"(\d+) dense layer")
    if dense:
        overrides["workload.model.experts.dense_first"] = int(dense.group(1))
    if is_hybrid(line) and _model(known).experts:
        overrides["workload.model.experts.imbalance"] = BALANCED
    if line.whole("layers") not in {None, _model(known).layers} and _model(known).future_tokens:
        overrides.setdefault("workload.model.future_tokens", 0)
    return known, {path: value for path, value in overrides.items() if value != _held(known, path)}


def small_mixture(line: Line) -> dict[str, Value]:
    """The experts of a model that a test made up: generic but for what its row and its flags say."""
    found: dict[str, Value] = {
        f"experts.{field}": line.needed(column, f"mixture of experts: {words}")
        for column, field, words in (
            ("experts", "count", "their number"),
            ("top_k", "top_k", "experts of a token"),
            ("moe_ffn", "ffn_hidden", "their width"),
        )
    }
    dense = line.notes(r"moe-layer-freq=\(\[0\]\*(\d+)\+\[1\]\*\d+\)")
    if dense:
        found["experts.dense_first"] = int(dense.group(1))
    shared = line.notes(r"moe-shared-expert-intermediate-size=(\d+)")
    if shared:
        found["experts.shared_ffn_hidden"] = int(shared.group(1))
    if line.notes(UNBALANCED):
        found["experts.imbalance"] = LOOSE
    if line.notes(r"mtp-num-layers=1"):
        found["future_tokens"] = 1
    return {f"workload.model.{field}": value for field, value in found.items()}


def routing_overrides(line: Line) -> dict[str, Value]:
    """What notes say of how tokens travel, and the layers of the ends where stages cannot be alike."""
    found: dict[str, Value] = {}
    for pattern, facts in ROUTING:
        if line.notes(pattern):
            found |= {path: value for path, value in facts.items() if path.startswith("strategy.")}
    if line.strategy == "megatron-core" and line.text("date") < FUSED_PERMUTATION:
        found["strategy.permutation"] = "indexed"
    etp = line.notes(r"expert-tensor-parallel-size=(\d+)|expert TP=(\d+)")
    if etp:
        found["strategy.etp"] = int(etp.group(1) or etp.group(2))
    elif (line.whole("tp") or 1) > 1 and re.search(WHOLE_EXPERTS, f"{line.framework} {line.text('model')}"):
        found["strategy.etp"] = 1
    layout = (line.text("pp"), line.text("vpp"), line.text("ep"))
    run = f"{line.framework} {line.text('model')} {line.text('hardware')}"
    for pattern, of, facts in RECIPES:
        if layout == of and re.search(pattern, run):
            found |= facts
    crosses = (line.whole("ep") or 1) > (line.whole("devices_per_node") or 1)
    if "Megatron-Bridge" in line.framework and not line.notes("token-?drop") and crosses:
        found.setdefault("strategy.dispatcher", "deduplicated")
    return found


def _differences(line: Line, workload: str) -> dict[str, int]:
    found = {}
    for column, field in SHAPE:
        printed = line.whole(column)
        if printed and printed != _held(workload, f"workload.model.{field}"):
            found[field] = printed
    return found


def _held(workload: str, path: str) -> object:
    value: object = find("workloads", workload)
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


def _model(workload: str) -> Transformer:
    model = find("workloads", workload).model
    assert isinstance(model, Transformer)  # noqa: S101
    return model
