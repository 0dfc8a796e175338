"""Draw docs/images/jitter.png: step time against number of devices for five kinds of jitter.

Usage: python tools/jitter_plot.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction
    from perfmodel.variation.varied import Varied

PICTURE = ROOT / "docs" / "images" / "jitter.png"
JOB = {"workload": "llama-3.1-8b", "hardware": "grand-teton-h100-96gb", "strategy": "fsdp", "shard_group": 64}
DEVICES = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
"""One sequence for each."""
DRAWN, STEPS = [64, 512, 4096], 400
"""Numbers of devices whose steps are drawn, too."""
KINDS: dict[str, dict[str, Any]] = {
    "normal": {"kind": "normal", "deviation": 0.02},
    "exponential": {"kind": "exponential", "mean": 0.02},
    "Weibull, c = 0.5": {"kind": "weibull", "scale": 0.02 / 20**0.5, "shape": 0.5},
    "1 in 1,000 slow by 63 %": {"kind": "mixture", "slowdown": 0.6327, "probability": 0.001},
    "exponential, whole nodes": {"kind": "exponential", "mean": 0.02, "per": "node"},
}
"""Each of a standard deviation of 2 % of the time of computing."""


def delayed(prediction: Prediction, part: dict[str, Any], steps: int = 0) -> Varied:
    """The step with one cause of delay."""
    from perfmodel.specs import Variation
    from perfmodel.variation.apply import vary

    stragglers = {"source": "none", "status": "assumed", "compute": [part]}
    variation = Variation.model_validate(
        {"schema": 1, "name": "jitter", "sources": {"none": "a picture"}, "stragglers": stragglers}
    )
    return vary(prediction, variation, steps=steps)


def main() -> None:
    """Predict, draw and write."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    import perfmodel

    plain = {n: perfmodel.predict(devices=n, batch=n, **JOB) for n in DEVICES}  # type: ignore[arg-type]
    figure, axes = plt.subplots(figsize=(8.5, 5), layout="constrained")
    for name, part in KINDS.items():
        times = [delayed(plain[n], part).step_time for n in DEVICES]
        (line,) = axes.plot(DEVICES, times, label=name)
        simulated = [delayed(plain[n], part, STEPS).simulation for n in DRAWN]
        found = [s.step_time for s in simulated if s is not None and s.step_time is not None]
        axes.errorbar(
            DRAWN, [d.mean for d in found], [3 * d.error for d in found], fmt="o", color=line.get_color(), markersize=4
        )
    axes.plot(DEVICES, [plain[n].step_time for n in DEVICES], color="0.5", linestyle="--", label="no jitter")
    axes.set(xscale="log", xlabel="devices, one sequence of 8,192 tokens each", ylabel="step time [s]")
    axes.set_xticks(DEVICES, [f"{n:,}" for n in DEVICES])
    axes.minorticks_off()
    axes.set_title(
        "Llama 3.1 8B on H100: five kinds of jitter, each with a standard deviation of 2 %", fontsize="medium"
    )
    axes.legend(title=f"lines: closed forms; dots: {STEPS} drawn steps, 3 standard errors", fontsize="small")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
