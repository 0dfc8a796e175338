"""Pictures; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.reporting.operators import operators
from perfmodel.reporting.text import quantity, share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfmodel.comparison import Comparison
    from perfmodel.prediction import Prediction
    from perfmodel.validation.run import Judged

BAND = 0.10
EDGE = 1.0
"""FLOP for each byte, where kernels without products are drawn."""
MARKERS = "os^Dv"
FORMATS = (".png", ".svg", ".pdf")


def require_picture(path: Path, option: str = "--plot") -> None:
    """Raise InputError for a file that no picture can be written to, before the work that it would show."""
    message = ""
    if path.suffix.lower() not in FORMATS:
        message = f"a picture ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
    elif path.is_dir() or not path.parent.is_dir():
        message = "cannot be written: is a directory" if path.is_dir() else "cannot be written: no such directory"
    if message:
        raise InputError([Problem(Place(option), str(path), message)])


def plot_roofline(prediction: Prediction, path: Path, most: int = 8) -> None:
    """Kernels under the roofline: FLOP/s against FLOP for each byte, areas by time, the longest with their names.

    Kernels without products stand at the left edge, at the share of the bandwidth that they reach.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = [row for row in operators(prediction) if row["share"] > 0]
    device, precision = prediction.hardware.device, prediction.workload.training.precision
    peak, bandwidth = float(device.compute.peak[precision]), float(device.memory.bandwidth)
    products = [row for row in rows if row["flops"]]
    edge, right = EDGE, max([4 * row["intensity"] for row in products], default=1e3)
    figure, axes = plt.subplots(figsize=(10, 6.5), layout="constrained")
    ends = [edge / 2, peak / bandwidth, right]
    axes.plot(ends, [min(peak, x * bandwidth) for x in ends], color="0.2", linewidth=1.5)
    axes.annotate(f"{quantity(peak, 'FLOP/s')} {precision}", (right, peak), ha="right", va="bottom", fontsize="small")
    axes.annotate(
        quantity(bandwidth, "B/s"), (3 * edge, 3.6 * edge * bandwidth), ha="right", va="bottom", fontsize="small"
    )
    for index, kind in enumerate(sorted({row["kind"] for row in rows})):
        own = [row for row in rows if row["kind"] == kind]
        x = [row["intensity"] or edge for row in own]
        y = [row["flops_per_second"] or edge * bandwidth * row["of_bandwidth"] for row in own]
        sizes = [3000 * row["share"] + 8 for row in own]
        axes.scatter(x, y, s=sizes, color=f"C{index}", alpha=0.6, linewidths=0, label=kind)
    for line, row in enumerate(sorted(products[:most], key=lambda row: -row["intensity"])):
        axes.annotate(
            f"{row['name']} ({share(row['share'])})", (row["intensity"], row["flops_per_second"]), xytext=(0.6, 0.62 - 0.05 * line),
            textcoords="axes fraction", fontsize="x-small", arrowprops={"arrowstyle": "-", "color": "0.7", "linewidth": 0.6},
        )  # fmt: skip
    axes.set(
        xscale="log", yscale="log", xlabel="FLOP / B (kernels without products at the left edge)", ylabel="FLOP / s",
        xlim=(edge / 2, right), ylim=(edge * bandwidth / 20, 2 * peak),
        title=f"{prediction.workload.name} on {device.name}: kernels of a step, areas by time",
    )  # fmt: skip
    legend = axes.legend(fontsize="small", loc="lower right")
    for handle in legend.legend_handles:
        handle.set_sizes([40])  # type: ignore[union-attr]
    figure.savefig(path, dpi=130)
    plt.close(figure)


LEGEND_ROWS = 28
"""Studies in one column of a legend; more would leave the picture."""


def plot_validation(judged: Sequence[Judged], path: Path) -> None:
    """Measured against predicted step time, log-log, one colour for each study, with a band of 10 %.

    Rates are drawn as the time of one sample, token or FLOP that they imply.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(11, 7), layout="constrained")
    colours = plt.get_cmap("tab20")
    everything: list[float] = []
    for index, one in enumerate(judged):
        pairs = [
            (o.step_time / (1 + o.error), o.step_time)
            for o in one.outcomes
            if o.counts and o.step_time and o.error is not None and o.metric != "peak_memory"
        ]
        if pairs:
            measured, predicted = zip(*pairs, strict=True)
            everything += [*measured, *predicted]
            marker = MARKERS[index // 20 % len(MARKERS)]
            axes.scatter(
                measured,
                predicted,
                s=10,
                color=colours(index % 20),
                marker=marker,
                label=one.study.name,
                alpha=0.7,
                linewidths=0,
            )
    ends = [min(everything, default=0.1) / 1.5, max(everything, default=10) * 1.5]
    axes.plot(ends, ends, color="0.3", linewidth=0.8)
    below, above = ([end * (1 + side * BAND) for end in ends] for side in (-1, 1))
    axes.fill_between(ends, below, above, color="0.85", zorder=0, label="within 10 %")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="measured step time [s]",
        ylabel="predicted step time [s]",
        xlim=ends,
        ylim=ends,
    )
    axes.set_aspect("equal")
    columns = -(-len(axes.get_legend_handles_labels()[0]) // LEGEND_ROWS)
    figure.legend(fontsize="x-small", loc="outside right center", ncols=max(columns, 1))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Step time and throughput of each strategy over devices, log-log; crossovers are circles."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained")
    for index, strategy in enumerate(comparison.strategies):
        points = [(p.devices, p.prediction) for p in comparison.points if p.strategy == strategy and p.prediction]
        style = {"color": f"C{index}", "marker": MARKERS[index % len(MARKERS)], "markersize": 5, "label": strategy}
        devices = [n for n, _ in points]
        left.plot(devices, [p.step_time for _, p in points], **style)
        right.plot(devices, [p.samples_per_second for _, p in points], **style)
    for crossover in comparison.crossovers:
        x = crossover.devices
        times = comparison.of(crossover.faster)
        share = np.log(x / crossover.below) / np.log(crossover.above / crossover.below)
        y = np.exp((1 - share) * np.log(times[crossover.below]) + share * np.log(times[crossover.above]))
        left.plot([x], [y], marker="o", markersize=12, markerfacecolor="none", markeredgecolor="0.2", linestyle="none")
    best = [p for p in comparison.points if p.prediction and p.speedup]
    if best:
        rate = max(p.prediction.samples_per_second / p.speedup for p in best)  # type: ignore[union-attr,operator]
        counts = sorted({p.devices for p in best})
        right.plot(counts, [rate * n for n in counts], color="0.6", linestyle=":", label="one device times devices")
    ticks = sorted({p.devices for p in comparison.points if p.prediction})
    for axes, label in ((left, "step time [s]"), (right, "throughput [samples/s]")):
        axes.set(xscale="log", yscale="log", xlabel="devices", ylabel=label)
        axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.minorticks_off()
        axes.grid(color="0.9")
    right.legend(fontsize="small")
    figure.suptitle(
        f"{comparison.workload} on {comparison.hardware}, {comparison.scaling} scaling (circles: crossovers)"
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
