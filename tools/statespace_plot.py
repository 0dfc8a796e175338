"""Draw docs/images/statespace.png: a hybrid and the same model with attention in all layers, as sequences grow.

Usage: python tools/statespace_plot.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PICTURE = ROOT / "docs" / "images" / "statespace.png"
JOB: dict[str, Any] = {
    "workload": "nemotron-h-8b", "hardware": "dgx-h100", "devices": 8, "batch": 8, "microbatch": 1, "tp": 8,
    "strategy": "nemo", "recompute": "full",
}  # fmt: skip
LENGTHS = [2048 * 2**doubling for doubling in range(8)]
KINDS = {
    "matmul": "products", "attention": "attention", "state space": "chunked scans", "memory-bound": "norms and sums",
    "recompute": "executed again",
}  # fmt: skip


def patterns() -> dict[str, str]:
    """The model's own letters, and those with attention in the place of each scan."""
    from perfmodel.library import find

    own = str(find("workloads", JOB["workload"]).model.pattern)
    return {"4 layers of attention, 24 scans (Nemotron-H 8B)": own, "28 layers of attention": own.replace("M", "*")}


def each_token(pattern: str, length: int) -> dict[str, float]:
    """Microseconds of a token by kind, and what is left."""
    import perfmodel

    sets = {"workload.model.pattern": pattern, "workload.training.sequence": length}
    if "M" not in pattern:
        sets["workload.model.state_space"] = None
    made: Any = perfmodel.predict(sets=sets, **JOB)
    scale = 1e6 / made.tokens_per_step
    found = {words: scale * made.kinds.get(kind, (0.0, 0.0))[1] for kind, words in KINDS.items()}
    return {**found, "messages and all else": scale * made.step_time - sum(found.values())}


def main() -> None:
    """Predict and draw."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
    for axes, (title, pattern) in zip(both, patterns().items(), strict=True):
        found = [each_token(pattern, length) for length in LENGTHS]
        bottom = [0.0] * len(LENGTHS)
        for kind in found[0]:
            sizes = [one[kind] for one in found]
            axes.bar([f"{length // 1024}k" for length in LENGTHS], sizes, bottom=bottom, label=kind, width=0.7)
            bottom = [start + size for start, size in zip(bottom, sizes, strict=True)]
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("tokens of a sequence")
    both[0].set_ylabel("step for each token [µs]")
    both[0].legend(fontsize="small")
    figure.suptitle("52 layers of width 4096 on 8 H100, tensor parallel", fontsize="medium")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
