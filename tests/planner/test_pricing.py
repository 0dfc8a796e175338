"""The planner prices each candidate as `predict` does, and misses none."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.parallel import arrange
from perfmodel.planner.axes import CHOICES, axes_of
from perfmodel.planner.pricing import Pricing
from perfmodel.planner.refusals import Refusals
from perfmodel.planner.space import Choice, allowed, choices, divisors, space_of, strategy_of
from perfmodel.prediction import predict
from perfmodel.specs import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs import Hardware, Workload

CASES: dict[str, tuple[str, str, int, int, dict[str, Any]]] = {
    "gpt": ("gpt3-175b", "dgx-a100-80gb", 512, 768, {}),
    "long chain of factors": ("megatron-1.7b", "dgx-a100-80gb", 24, 96, {"attention": "unfused"}),
    "framework with a host": ("llama-2-7b", "dgx-h100", 32, 64, {"strategy": "nanotron"}),
    "gradients at once": ("gpt3-175b", "dgx-h100", 128, 128, {"strategy": "megatron-core"}),
    "adapters on frozen weights": ("llama-2-70b-lora", "dgx-h100", 16, 16, {}),
    "grouped queries": ("llama-3.1-70b", "dgx-h100", 256, 256, {}),
    "torus": ("llama-2-7b", "tpu-v4-pod", 64, 128, {"strategy": "maxtext-fsdp"}),
    "rings of links": ("gpt2-1.5b", "dgx-1-v100", 8, 64, {}),
    "convolutions": ("resnet-50", "dgx-2", 32, 1024, {}),
    "servers": ("resnet-50", "pcie-4gpu-10gbe", 16, 512, {"strategy": "parameter-server"}),
    "zero bubbles": (
        "gpt3-175b",
        "dgx-h100",
        64,
        96,
        {"fix": {"schedule": list(CHOICES["schedule"]), "recompute": "none", "zero": [0, 1]}},
    ),
    "dispatched zero bubbles": (
        "megatron-1.7b",
        "dgx-a100-80gb",
        16,
        64,
        {
            "strategy": "megatron-deepspeed",
            "fix": {"schedule": list(CHOICES["schedule"]), "zero": [0, 2], "recompute": "full"},
        },
    ),
    "experts": ("mixtral-8x7b", "dgx-h100", 64, 64, {"ep": 4}),
    "experts one by one": (
        "mixtral-8x7b",
        "dgx-h100",
        64,
        64,
        {"strategy": "nemo-eager", "fix": {"zero": 1, "recompute": "none", "ep": [2, 4, 8], "etp": [1, 4]}},
    ),
    "experts of all tokens, sorted by general kernels": (
        "qwen3-30b-a3b",
        "dgx-b200",
        32,
        64,
        {
            "expert_kernels": "each",
            "dispatcher": "all-gather",
            "permutation": "indexed",
            "loss": "in-place",
            "fix": {"zero": [0, 1], "recompute": ["none", "full"], "order": "tp-cp-ep-dp-pp"},
        },
    ),
    "some layers with experts": ("deepseek-v3", "dgx-h100", 1024, 1024, {"ep": 32, "etp": 1}),
    "experts with products that run again": (
        "mixtral-8x7b",
        "dgx-h100",
        64,
        64,
        {"ep": 4, "recompute_modules": "norms+mlp+activations"},
    ),
    "all groups of experts": ("mixtral-8x7b", "dgx-h100", 32, 64, {"fix": {"zero": [0, 1], "recompute": "none"}}),
    "chunks of several kinds of layers": (
        "deepseek-v3",
        "dgx-h100",
        256,
        512,
        {
            "fix": {
                "stage_layers": "all",
                "zero": 1,
                "recompute": "full",
                "ep": [16, 32],
                "order": "tp-cp-ep-dp-pp",
                "pp": 4,
                "etp": 1,
            }
        },
    ),
    "layers that do not divide": (
        "llama-3.1-405b",
        "dgx-h100",
        128,
        128,
        {
            "fix": {
                "stage_layers": ["ends-fewer", "last-fewer"],
                "schedule": ["1f1b", "gpipe"],
                "zero": 0,
                "recompute": "none",
                "pp": [4, 16],
                "order": "tp-cp-ep-dp-pp",
            }
        },
    ),
    "layers of unequal kinds": (
        "nemotron-h-56b",
        "dgx-h100",
        16,
        32,
        {
            "fix": {
                "stage_layers": ["equal", "ends-fewer"],
                "zero": 1,
                "recompute": "none",
                "order": "tp-cp-ep-dp-pp",
                "pp": [2, 4],
                "tp": [1, 4],
            }
        },
    ),
    "state spaces and experts": (
        "nemotron-3-nano-30b-a3b",
        "gb200-nvl72",
        16,
        32,
        {"fix": {"zero": [0, 1], "recompute": "none", "pp": [1, 2, 4], "etp": 1, "order": "tp-cp-ep-dp-pp"}},
    ),
    "a ring of keys": ("llama-3.1-8b", "dgx-h100", 32, 32, {"context": "ring"}),
    "tokens for heads": ("llama-3.1-8b", "dgx-h100", 32, 32, {"context": "ulysses"}),
    "tokens for heads in a ring": (
        "llama-3.1-8b",
        "dgx-h100",
        32,
        32,
        {"context": "ulysses-ring", "ulysses_degree": 2},
    ),
    "sequences spread in several ways": (
        "llama-3.1-8b",
        "dgx-h100",
        32,
        32,
        {"fix": {"context": "all", "zero": [0, 3], "recompute": "none"}},
    ),
    "states spread in several ways": (
        "gpt3-175b",
        "aws-p4de-24xlarge",
        64,
        96,
        {"weight_gather": "two-stage", "weight_unit": "product", "fix": {"zero": ["IIG", "NIG", "IGG"]}},
    ),
    "states and activations on hosts": (
        "gpt3-175b",
        "dgx-a100-80gb",
        64,
        96,
        {"fix": {"offload": "all", "recompute": ["none", "full"], "zero": [0, 1, 3], "order": "tp-cp-ep-dp-pp"}},
    ),
    "experts on drives": (
        "mixtral-8x7b",
        "dgx-h100",
        32,
        64,
        {
            "fix": {
                "offload": ["none", "optimizer=nvme+parameters=nvme+activations=host+activations_fraction=0.5"],
                "schedule": ["1f1b", "breadth-first", "zero-bubble-h1"],
                "recompute": "none",
                "zero": [0, 3],
            }
        },
    ),
    "embedding tables": (
        "dlrm-criteo-t15",
        "dgx-a100-80gb",
        64,
        65536,
        {"fix": {"zero": [0, 3], "microbatch": [256, 1024]}},
    ),
    "tables behind a cache": (
        "dlrm-criteo-t15",
        "dgx-a100-80gb",
        8,
        65536,
        {"tables": {"by": "row", "memory": "cache"}, "fix": {"zero": 0}},
    ),
    "statistics of gradients": ("gpt2-1.5b", "dgx-1-v100", 8, 64, {"strategy": "adaptdl"}),
    "samples that hosts prepare": (
        "gpt2-1.5b",
        "dgx-a100-80gb",
        32,
        64,
        {"input": {"sample": "5 s", "source": "code", "status": "assumed"}, "sources": {"code": "a script"}},
    ),
    "another order": ("gpt3-175b", "dgx-a100-80gb", 64, 96, {"order": "tp-cp-ep-pp-dp"}),
}
every_case = pytest.mark.parametrize("case", CASES)


def job(case: str) -> tuple[Workload, Hardware, Strategy, int]:
    name, machine, devices, batch, given = CASES[case]
    workload = find("workloads", name)
    training = workload.training.model_copy(update={"batch": batch})
    stated = {name: value for name, value in given.items() if name != "fix"}
    base = find("strategies", given["strategy"]) if "strategy" in given else Strategy.model_validate(stated)
    return workload.model_copy(update={"training": training}), find("hardware", machine), base, devices


def picked(case: str, count: int, seed: int = 1) -> Iterator[tuple[Strategy, float, float, float, dict[str, float]]]:
    """Random candidates with their columns of step time, memory, computing, and what hosts keep."""
    workload, hardware, base, devices = job(case)
    rng = np.random.default_rng(seed)
    axes = axes_of(base, CASES[case][4].get("fix", {}))
    refusals = Refusals(workload, hardware, base, devices)
    space = space_of(workload, axes, refusals)
    pricing = Pricing(workload, hardware, base, space)
    for choice in choices(axes):
        rows = allowed(space, choice, axes, refusals)
        for part, groups in space.candidates(rows, choice.zero, 1 << 40):
            made = pricing.candidates(choice, part, groups)
            for row in rng.choice(len(part), size=min(count, len(part)), replace=False):
                degrees = {name: int(column[part[row]]) for name, column in space.columns.items()}
                group = int(space.groups.size[groups[row]]) if choice.zero else None
                one = strategy_of(base, choice, degrees, group)
                hosts = {tier: float(made.kept_off(tier)[row]) for tier in ("host", "nvme")}
                yield one, float(made.step_time[row]), float(made.memory[row]), float(made.computing[row]), hosts


@every_case
def test_each_row_is_what_predict_says(case: str) -> None:
    workload, hardware, *_ = job(case)
    seen = 0
    for strategy, step_time, memory, computing, hosts in picked(case, 1):
        alone = predict(workload, hardware, strategy)
        assert step_time == pytest.approx(alone.step_time, rel=1e-12, abs=0)
        assert memory == pytest.approx(alone.memory_peak, rel=1e-12, abs=0)
        assert computing == pytest.approx(alone.computing, rel=1e-12, abs=0)
        kept = {tier: sum(sizes.values()) for tier, sizes in alone.kept_off.items()}
        assert hosts == pytest.approx(kept, rel=1e-12, abs=0)
        seen += 1
    assert seen


def everything(workload: Workload, hardware: Hardware, devices: int) -> set[tuple[Any, ...]]:
    """All strategies that predict takes, by a loop over whatever there might be."""
    layers, batch = 4, int(workload.training.batch)
    found: set[tuple[Any, ...]] = set()
    for tp, cp, pp in product(divisors(devices), repeat=3):
        if devices % (tp * cp * pp):
            continue
        dp = devices // (tp * cp * pp)
        for vpp, microbatch, sequence, recompute in product(
            divisors(layers), divisors(batch), (False, True), ("none", "full")
        ):
            for zero, group in [(0, None), *product((1, 2, 3), divisors(dp * cp))]:
                strategy = Strategy(
                    tp=tp, cp=cp, pp=pp, dp=dp, vpp=vpp, microbatch=microbatch, sequence_parallel=sequence,
                    recompute=recompute, zero=zero, shard_group=group,  # type: ignore[arg-type]
                )  # fmt: skip
                try:
                    arrange(workload, hardware, strategy)
                except InputError:
                    continue
                found.add((tp, cp, pp, dp, vpp, microbatch, sequence, recompute, zero, group))
    return found


def test_no_candidate_is_missing(machine: Hardware) -> None:
    """Beside those that come to the same as a plainer one."""
    workload, *_ = job("long chain of factors")
    training = workload.training.model_copy(update={"batch": 8})
    small = workload.model_copy(update={"training": training, "model": workload.model.model_copy(update={"layers": 4})})
    loop = everything(small, machine, 8)
    axes = axes_of(Strategy(), {"schedule": "1f1b", "order": "tp-cp-ep-dp-pp"})
    refusals = Refusals(small, machine, Strategy(), 8)
    space = space_of(small, axes, refusals)
    planned = set()
    for choice in choices(axes):
        rows = allowed(space, choice, axes, refusals)
        for part, groups in space.candidates(rows, choice.zero, 7):
            planned |= {
                key_of(space.columns, choice, int(r), int(space.groups.size[g]))
                for r, g in zip(part, groups, strict=True)
            }
    needless = {key for key in loop if (key[6] and key[0] == 1) or (key[8] and key[9] == 1)}
    assert planned == loop - needless
    assert needless


def key_of(columns: dict[str, Any], choice: Choice, row: int, group: int) -> tuple[Any, ...]:
    degrees = [int(columns[name][row]) for name in ("tp", "cp", "pp", "dp", "vpp", "microbatch")]
    return (*degrees, choice.sequence_parallel, choice.recompute, choice.zero, group if choice.zero else None)


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_chunks_do_not_matter(size: int) -> None:
    workload, hardware, base, devices = job("gpt")
    space = space_of(workload, axes_of(base, {}), Refusals(workload, hardware, base, devices))
    rows = np.arange(0, len(space.factors), 97)
    for zero in (0, 1):
        whole = [np.concatenate(each) for each in zip(*space.candidates(rows, zero, 1 << 40), strict=True)]
        parts = [np.concatenate(each) for each in zip(*space.candidates(rows, zero, size), strict=True)]
        np.testing.assert_array_equal(whole, parts)
        assert len(whole[0]) == space.count(rows, zero)


def test_a_choice_has_all_structural_axes() -> None:
    assert {f.name for f in fields(Choice)} == set(axes_of(Strategy(), {}).choices)
