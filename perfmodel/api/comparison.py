"""Hold predictions against one another, and against traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfmodel.reporting.report import Report


def compare(
    workload: str | Path,
    hardware: str | Path,
    *,
    strategies: Sequence[str | Path],
    devices: Sequence[int],
    batch_per_device: int | None = None,
    batch: int | None = None,
    sets: Mapping[str, Any] | None = None,
    plot: str | Path | None = None,
    **settings: Any,
) -> Report:
    """Predict several strategies over numbers of devices, and where one overtakes another.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise.
        strategies: likewise, one or more.
        devices: numbers of devices of the whole job.
        batch_per_device: samples of a step on each device: weak scaling.
        batch: samples of a step over all devices: strong scaling. One of the two is needed.
        sets: further overrides of all points, {"hardware.network.0.latency": "3 us"}.
        plot: a picture of step time and throughput over devices to write.
        settings: single overrides of all points: microbatch, seq, precision …

    Raises InputError with every fault of the request and of the files; what cannot run is a row with the reason.
    """
    from perfmodel.comparison import compare as predict_points
    from perfmodel.comparison import request_problems
    from perfmodel.reporting.compare import comparison_report
    from perfmodel.reporting.plots import plot_comparison, require_picture

    problems = list(request_problems(strategies, devices, batch, batch_per_device))
    if problems:
        raise InputError(problems)
    if plot is not None:
        require_picture(Path(plot))
    made = predict_points(
        workload, hardware, strategies, devices, batch=batch or batch_per_device or 0,
        scaling="weak" if batch is None else "strong", settings=settings, sets=sets,
    )  # fmt: skip
    if plot is not None:
        plot_comparison(made, Path(plot))
    return comparison_report(made)


def compare_reports(files: Sequence[str | Path]) -> Report:
    """Two or more JSON files that `predict` wrote, term by term; raises InputError where one is no such report."""
    from perfmodel.reporting.compare import reports_report

    return reports_report([Path(file) for file in files])


def compare_trace(prediction: str | Path, files: Sequence[str | Path]) -> Report:
    """A JSON that `predict` wrote beside the mean step of some traces, kind by kind.

    Args:
        prediction: the JSON.
        files: traces of one job, as of `trace`.

    Raises InputError with every fault of the files.
    """
    from perfmodel.reporting.trace_model import comparison_report
    from perfmodel.traces.job import job
    from perfmodel.traces.reading import read_traces
    from perfmodel.traces.tree import compared, read_prediction

    predicted = read_prediction(Path(prediction))
    ranks = job(read_traces([Path(file) for file in files]))
    return comparison_report(predicted, ranks, compared(predicted, ranks.ranks))
