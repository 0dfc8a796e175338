"""A picture of a trace: what each rank spends its time on, and the memory of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.reporting.trace import class_rows, memory_record, rank
from perfmodel.traces.classes import CLASSES

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.traces.job import TracedJob

RANKS = 32
"""Bars at most."""
COLOURS = {name: f"C{i}" for i, name in enumerate(CLASSES)} | {"idle": "0.85"}


def plot_trace(job: TracedJob, path: Path) -> None:
    """Exposed time by class as one bar for each rank, over the memory timeline where one was recorded."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    shown = job.ranks[:RANKS]
    memory = next((record for one in shown if (record := memory_record(one))), None)
    height = 1.5 + 0.35 * len(shown)
    figure, axes = plt.subplots(
        2 if memory else 1, squeeze=False, figsize=(10, height + (3 if memory else 0)), layout="constrained",
        height_ratios=[height, 3] if memory else None,
    )  # fmt: skip
    bars = axes[0, 0]
    for place, one in enumerate(shown):
        left = 0.0
        for row in class_rows(one):
            bars.barh(place, row["exposed"] * 1e3, left=left * 1e3, color=COLOURS[row["class"]], height=0.7)
            left += row["exposed"]
    used = [
        name
        for name in COLOURS
        if any(row["class"] == name and row["exposed"] for one in shown for row in class_rows(one))
    ]
    bars.legend([Patch(color=COLOURS[name]) for name in used], used, fontsize="small", ncols=5,
                loc="lower center", bbox_to_anchor=(0.5, 1.0))  # fmt: skip
    bars.set(
        xlabel="time [ms]",
        yticks=range(len(shown)),
        yticklabels=[f"rank {rank(one, i)}" for i, one in enumerate(shown)],
    )
    bars.invert_yaxis()
    if memory:
        below = axes[1, 0]
        below.plot(
            [t * 1e3 for t, _ in memory["timeline"]],
            [size / 2**30 for _, size in memory["timeline"]],
            drawstyle="steps-post",
        )
        below.set(xlabel="time [ms]", ylabel="allocated [GiB]", ylim=(0, None))
    figure.savefig(path, dpi=130)
    plt.close(figure)
