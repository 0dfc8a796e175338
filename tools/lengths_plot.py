"""Draw docs/images/lengths.png: real tokens per second against how far sequences differ, by what is done about it.

Usage: python tools/lengths_plot.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PICTURE = ROOT / "docs" / "images" / "lengths.png"
JOB: dict[str, Any] = {
    "workload": "llama-3.1-8b", "hardware": "grand-teton-h100-96gb", "strategy": "fsdp", "devices": 32, "batch": 128, "microbatch": 2,
    "recompute": "full",
}  # fmt: skip
MEAN = 2000
SPREADS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
"""Standard deviations of the logarithm of the length, of the same mean."""
DRAWN = 100
WAYS = {
    "padded to 8,192": "rows=sequence",
    "padded to the longest of two": "rows=longest",
    "like lengths together, dealt by work": "rows=longest,assignment=balanced",
    "packed into rows of 8,192": "rows=packed",
    "packed, dealt by work": "rows=packed,assignment=balanced",
}


def tokens_per_second(way: str, spread: float) -> tuple[float, float]:
    """Predicted, and by drawn steps."""
    import perfmodel

    median = MEAN / 2.718281828459045 ** (spread**2 / 2)
    made: Any = perfmodel.predict(
        lengths=f"lognormal:median={median:.6g},sigma={spread},{way}", simulate=DRAWN, seed=1, **JOB
    )
    tokens = float(made.tokens_per_second)
    return tokens, tokens * made.step_time / made.simulation.sequences.mean


def main() -> None:
    """Predict, draw and write."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8.5, 5), layout="constrained")
    for name, way in WAYS.items():
        found = [tokens_per_second(way, spread) for spread in SPREADS]
        (line,) = axes.plot(SPREADS, [predicted / 1e3 for predicted, _ in found], label=name)
        axes.plot(SPREADS, [drawn / 1e3 for _, drawn in found], "o", color=line.get_color(), markersize=4)
    axes.set(
        xlabel=f"spread of the logarithm of the length; about {MEAN:,} tokens on average",
        ylabel="real tokens per second [k]",
    )
    axes.set_ylim(bottom=0)
    axes.set_title("Llama 3.1 8B on 32 H100, lognormal lengths of up to 8,192 tokens", fontsize="medium")
    axes.legend(title=f"lines: predicted; dots: {DRAWN} drawn steps", fontsize="small")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
