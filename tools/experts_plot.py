"""Draw docs/images/experts.png: where the time of a mixture goes, as its experts are spread over more devices.

Usage: python tools/experts_plot.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PICTURE = ROOT / "docs" / "images" / "experts.png"
JOB: dict[str, Any] = {
    "workload": "qwen3-235b-a22b", "hardware": "dgx-h100", "devices": 256, "batch": 2048, "microbatch": 1, "zero": 1, "pp": 2,
    "strategy": "megatron-core",
}  # fmt: skip
DEGREES = [1, 2, 4, 8, 16, 32, 64]
DISPATCHERS = ("all-to-all", "deduplicated")
KINDS = {
    "matmul": "products", "attention": "attention", "memory-bound": "norms, sorting and sums", "expert parallel": "tokens travel, exposed",
    "data parallel": "gradients and weights travel, exposed",
}  # fmt: skip


def exposed(ep: int, dispatcher: str) -> dict[str, float]:
    """Seconds of the step by kind, and what is left."""
    import perfmodel

    made: Any = perfmodel.predict(ep=ep, sets={"strategy.dispatcher": dispatcher}, **JOB)
    kinds = {name: times[1] for name, times in made.kinds.items()}
    found = {words: kinds.get(kind, 0.0) for kind, words in KINDS.items()}
    return {**found, "other": made.step_time - sum(found.values())}


def main() -> None:
    """Predict and draw."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, both = plt.subplots(1, len(DISPATCHERS), figsize=(9, 4.2), sharey=True, layout="constrained")
    for axes, dispatcher in zip(both, DISPATCHERS, strict=True):
        found = [exposed(ep, dispatcher) for ep in DEGREES]
        bottom = [0.0] * len(DEGREES)
        for kind in found[0]:
            sizes = [one[kind] for one in found]
            axes.bar([str(ep) for ep in DEGREES], sizes, bottom=bottom, label=kind, width=0.7)
            bottom = [start + size for start, size in zip(bottom, sizes, strict=True)]
        axes.set_title(f"dispatcher: {dispatcher}", fontsize="medium")
        axes.set_xlabel("expert parallel degree; 8 devices to a host")
    both[0].set_ylabel("step [s]")
    both[1].legend(fontsize="small")
    figure.suptitle("Qwen3 235B-A22B on 256 H100", fontsize="medium")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
