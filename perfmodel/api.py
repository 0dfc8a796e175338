"""The public functions; the command line has one command for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from perfmodel import prediction as chain
from perfmodel.errors import InputError, Place, Problem
from perfmodel.job import guess_kind, kind_of, load_job
from perfmodel.library import SPECS, Kind
from perfmodel.reporting.explain import explain_report
from perfmodel.reporting.items import check_report, list_report, show_report
from perfmodel.reporting.prediction import prediction_report
from perfmodel.yamlfile import read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from perfmodel.planner.plan import Plan
    from perfmodel.prediction import Prediction
    from perfmodel.reporting.report import Report


@dataclass(frozen=True, slots=True)
class Validation:
    """Outcome of a validation: the report, and whether every study was run and every budget kept."""

    report: Report
    passed: bool


__all__ = [
    "bubbles",
    "calibrate_collectives",
    "calibrate_here",
    "calibrate_ops",
    "calibrate_trace",
    "check",
    "compare",
    "compare_reports",
    "compare_trace",
    "explain",
    "list_items",
    "losses",
    "operators",
    "plan",
    "plot_pipeline",
    "plot_roofline",
    "predict",
    "report",
    "show",
    "trace",
    "validate",
    "validate_systems",
    "validate_tables",
    "write_timeline",
]


def predict(
    workload: str | Path,
    hardware: str | Path,
    *,
    strategy: str | Path | None = None,
    sets: Mapping[str, Any] | None = None,
    stragglers: str | Path | None = None,
    failures: str | Path | None = None,
    lengths: str | Path | None = None,
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
        lengths: likewise, of the sequences of a batch; or a CSV of them, or "lognormal:median=500,sigma=0.8". By default all
            sequences are as long as the workload says.
        simulate: steps to draw at random beside the closed forms of these.
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
    if stragglers is None and failures is None and lengths is None:
        if simulate:
            message = "draws what --stragglers, --failures or --lengths say; give one"
            raise InputError([Problem(Place("--simulate"), "", message)])
        return prediction
    from perfmodel.library import find
    from perfmodel.variation.apply import vary
    from perfmodel.variation.asked import lengths_of

    files = [None if file is None else find("variations", file) for file in (stragglers, failures)]
    sequences = None if lengths is None else lengths_of(lengths)
    return vary(prediction, *files, lengths=sequences, steps=simulate, seed=seed)


def report(prediction: Prediction | Plan) -> Report:
    """A prediction or a plan as a report: ``report(p).record`` is its JSON, ``report(p).render("table")`` its tables."""
    if isinstance(prediction, chain.Prediction):
        return prediction_report(prediction)
    from perfmodel.reporting.plan import plan_report

    return plan_report(prediction)


def plan(
    workload: str | Path,
    hardware: str | Path | Sequence[str | Path],
    *,
    devices: int | str | Sequence[int],
    objective: str = "time",
    constrain: Sequence[str] = (),
    fix: Mapping[str, Any] | None = None,
    top: int = 10,
    strategy: str | Path | None = None,
    sets: Mapping[str, Any] | None = None,
    plot: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Plan:
    """Price every way to lay out a job, and find the best.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise, one machine or several.
        devices: of the job: a number, several, or a range: "8..1024" doubles, "64..256:64" goes by steps.
        objective: time, throughput, cost, energy or memory.
        constrain: bounds besides the memory of a device, as "memory.peak<=72 GiB" or "mfu>=0.4".
        fix: {axis: value or values} that the search keeps to: tp, cp, pp, dp, vpp, microbatch, shard_group,
            sequence_parallel, zero, recompute, schedule.
        top: how many plans to return.
        strategy: what is no axis of the search (software, attention, overlap …); axes that it states stay as they are.
        sets: further overrides, {"hardware.network.0.latency": "3 us"}.
        plot: a picture of the front to write.
        progress: told how much is done, of how much.
        settings: single overrides: batch, seq, precision, attention.

    Raises InputError with every fault of the request and of the files; that nothing fits is a result (`Plan.plans` is
    empty, and `Plan.rejected` says what the nearest lack).

    >>> import perfmodel
    >>> found = perfmodel.plan("gpt2-124m", "dgx-a100-80gb", devices=8, batch=64, fix={"zero": 0}, top=1)
    >>> found.evaluated > 100, found.plans[0].fits
    (True, True)
    """
    from collections.abc import Sequence

    from perfmodel.planner.limits import require_objective
    from perfmodel.planner.plan import plan as search_all
    from perfmodel.planner.request import questions, require_count
    from perfmodel.reporting.plan_plot import plot_plan
    from perfmodel.reporting.plots import require_picture

    machines = [hardware] if isinstance(hardware, str) or not isinstance(hardware, Sequence) else list(hardware)
    goal, count = require_objective(objective), require_count(top)
    asked = questions(workload, machines, strategy, settings, sets, devices=devices, constrain=constrain, fix=fix or {})
    if plot is not None:
        require_picture(_path(plot))
    found = search_all(asked, goal, count, progress)
    if plot is not None:
        plot_plan(found, _path(plot))
    return found


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

    plots.require_picture(_path(path))
    plots.plot_roofline(prediction, _path(path))


def plot_pipeline(prediction: Prediction, path: str | Path) -> None:
    """Draw the passes of each stage over time; raises InputError where no picture can be written."""
    from perfmodel.reporting import pipeline_plot, plots

    plots.require_picture(_path(path), "--plot-pipeline")
    pipeline_plot.plot_pipeline(prediction, _path(path))


def write_timeline(prediction: Prediction, path: str | Path) -> None:
    """Write the step as a trace for Perfetto or Chrome; raises InputError where it cannot be written."""
    from perfmodel.reporting import timeline

    timeline.write_timeline(prediction, _path(path))


def explain(prediction: Prediction, term: str | None = None) -> Report:
    """The terms of a prediction (or those that match ``term``): equation, inputs with their origin, reference."""
    return explain_report(prediction, term)


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
        require_picture(_path(plot))
    made = predict_points(
        workload, hardware, strategies, devices, batch=batch or batch_per_device or 0,
        scaling="weak" if batch is None else "strong", settings=settings, sets=sets,
    )  # fmt: skip
    if plot is not None:
        plot_comparison(made, _path(plot))
    return comparison_report(made)


def compare_reports(files: Sequence[str | Path]) -> Report:
    """Two or more JSON files that `predict` wrote, term by term; raises InputError where one is no such report."""
    from perfmodel.reporting.compare import reports_report

    return reports_report([_path(file) for file in files])


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


def validate(
    studies: Sequence[str] = (),
    *,
    progress: Callable[[int, int], None] | None = None,
    update_budgets: bool = False,
    plot: str | Path | None = None,
    worst: int = 10,
) -> Validation:
    """Predict measured cases and compare.

    Args:
        studies: names of the library's studies, or measurement CSVs of your own; none is all of the library.
        progress: told how many configurations are done, of how many.
        update_budgets: write the errors reached as the new budgets, where they are lower.
        plot: a picture of measured against predicted times to write.
        worst: cases to list by name.

    Raises InputError with every fault of the files, by line and column name.
    """
    from perfmodel.reporting.plots import plot_validation, require_picture
    from perfmodel.reporting.validation import validation_report
    from perfmodel.validation.budgets import require_folders, tighten
    from perfmodel.validation.run import validate as judge
    from perfmodel.validation.study import load_studies

    loaded = load_studies(studies)
    if update_budgets:
        require_folders(loaded)
    if plot is not None:
        require_picture(_path(plot))
    judged = judge(loaded, progress)
    if update_budgets:
        tighten(judged)
    if plot is not None:
        plot_validation(judged, _path(plot))
    missing = len(loaded) - len(judged)
    passed = not missing and all(one.passed is not False for one in judged)
    return Validation(validation_report(judged, worst, missing=missing), passed)


def validate_systems(systems: Sequence[str] = (), *, progress: Callable[[int, int], None] | None = None) -> Validation:
    """Hold published systems to the figures, oracles and limits that they are checked against.

    Args:
        systems: names of folders of validation/systems; none is all.
        progress: told how many are done, of how many.

    Raises InputError with every fault of the files.
    """
    from perfmodel.reporting.systems import systems_report
    from perfmodel.validation.systems.judge import judge_systems
    from perfmodel.validation.systems.spec import load_systems

    judged = judge_systems(load_systems(systems), progress)
    return Validation(systems_report(judged), all(one.status != "failed" for one in judged))


def validate_tables(
    kind: Literal["ops", "collectives"], files: Sequence[str | Path], *, hardware: str | None = None
) -> Report:
    """Hold tables of kernels or of collectives against the model, per device and operation.

    Args:
        kind: of table.
        files: CSVs, plain or gzipped.
        hardware: the machine of all rows; default by the names of devices and systems in the tables.

    Raises InputError where a file is no such table.
    """
    from perfmodel.reporting.validation import tables_report
    from perfmodel.validation.collectives import COLLECTIVES
    from perfmodel.validation.ops import OPS
    from perfmodel.validation.tables import judge_tables

    kinds = OPS if kind == "ops" else COLLECTIVES
    return tables_report(judge_tables([_path(file) for file in files], kinds, hardware))


def calibrate_ops(
    files: Sequence[str | Path],
    hardware: str | Path | None = None,
    *,
    yaml: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **chosen: str | None,
) -> Report:
    """Fit the constants of a device to tables of timed kernels, and judge them on timings held out.

    Args:
        files: CSVs, plain or gzipped.
        hardware: the machine whose datasheet the constants are relative to; default by the name of the device.
        yaml: where to write that machine with the fitted constants.
        progress: told how many fits are done, of how many.
        chosen: rows to take: device, source, library, precision, as in `perfmodel.calibration.timings.Selection`.

    Raises InputError with every fault of the tables; then nothing is written.
    """
    from perfmodel.calibration.ops import calibrate
    from perfmodel.calibration.timings import Selection
    from perfmodel.calibration.writing import write_calibrated
    from perfmodel.library import find
    from perfmodel.reporting.calibration import calibration_report
    from perfmodel.validation.tables import machine_of

    selection = Selection(**{name: word for name, word in chosen.items() if word})
    name = machine_of(selection.device) if hardware is None else hardware
    calibration = calibrate([_path(file) for file in files], find("hardware", name), selection, progress)
    if yaml is not None:
        write_calibrated(_path(yaml), name, calibration)
    return calibration_report(calibration)


def calibrate_collectives(
    files: Sequence[str | Path],
    hardware: str | Path,
    *,
    keep: Sequence[str] = (),
    yaml: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **chosen: str | None,
) -> Report:
    """Fit the tiers of a machine's network to timed collectives, and judge them on measurements held out.

    Args:
        files: tables as CSV, plain or gzipped, and what nccl-tests printed.
        hardware: the machine whose topology and bandwidths hold.
        keep: constants of the tiers that keep their value, such as an efficiency that larger messages told.
        yaml: where to write that machine with the fitted constants.
        progress: told how many tiers are done, of how many.
        chosen: rows to take: system, source, library, collective, as in `perfmodel.calibration.exchanges.Chosen`.

    Raises InputError with every fault of the files; then nothing is written.
    """
    from perfmodel.calibration.exchanges import Chosen
    from perfmodel.calibration.tiers import calibrate_tiers
    from perfmodel.calibration.writing import write_tiers
    from perfmodel.library import find
    from perfmodel.reporting.fabric import fabric_report

    _check_kept(keep)
    asked = Chosen(keep=tuple(keep), **{name: word for name, word in chosen.items() if word})
    calibration = calibrate_tiers([_path(file) for file in files], find("hardware", hardware), asked, progress)
    if yaml is not None:
        write_tiers(_path(yaml), hardware, calibration)
    return fabric_report(calibration)


def _check_kept(keep: Sequence[str]) -> None:
    from perfmodel.calibration.forms import TIER_CONSTANTS
    from perfmodel.errors import InputError, Place, Problem
    from perfmodel.yamlfile import nearest

    wrong = [name for name in keep if name not in TIER_CONSTANTS]
    if wrong:
        known = ", ".join(TIER_CONSTANTS)
        raise InputError(
            [
                Problem(
                    Place("--keep"),
                    "",
                    f"{n!r} is no constant of a tier{nearest(n, TIER_CONSTANTS) or f'; they are {known}'}",
                )
                for n in wrong
            ]
        )


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
        require_picture(_path(plot))
    machine = None if hardware is None else find("hardware", hardware)
    predicted = None if against is None else read_prediction(_path(against))
    ranks = job(read_traces([_path(file) for file in files], progress))
    if plot is not None:
        plot_trace(ranks, _path(plot))
    return shown.traces_report(ranks, machine, predicted, top)


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

    predicted = read_prediction(_path(prediction))
    ranks = job(read_traces([_path(file) for file in files]))
    return comparison_report(predicted, ranks, compared(predicted, ranks.ranks))


def calibrate_trace(
    files: Sequence[str | Path],
    hardware: str | Path,
    *,
    yaml: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Fit what the operators of some traces determine of a device, and say what they do not.

    Args:
        files: traces with shapes, of one device.
        hardware: the machine whose datasheet the constants are relative to.
        yaml: where to write that machine with the fitted constants.
        progress: told how many fits are done, of how many.

    Raises InputError with every fault of the files; then nothing is written.
    """
    from perfmodel.calibration.traces import calibrate_traces
    from perfmodel.calibration.writing import write_calibrated
    from perfmodel.library import find
    from perfmodel.reporting.calibration_trace import calibration_trace_report
    from perfmodel.traces.reading import read_traces

    machine = find("hardware", hardware)
    made = calibrate_traces(read_traces([_path(file) for file in files]), machine, progress)
    if yaml is not None:
        write_calibrated(_path(yaml), hardware, made)
    return calibration_trace_report(made)


def calibrate_here(
    *,
    yaml: str | Path | None = None,
    processes: int = 1,
    library: Literal["auto", "numpy", "torch"] = "auto",
    budget: float = 45.0,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Measure the CPU that this runs on, and fit its constants.

    Args:
        yaml: where to write the machine, for `predict`.
        processes: that share it and measure at once; a device is the share of one, and their messages are the network.
        library: what computes; auto is PyTorch where it is installed, else numpy. Messages need PyTorch.
        budget: seconds to measure, about.
        progress: told how many turns are done, of how many.

    Raises InputError where there are fewer cores than processes, PyTorch is asked for but missing, or the budget is too short.
    """
    from perfmodel.calibration.here import calibrate_here as calibrate
    from perfmodel.calibration.writing import write_text
    from perfmodel.measuring.session import library_of, measure
    from perfmodel.reporting.calibration_here import calibration_here_report

    name = "here" if yaml is None else _path(yaml).stem
    made = calibrate(measure(processes, budget, library_of(library), progress), name)
    if yaml is not None:
        write_text(_path(yaml), made.text)
    return calibration_here_report(made)


def _path(file: str | Path) -> Path:
    from pathlib import Path

    return Path(file)
