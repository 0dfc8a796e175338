"""Draw the pictures of docs/sharding.md (who holds what, who works on which block of a ring) and write its tables.

python tools/sharding.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "docs" / "images" / "sharding"
PAGE = ROOT / "docs" / "sharding.md"
DEVICES, GROUP = 8, 4
SHOWN = {"NNN": "ZeRO 0", "NNG": "ZeRO 1", "NGG": "ZeRO 2", "GGG": "ZeRO 3", "III": "HSDP, MiCS", "IIG": "PaRO"}
COLOURS = ("#4477aa", "#ee6677", "#228833")
RANKS = 4


def held(letters: str, device: int) -> list[tuple[float, float]]:
    """Where the part of a device begins in each state, and how much of it that is; parts of a group are cut further."""
    parts = {"N": 1, "I": GROUP, "G": DEVICES}
    group, place = divmod(device, GROUP)
    nested = place / GROUP + group / DEVICES if "I" in letters else device / DEVICES
    starts = {"N": 0.0, "I": place / GROUP, "G": nested}
    return [(starts[scope], 1 / parts[scope]) for scope in letters]


def turns(ranks: int) -> np.ndarray:
    """The step in which each pair of pieces, of queries and of keys, is worked on; NaN for later keys."""
    pieces = 2 * ranks
    owner = [min(piece, pieces - 1 - piece) for piece in range(pieces)]
    table = np.array([[(owner[q] - owner[k]) % ranks for k in range(pieces)] for q in range(pieces)], dtype=float)
    table[np.triu_indices(pieces, 1)] = np.nan
    return table


def draw_states(axes: Axes, letters: str) -> None:
    """One sharding: a column of parameters, gradients and optimiser states for each device."""
    for device in range(DEVICES):
        x = device + (0.6 if device >= GROUP else 0.0)
        for state, (start, size) in enumerate(held(letters, device)):
            left = x + 0.27 * state
            axes.bar(left, 1, 0.24, align="edge", color="none", edgecolor="0.75", linewidth=0.6)
            axes.bar(left, size, 0.24, bottom=1 - start - size, align="edge", color=COLOURS[state])
    axes.set_title(f"{letters}: {SHOWN[letters]}", fontsize=10)
    axes.set_axis_off()


def states() -> None:
    """Who holds what."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    figure, grid = plt.subplots(2, 3, figsize=(11, 3.6), layout="constrained")
    for axes, letters in zip(grid.flat, SHOWN, strict=True):
        draw_states(axes, letters)
    names = ("parameters", "gradients", "optimiser states")
    figure.legend(
        [Patch(color=colour) for colour in COLOURS], names, loc="outside lower center", ncols=3, frameon=False
    )
    figure.savefig(FOLDER / "states.png", dpi=100, metadata={"Software": ""})
    plt.close(figure)


def ring() -> None:
    """Who works on which block, and when."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 4.4), layout="constrained")
    table = turns(RANKS)
    image = axes.imshow(table, cmap=plt.get_cmap("viridis", RANKS), vmin=-0.5, vmax=RANKS - 0.5)
    labels = [f"{min(piece, 2 * RANKS - 1 - piece)}" for piece in range(2 * RANKS)]
    axes.set_xticks(range(2 * RANKS), labels)
    axes.set_yticks(range(2 * RANKS), labels)
    axes.set_xlabel("keys and values, by the rank that they come from")
    axes.set_ylabel("queries, by the rank that has them")
    figure.colorbar(image, ax=axes, ticks=range(RANKS), label="step")
    figure.savefig(FOLDER / "ring.png", dpi=100, metadata={"Software": ""})
    plt.close(figure)


def shardings() -> str:
    """Step and memory of each sharding on a slow network."""
    import perfmodel

    rows = ["| `zero` | groups of | step | memory |", "|---|--:|--:|--:|"]
    for zero, group in ((2, 32), (3, 32), ("IGG", 8), ("NIG", 8), ("IIG", 8), (3, 8)):
        made = perfmodel.predict(
            "llama-2-7b", "dgx-a100-80gb", strategy="fsdp", devices=32, batch=128, zero=zero, shard_group=group,
            sets={"hardware.network.1.bandwidth": "3.125 GB/s"},
        )  # fmt: skip
        rows.append(f"| {zero} | {group} | {made.step_time:.2f} s | {made.memory_peak / 2**30:.0f} GiB |")
    return "\n".join(rows)


def contexts(ranks: int = 8, degree: int = 4) -> str:
    """Step and messages of each form of context parallelism."""
    import perfmodel

    rows = ["| `context` | step | of it, exposed | messages in all |", "|---|--:|--:|--:|"]
    for form in ("all-gather", "ring", "gathered-ring", "ulysses", "ulysses-ring"):
        own = {"strategy.ulysses_degree": degree} if form == "ulysses-ring" else {}
        made = perfmodel.predict(
            "llama-3.1-8b", "dgx-h100", strategy="fsdp", cp=ranks, dp=1, batch=4, seq=131072, recompute="full",
            sets={"strategy.context": form, **own},
        )  # fmt: skip
        total, exposed = made.kinds["context parallel"]
        rows.append(f"| {form} | {made.step_time:.2f} s | {exposed:.2f} s | {total:.2f} s |")
    return "\n".join(rows)


def two_hosts() -> str:
    """The same over 16 devices, eight to a host."""
    return contexts(16, 8)


QWEN = {"workload.model.layers": 36, "workload.model.ffn_hidden": 12288, "workload.model.vocabulary": 151936}
"""Qwen3 8B, as Llama 3.1 8B with other sizes."""
PUBLISHED = (
    ("Qwen3 8B, 1M tokens on 8 H100, gathered-ring", "million", 8, "gathered-ring", 364.0),
    ("Qwen3 8B, 2M tokens on 16 H100, gathered-ring", "million", 16, "gathered-ring", 696.0),
    ("Qwen3 8B, 4M tokens on 32 H100, gathered-ring", "million", 32, "gathered-ring", 1346.0),
    ("Llama 2 7B, 32K tokens, cp 16 on 64 TPU v5p, ulysses", "maxtext", 64, "ulysses", 8.90),
    ("Llama 2 7B, 32K tokens, cp 16 on 64 TPU v5p, all-gather", "maxtext", 64, "all-gather", 8.83),
    ("Llama 2 7B, 32K tokens, cp 16 on 64 TPU v5p, ring", "maxtext", 64, "ring", 16.38),
)
"""Step times of huggingface/trl pull request 6845 and AI-Hypercomputer/maxtext pull request 4687."""


def step_time(job: str, devices: int, form: str) -> float:
    """Of one of the published jobs."""
    import perfmodel

    chosen = {"strategy.context": form}
    if job == "million":
        return perfmodel.predict(
            "llama-3.1-8b", "dgx-h100", strategy="fsdp", cp=devices, dp=1, batch=1, seq=devices * 2**17,
            recompute="full", attention="cudnn", sets={**QWEN, **chosen},
        ).step_time  # fmt: skip
    return perfmodel.predict(
        "llama-2-7b", "tpu-v5p-pod", strategy="maxtext-fsdp", cp=16, dp=4, batch=64, seq=2**15, sets=chosen
    ).step_time


def measured() -> str:
    """Published step times beside those predicted."""
    rows = ["| job | measured | predicted | error |", "|---|--:|--:|--:|"]
    for name, job, devices, form, seconds in PUBLISHED:
        ours = step_time(job, devices, form)
        rows.append(f"| {name} | {seconds:.4g} s | {ours:.4g} s | {100 * (ours / seconds - 1):+.0f} % |")
    return "\n".join(rows)


LONG = (
    (32, 2, 8, 2, 610),
    (64, 4, 8, 2, 574),
    (128, 4, 8, 4, 555),
    (256, 4, 8, 8, 549),
    (512, 8, 4, 16, 549),
    (1024, 8, 4, 32, 536),
)
"""Llama 2 7B in fp8 under NeMo 24.03 on as many H100 as thousands of tokens: those, tp, dp, cp, TFLOP/s of each device under full attention."""


def long_sequences() -> str:
    """NVIDIA's own runs beside a ring, which they had, and a gather."""
    import perfmodel

    rows = ["| tokens | devices | tp | cp | measured | ring | all-gather |", "|--:|--:|--:|--:|--:|--:|--:|"]
    for kilo, tp, dp, cp, measured in LONG:
        ours = [
            perfmodel.predict(
                "llama-2-7b", "dgx-h100", strategy="nemo", devices=kilo, tp=tp, dp=dp, cp=cp, batch=4 * dp, seq=kilo * 2**10,
                precision="fp8", attention="flash-2", sets={"strategy.context": form, "strategy.tensor_overlap": "passes"},
            )
            for form in ("ring", "all-gather")
        ]  # fmt: skip
        rates = " | ".join(f"{made.flops() / made.step_time / kilo / 1e12:.0f}" for made in ours)
        rows.append(f"| {kilo}K | {kilo} | {tp} | {cp} | {measured} | {rates} |")
    return "\n".join(rows)


TABLES = {
    "measured": measured, "shardings": shardings, "contexts": contexts, "two hosts": two_hosts, "long sequences": long_sequences,
}  # fmt: skip


def with_tables(page: str) -> str:
    """The page with its tables as they are now."""
    for name, made in TABLES.items():
        before, _, rest = page.partition(f"<!-- begin {name} -->\n")
        _, _, after = rest.partition(f"<!-- end {name} -->")
        page = f"{before}<!-- begin {name} -->\n{made()}\n<!-- end {name} -->{after}"
    return page


if __name__ == "__main__":
    import matplotlib as mpl

    mpl.use("Agg")
    FOLDER.mkdir(parents=True, exist_ok=True)
    states()
    ring()
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
