"""Draw docs/images/memory.png: what fills the fullest device, by class, under ways to make it less.

Usage: python tools/memory_plot.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PICTURE = ROOT / "docs" / "images" / "memory.png"
GIB = 2**30
JOB: dict[str, Any] = {
    "workload": "llama-3.1-70b", "hardware": "dgx-h100", "devices": 64, "batch": 128, "microbatch": 1, "seq": 8192, "strategy": "megatron-core",
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "tp 8, dp 8": {"tp": 8, "zero": 0},
    "ZeRO 1": {"tp": 8, "zero": 1},
    "ZeRO 1, layers recomputed": {"tp": 8, "zero": 1, "recompute": "full"},
    "ZeRO 1, pp 4": {"tp": 8, "pp": 4, "zero": 1},
    "ZeRO 1, cp 4": {"tp": 8, "cp": 4, "zero": 1},
    "ZeRO 3, tp 1, layers recomputed": {"tp": 1, "zero": 3, "recompute": "full"},
}
"""Sequence parallel wherever tp is above 1."""


def classes(way: dict[str, Any]) -> dict[str, float]:
    """GiB of each class on the fullest stage."""
    import numpy as np

    import perfmodel

    made: Any = perfmodel.predict(sequence_parallel=way["tp"] > 1, **JOB, **way)
    found = {name: np.atleast_1d(size) for name, size in made.footprint.classes.items()}
    stage = int(np.argmax(sum(found.values())))
    return {name: float(size[min(stage, size.size - 1)]) / GIB for name, size in found.items()}


def main() -> None:
    """Predict and draw."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = {name: classes(way) for name, way in WAYS.items()}
    kinds = [kind for kind in next(iter(found.values())) if any(sizes[kind] > 1 / 4 for sizes in found.values())]
    figure, axes = plt.subplots(figsize=(9, 4.6), layout="constrained")
    colors = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
    left = dict.fromkeys(found, 0.0)
    for kind, color in zip(kinds, colors, strict=False):
        sizes = [sizes[kind] for sizes in found.values()]
        axes.barh(list(found), sizes, left=list(left.values()), label=kind, color=color, height=0.65)
        left = {name: start + size for (name, start), size in zip(left.items(), sizes, strict=True)}
    axes.axvline(80, color="black", linestyle="--", linewidth=1)
    axes.annotate(
        "80 GiB of the device",
        (80, -0.7),
        textcoords="offset points",
        xytext=(4, 0),
        fontsize="small",
        annotation_clip=False,
    )
    axes.invert_yaxis()
    axes.set_xlabel("allocated on the fullest device [GiB]")
    axes.set_title(
        "Llama 3.1 70B on 64 H100, sequences of 8,192 tokens, one sample to a microbatch", fontsize="medium", pad=18
    )
    axes.legend(fontsize="small", loc="lower right")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
