"""Draw docs/images/sharding/tensor.png: what tensor and sequence parallelism cost in time and save in memory.

Usage: python tools/tensor_plot.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PICTURE = ROOT / "docs" / "images" / "sharding" / "tensor.png"
GIB = 2**30
JOB: dict[str, Any] = {
    "workload": "llama-3.1-8b", "hardware": "dgx-h100", "devices": 16, "batch": 64, "microbatch": 1, "seq": 8192, "zero": 1,
    "strategy": "megatron-core",
}  # fmt: skip
DEGREES = [1, 2, 4, 8, 16]
KINDS = {
    "matmul": "products",
    "attention": "attention",
    "memory-bound": "norms and sums",
    "tensor parallel": "tensor messages, exposed",
}
OVERLAPS = {"none": "hide nothing", "backward": "hide beside products"}


def predicted(tp: int, **sets: Any) -> Any:
    """One job."""
    import perfmodel

    return perfmodel.predict(tp=tp, sets={f"strategy.{name}": value for name, value in sets.items()}, **JOB)


def main() -> None:
    """Predict and draw."""
    import matplotlib as mpl
    import numpy as np

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (times, memory) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    labels = [str(tp) for tp in DEGREES]
    for offset, (overlap, words) in zip((-0.2, 0.2), OVERLAPS.items(), strict=True):
        found = [predicted(tp, sequence_parallel=tp > 1, tensor_overlap=overlap) for tp in DEGREES]
        bottom = np.zeros(len(DEGREES))
        for number, (kind, name) in enumerate(KINDS.items()):
            sizes = np.array([one.kinds.get(kind, (0.0, 0.0))[1] for one in found])
            times.bar(
                np.arange(len(DEGREES)) + offset, sizes, 0.36, bottom=bottom, color=f"C{number}", alpha=1.0 if offset > 0 else 0.65,
                label=name if offset > 0 else None,
            )  # fmt: skip
            bottom += sizes
        times.annotate(
            words,
            (len(DEGREES) - 1 + offset, bottom[-1]),
            (0, 3),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize="x-small",
        )
    times.set_xticks(range(len(DEGREES)), labels)
    times.set(xlabel="tensor parallel degree; 8 devices to a host", ylabel="step [s]", ylim=(0, 1.6 * max(bottom)))
    times.legend(fontsize="small", loc="upper left")
    for spread, style in ((False, "o--"), (True, "o-")):
        kept = [
            np.max(predicted(tp, sequence_parallel=spread and tp > 1).footprint.classes["activations"]) / GIB
            for tp in DEGREES
        ]
        memory.plot(labels, kept, style, label="with sequence parallelism" if spread else "without")
    memory.set(xlabel="tensor parallel degree", ylabel="activations on a device [GiB]", ylim=(0, None))
    memory.legend(fontsize="small")
    figure.suptitle("Llama 3.1 8B on 16 H100, one sequence of 8,192 tokens to a microbatch", fontsize="medium")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
