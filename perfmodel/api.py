"""The public functions; the command line has one command for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel import prediction as chain
from perfmodel.errors import InputError, Problem
from perfmodel.job import guess_kind, kind_of, load_job
from perfmodel.library import SPECS, Kind
from perfmodel.report.explain import explain_report
from perfmodel.report.items import check_report, list_report, show_report
from perfmodel.report.prediction import prediction_report
from perfmodel.yamlfile import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from perfmodel.prediction import Prediction
    from perfmodel.report.report import Report

__all__ = ["check", "explain", "list_items", "predict", "report", "show"]


def predict(
    workload: str | Path,
    hardware: str | Path,
    *,
    strategy: str | Path | None = None,
    sets: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Prediction:
    """Predict one training step.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise.
        strategy: likewise; by default one device.
        sets: further overrides, {"hardware.network.0.latency": "3 us"}.
        settings: single overrides: devices, tp, pp, vpp, dp, cp, zero, microbatch, batch, seq, precision,
            recompute … as in `perfmodel.job.SETTINGS`.

    Raises InputError with every fault of the files and of the strategy.

    >>> import perfmodel
    >>> p = perfmodel.predict("gpt3-175b", "dgx-a100-80gb", devices=1024, tp=8, pp=16, recompute="full")
    >>> p.layout.dp
    8
    """
    job = load_job(workload, hardware, strategy, settings, sets)
    return chain.predict(job.workload, job.hardware, job.strategy)


def report(prediction: Prediction) -> Report:
    """A prediction as a report: ``report(p).record`` is its JSON, ``report(p).render("table")`` its tables."""
    return prediction_report(prediction)


def explain(prediction: Prediction, term: str | None = None) -> Report:
    """The terms of a prediction (or those that match ``term``): equation, inputs with their origin, reference."""
    return explain_report(prediction, term)


def list_items(kind: Kind | None = None) -> Report:
    """What the library holds, of one kind or of all."""
    return list_report([kind] if kind else list(SPECS))


def show(name: str | Path) -> Report:
    """One item of the library, or a YAML file, with the source of each value."""
    return show_report(kind_of(name), name)


def check(files: Sequence[str | Path]) -> Report:
    """Lint YAML files; raises InputError with the faults of all."""
    problems: list[Problem] = []
    checked: list[tuple[str, Kind]] = []
    for file in files:
        try:
            source = read(_path(file))
            kind = guess_kind(source) or "strategies"
            source.validate(SPECS[kind])
            checked.append((str(file), kind))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return check_report(checked)


def _path(file: str | Path) -> Path:
    from pathlib import Path

    return Path(file)
