"""Predict one step, and show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel import prediction as chain
from perfmodel.errors import InputError, Place, Problem
from perfmodel.job import load_job
from perfmodel.reporting.explain import explain_report
from perfmodel.reporting.prediction import prediction_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfmodel.planner.plan import Plan
    from perfmodel.prediction import Prediction
    from perfmodel.reporting.report import Report


def predict(
    workload: str | Path,
    hardware: str | Path,
    *,
    strategy: str | Path | None = None,
    sets: Mapping[str, Any] | None = None,
    stragglers: str | Path | None = None,
    failures: str | Path | None = None,
    simulate: int = 0,
    seed: int = 0,
    **settings: Any,
) -> Prediction:
    """Predict one training step.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise.
        strategy: likewise; by default one device.
        sets: further overrides, {"hardware.network.0.latency": "3 us"}.
        stragglers: a variation of the library or a YAML file with a section of this name; by default nothing is late.
        failures: likewise, for goodput and the time of the training.
        simulate: steps to draw at random beside the closed forms of both.
        seed: of the random numbers.
        settings: single overrides: devices, tp, pp, vpp, dp, cp, zero, microbatch, batch, seq, precision,
            recompute … as in `perfmodel.job.SETTINGS`.

    Raises InputError with every fault of the files and of the strategy.

    >>> import perfmodel
    >>> p = perfmodel.predict("gpt3-175b", "dgx-a100-80gb", devices=1024, tp=8, pp=16, recompute="full")
    >>> p.layout.dp
    8
    """
    job = load_job(workload, hardware, strategy, settings, sets)
    prediction = chain.predict(job.workload, job.hardware, job.strategy)
    if stragglers is None and failures is None:
        if simulate:
            raise InputError([Problem(Place("--simulate"), "", "draws what --stragglers or --failures say; give one")])
        return prediction
    from perfmodel.library import find
    from perfmodel.variation.apply import vary

    files = [None if file is None else find("variations", file) for file in (stragglers, failures)]
    return vary(prediction, *files, steps=simulate, seed=seed)


def report(prediction: Prediction | Plan) -> Report:
    """A prediction or a plan as a report: ``report(p).record`` is its JSON, ``report(p).render("table")`` its tables."""
    if isinstance(prediction, chain.Prediction):
        return prediction_report(prediction)
    from perfmodel.reporting.plan import plan_report

    return plan_report(prediction)


def operators(prediction: Prediction) -> Report:
    """A prediction with its kernels, longest first, and where each stands under the roofline."""
    from perfmodel.reporting.operators import operators_report

    return operators_report(prediction)


def bubbles(prediction: Prediction) -> Report:
    """A prediction with the free time and the free memory of each pipeline stage."""
    from perfmodel.reporting.variation import bubbles_report

    return bubbles_report(prediction, prediction_report(prediction))


def losses(prediction: Prediction) -> Report:
    """A prediction with what keeps it from the needed FLOP at the peak: named losses that add up to the step."""
    from perfmodel.reporting.losses import losses_report

    return losses_report(prediction)


def plot_roofline(prediction: Prediction, path: str | Path) -> None:
    """Draw the kernels of a step under the roofline; raises InputError where no picture can be written."""
    from perfmodel.reporting import plots

    plots.require_picture(Path(path))
    plots.plot_roofline(prediction, Path(path))


def plot_pipeline(prediction: Prediction, path: str | Path) -> None:
    """Draw the passes of each stage over time; raises InputError where no picture can be written."""
    from perfmodel.reporting import pipeline_plot, plots

    plots.require_picture(Path(path), "--plot-pipeline")
    pipeline_plot.plot_pipeline(prediction, Path(path))


def write_timeline(prediction: Prediction, path: str | Path) -> None:
    """Write the step as a trace for Perfetto or Chrome; raises InputError where it cannot be written."""
    from perfmodel.reporting import timeline

    timeline.write_timeline(prediction, Path(path))


def explain(prediction: Prediction, term: str | None = None) -> Report:
    """The terms of a prediction (or those that match ``term``): equation, inputs with their origin, reference."""
    return explain_report(prediction, term)
