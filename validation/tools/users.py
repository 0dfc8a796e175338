"""Figures out of issue threads: what people asked and measured, as the measurement CSV.

    python -m validation.tools.users

writes validation/users/cases.csv and skipped.csv from the table below. Threads print few settings; a figure whose settings
are not all there is no case.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from validation.tools.cases import Case, Skipped, write

if TYPE_CHECKING:
    from collections.abc import Iterator

STUDY = Path(__file__).parents[1] / "users"
CASES = STUDY / "cases.csv"
GITHUB = "https://github.com"
TOOLBOX = (
    f"{GITHUB}/NVIDIA/JAX-Toolbox/blob/08b08d19bed9a52ea7e79990a9b1f903d660a2df/rosetta/rosetta/projects/pax/README.md"
)

TRL = Case(
    id="trl", source="TRL", address=f"{GITHUB}/huggingface/trl/pull/6845", date="2026-08-21", workload="qwen3-8b",
    hardware="dgx-h100", devices=8, strategy="accelerate-fsdp2", cp=8, microbatch=1, global_batch=1, seq_len=2**20,
    precision="bf16", metric="step_time", value="", unit="s", split="test",
    overrides={"strategy.offload": "activations=host"},
    notes="the loss is computed in chunks, which the step time does not show",
)  # fmt: skip
LENGTHS: tuple[tuple[str, int, int, str], ...] = (
    ("qwen3-0.6b", 8, 2**20, "137"), ("qwen3-8b", 8, 2**20, "364"), ("qwen3-30b-a3b", 8, 2**20, "483"),
    ("qwen3-32b", 8, 2**20, "1295"), ("qwen3-0.6b", 8, 2**22, "2135"), ("qwen3-8b", 16, 2**21, "696"),
    ("qwen3-8b", 32, 2**22, "1346"),
)  # fmt: skip
"""Model, devices, tokens of a sequence, seconds of a step."""

TITAN = Case(
    id="titan", source="torchtitan", address=f"{GITHUB}/pytorch/torchtitan/pull/1993", date="2025-11-05",
    workload="deepseek-v2-lite", hardware="dgx-b200", devices=8, strategy="torchtitan-fsdp2", ep=1, microbatch=4,
    global_batch=32, seq_len=4096, precision="bf16", recompute="none", metric="mfu", value="", unit="%", split="test",
    notes="the 16B flavour of DeepSeek-V3 in torchtitan, which has the shape of DeepSeek-V2-Lite",
)  # fmt: skip
A800 = Case(
    id="a800", source="chenyaofo", address="https://gist.github.com/chenyaofo/d4cd6a20ab4b95cb3a49491747e2139a", date="2024-05",
    workload="llama-2-7b", hardware="a800-8gpu", devices=8, strategy="deepspeed-zero-3", dp=8, global_batch=64,
    seq_len=4096, precision="bf16", metric="samples_per_second", value="", unit="samples/s", split="test",
    notes="8 A800 with two Xeon 8358, DeepSpeed 0.14.2 under Hugging Face; the unit of throughput and the kernel of attention are not printed",
)  # fmt: skip
STATES = "optimizer=host+gradients=host"
ZERO: tuple[tuple[int, str, str, int, int, str], ...] = (
    (2, "none", "", 1, 64, "5.33"), (2, "full", "", 1, 64, "4.19"), (2, "full", STATES, 1, 64, "1.81"),
    (2, "full", "", 4, 64, "4.69"), (3, "none", "", 2, 64, "4.95"), (3, "full", "", 2, 64, "4.45"),
    (3, "full", STATES, 2, 64, "2.05"), (3, "full", f"{STATES}+parameters=host", 4, 64, "2.06"),
    (3, "full", "", 8, 64, "4.73"), (3, "full", "", 8, 128, "4.32"),
)  # fmt: skip
"""ZeRO stage, recomputation, offload, microbatch, batch, samples in a second."""
EAGER = {"strategy.elementwise": "separate"}
MEMORY = "peak memory: a loss in chunks cannot be expressed"
BATCH = "the batch is not printed"

PAX = Case(
    id="pax", source="JAX-Toolbox", address=TOOLBOX, table="Configs, bf16", workload="generic-gpt",
    hardware="dgx-a100-80gb", devices=256, strategy="pax", microbatch=8, global_batch=2048, seq_len=2048,
    precision="bf16", metric="samples_per_second", value="", unit="sequences/s", split="test",
)  # fmt: skip


def shape(layers: int, hidden: int, heads: int, vocabulary: int) -> dict[str, str | int]:
    """The overrides of a GPT."""
    sizes = {"layers": layers, "hidden": hidden, "ffn_hidden": 4 * hidden, "heads": heads, "kv_heads": heads,
             "head_dim": hidden // heads, "vocabulary": vocabulary}  # fmt: skip
    return {f"workload.model.{name}": size for name, size in sizes.items()}


def rows() -> Iterator[Case | Skipped]:
    """Every figure that was read, thread by thread, as a case or with the reason why it is none."""
    for workload, devices, length, seconds in LENGTHS:
        yield replace(TRL, workload=workload, devices=devices, cp=devices, seq_len=length, value=seconds)
    yield from (Skipped("trl", f"{what}: {MEMORY}") for what in ("0.6B 1M", "8B 1M", "30B-A3B 1M", "32B 1M", "0.6B 4M"))
    yield Skipped("titan", "13.5 % out of the box: recomputation by operator is none that the model has")
    yield replace(TITAN, ep=8, value="16", overrides=EAGER, notes="no recomputation; the model is not compiled")
    yield replace(TITAN, ep=8, value="17.5", notes="also compiled; printed as 17 to 18 %")
    yield replace(TITAN, value="18")
    yield replace(TITAN, microbatch=6, global_batch=48, value="20")
    yield replace(TITAN, seq_len=6144, value="21")
    for zero, recompute, offload, microbatch, batch, speed in ZERO:
        yield replace(A800, zero=zero, recompute=recompute, microbatch=microbatch, global_batch=batch, value=speed,
                      overrides={"strategy.offload": offload} if offload else {})  # fmt: skip
    yield Skipped("a800", "ZeRO++ is none that the model has")
    yield from (Skipped("a800", f"memory of row {row}: the unit is not printed") for row in range(1, 12))
    yield from (
        Skipped("deepspeed-7474", f"Qwen2.5 3B on two A100, {how}: {BATCH}")
        for how in ("cores bound to ranks", "cores not bound")
    )
    dots: dict[str, str | int] = {"strategy.recompute_modules": "norms+activations"}
    yield replace(PAX, recompute="selective", overrides=shape(24, 4096, 32, 50304) | dots, value="465.45",
                  notes="saves the products with weights alone")  # fmt: skip
    yield replace(PAX, microbatch=6, global_batch=1536, recompute="full", overrides=shape(96, 12288, 96, 50257),
                  value="18.29", notes="saves nothing, by the default of its base class")  # fmt: skip
    yield Skipped(
        "pax", "126M: whether layers that are not repeated are recomputed is not clear from its configuration"
    )
    yield from (
        Skipped("pax", f"{size} with Transformer Engine: its attention kernel is not named")
        for size in ("126M", "5B", "175B")
    )
    yield from (Skipped("megatron-1031", f"{what}: {BATCH}") for what in ("70B on 128 H100", "70B on 768 H100"))
    yield from (Skipped("megatron-1059", f"{what} on 256 A800: {BATCH}") for what in ("32B", "70B"))
    yield from (Skipped("maxtext-1256", f"{what} experts: {BATCH}") for what in ("8", "56"))
    kinds = ("1F1B", "interleaved 1F1B", "ZB-2P", "ZB-V")
    yield from (Skipped("zero-bubble-21", f"{kind}, {what}: {BATCH}") for kind in kinds for what in ("speed", "memory"))
    yield from (Skipped("deepspeed-5770", f"{what}: {BATCH}, nor the network") for what in ("1 node", "2 nodes"))
    yield Skipped("glm-130b-75", "days of a whole training, with its failures")


def numbered() -> Iterator[Case | Skipped]:
    """The rows with an id of their own: the thread and a number in it."""
    seen: Counter[str] = Counter()
    for row in rows():
        seen[row.id] += 1
        stem = f"users-{row.id}-{seen[row.id]:02d}"
        yield replace(row, id=f"{stem}#{row.metric}" if isinstance(row, Case) else stem)


if __name__ == "__main__":
    counts = write(numbered(), CASES)
    sys.stderr.write(f"{CASES}: {counts[0]} cases, {counts[1]} rows skipped\n")
