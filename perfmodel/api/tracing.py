"""Read profiler traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfmodel.reporting.report import Report


def trace(
    files: Sequence[str | Path],
    *,
    hardware: str | Path | None = None,
    against: str | Path | None = None,
    top: int = 10,
    plot: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Read profiler traces: steps, kernels by class, exposed communication, idle time, ranks against one another.

    Args:
        files: traces of one job, one or more for each rank: Kineto, execution traces, Nsight Systems SQLite, xplane.
        hardware: a machine whose operator model is held against operators with shapes.
        against: a JSON that `predict` wrote, to stand beside the mean step.
        top: kernels to list.
        plot: a picture of each rank's time, and of memory, to write.
        progress: told how many files are read, of how many.

    Raises InputError with every fault of the files; then nothing is written.
    """
    from perfmodel.library import find
    from perfmodel.reporting import traces as shown
    from perfmodel.reporting.plots import require_picture
    from perfmodel.reporting.trace_plot import plot_trace
    from perfmodel.traces.job import job
    from perfmodel.traces.reading import read_traces
    from perfmodel.traces.tree import read_prediction

    if plot is not None:
        require_picture(Path(plot))
    machine = None if hardware is None else find("hardware", hardware)
    predicted = None if against is None else read_prediction(Path(against))
    ranks = job(read_traces([Path(file) for file in files], progress))
    if plot is not None:
        plot_trace(ranks, Path(plot))
    return shown.traces_report(ranks, machine, predicted, top)
