"""A picture of a plan: step time against memory of what none beats, and of the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.reporting.layout_text import layout_text

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.planner.plan import Plan

NAMED = 6
"""Points of the front that bear their layout."""
SLOWEST = 5.0
"""Times the fastest step time, up to which the front is drawn: what lies beyond saves next to no memory."""


def plot_plan(plan: Plan, path: Path) -> None:
    """Draw the front of every machine and number of devices; crosses are the best plans by the objective."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
    fastest = min((row.step_time for row in plan.front), default=1.0)
    drawn = [row for row in plan.front if row.step_time <= SLOWEST * fastest]
    for index, outcome in enumerate(plan.outcomes):
        own = [row for row in drawn if row.question is outcome.question]
        label = f"{outcome.question.devices} {outcome.question.hardware.name}"
        axes.plot(
            [row.step_time for row in own], [row.memory / 2**30 for row in own],
            drawstyle="steps-post", marker="o", markersize=4, color=f"C{index % 10}", label=label,
        )  # fmt: skip
    for row in drawn[:: max(len(drawn) // NAMED, 1)]:
        axes.annotate(
            layout_text(row.strategy), (row.step_time, row.memory / 2**30), fontsize="x-small",
            xytext=(4, 4), textcoords="offset points",
        )  # fmt: skip
    axes.plot([r.step_time for r in plan.rows], [r.memory / 2**30 for r in plan.rows], "kx", label=f"best by {plan.objective}")  # fmt: skip
    axes.set(xscale="log", xlabel="step time [s]", ylabel="memory of the fullest device [GiB]")
    axes.grid(color="0.9", which="both")
    axes.legend(fontsize="small")
    workload = plan.outcomes[0].question.workload
    axes.set_title(f"{workload.name}, a batch of {workload.training.batch}: none beats these in time, cost and memory")
    figure.savefig(path, dpi=130)
    plt.close(figure)
