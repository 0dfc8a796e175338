"""Draw the picture of docs/offload.md: the step against the link of a device to its host, by what leaves.

python tools/offload.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PICTURE = ROOT / "docs" / "images" / "offload" / "link.png"
LINKS = np.geomspace(16, 450, 30)
"""GB/s per direction: PCIe 3 to NVLink-C2C of a whole superchip."""
KINDS = {
    "all recomputed": ("none", "full"), "activations away": ("activations=host", "none"),
    "activations and optimiser away": ("activations=host+optimizer=host", "none"),
    "all away, all recomputed": ("optimizer=host+gradients=host+parameters=host+activations=host", "full"),
}  # fmt: skip
KNOWN = {"PCIe 4": 31.5, "PCIe 5": 63.0, "C2C": 225.0}


def step(offload: str, recompute: str, link: float) -> tuple[float, float]:
    """Seconds, and GiB on a device, of Llama 2 13B on eight H100."""
    from perfmodel import api

    made = api.predict(
        "llama-2-13b", "dgx-h100", strategy="torchtitan-fsdp2", devices=8, microbatch=2, batch=64, zero=3, recompute=recompute,
        offload=offload, sets={"hardware.host.device_link": f"{link:g} GB/s"},
    )  # fmt: skip
    return made.step_time, made.memory_peak / 2**30


def main() -> int:
    """Write the picture."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for name, (offload, recompute) in KINDS.items():
        times, memory = zip(*(step(offload, recompute, float(link)) for link in LINKS), strict=True)
        axes.plot(LINKS, times, label=f"{name}: {memory[0]:.0f} GiB on a device")
    for name, link in KNOWN.items():
        axes.axvline(link, color="0.85", zorder=0)
        axes.text(link, 0.97, f" {name}", va="top", fontsize=8, color="0.4", transform=axes.get_xaxis_transform())
    axes.set(xscale="log", xlabel="link of a device to its host, GB/s per direction", ylabel="step, s", ylim=(0, None))
    axes.set_xticks(ticks := [16, 32, 64, 128, 256], [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.legend(fontsize=8, frameon=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
