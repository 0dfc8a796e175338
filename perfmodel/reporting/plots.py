"""Pictures; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Place, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfmodel.validation.run import Judged

BAND = 0.10
MARKERS = "os^Dv"
FORMATS = (".png", ".svg", ".pdf")


def require_picture(path: Path) -> None:
    """Raise InputError for a file that no picture can be written to, before the work that it would show."""
    message = ""
    if path.suffix.lower() not in FORMATS:
        message = f"a picture ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
    elif path.is_dir() or not path.parent.is_dir():
        message = "cannot be written: is a directory" if path.is_dir() else "cannot be written: no such directory"
    if message:
        raise InputError([Problem(Place("--plot"), str(path), message)])


def plot_validation(judged: Sequence[Judged], path: Path) -> None:
    """Measured against predicted step time, log-log, one colour for each study, with a band of 10 %.

    Rates are drawn as the time of one sample, token or FLOP that they imply.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 7), layout="constrained")
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
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=130)
    plt.close(figure)
