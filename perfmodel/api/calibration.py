"""Fit hardware to measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfmodel.reporting.report import Report


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
    calibration = calibrate([Path(file) for file in files], find("hardware", name), selection, progress)
    if yaml is not None:
        write_calibrated(Path(yaml), name, calibration)
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
    calibration = calibrate_tiers([Path(file) for file in files], find("hardware", hardware), asked, progress)
    if yaml is not None:
        write_tiers(Path(yaml), hardware, calibration)
    return fabric_report(calibration)


def _check_kept(keep: Sequence[str]) -> None:
    from perfmodel.calibration.forms import TIER_CONSTANTS
    from perfmodel.errors import InputError, Place, Problem
    from perfmodel.yamlfile import nearest

    known = "; they are " + ", ".join(TIER_CONSTANTS)
    wrong = [(name, nearest(name, TIER_CONSTANTS) or known) for name in keep if name not in TIER_CONSTANTS]
    if wrong:
        raise InputError(
            [Problem(Place("--keep"), "", f"{name!r} is no constant of a tier{hint}") for name, hint in wrong]
        )


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
    made = calibrate_traces(read_traces([Path(file) for file in files]), machine, progress)
    if yaml is not None:
        write_calibrated(Path(yaml), hardware, made)
    return calibration_trace_report(made)


def calibrate_step(
    studies: Sequence[str | Path],
    hardware: str | Path,
    *,
    yaml: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Fit what measured times of whole steps determine of a machine, and say what they do not.

    Args:
        studies: measurement CSVs, or names of studies; rows of the calibration split are fitted, those of the test split judge.
        hardware: the machine, by the name or the file that the rows give.
        yaml: where to write that machine with the fitted constants.
        progress: told how many rounds of the fit are done, of how many.

    Raises InputError with every fault of the rows, and where they determine nothing; then nothing is written.
    """
    from perfmodel.calibration.steps import calibrate_steps
    from perfmodel.calibration.writing import write_steps
    from perfmodel.library import find
    from perfmodel.reporting.calibration_step import calibration_step_report
    from perfmodel.validation.study import load_studies

    machine = find("hardware", hardware)
    made = calibrate_steps(load_studies([str(one) for one in studies]), hardware, machine, progress)
    if yaml is not None:
        write_steps(Path(yaml), hardware, made)
    return calibration_step_report(made)


def calibrate_jitter(
    files: Sequence[str | Path],
    *,
    yaml: str | Path | None = None,
    source: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Fit a distribution to what the ranks of a traced job differ by in the time that they compute.

    Args:
        files: traces of one job, one or more for each rank.
        yaml: where to write the delays as a variation, for `predict`.
        source: of the traces, in that file; by default their names.
        progress: told how many files are read, of how many.

    Raises InputError with every fault of the files, and where they hold fewer than eight times.
    """
    from perfmodel.calibration.jitter import jitter_of, variation_text
    from perfmodel.calibration.writing import write_text
    from perfmodel.reporting.jitter import jitter_report
    from perfmodel.traces.job import job
    from perfmodel.traces.reading import read_traces

    found = jitter_of(job(read_traces([Path(file) for file in files], progress)))
    if yaml is not None:
        write_text(Path(yaml), variation_text(found, Path(yaml).stem, source or found.files))
    return jitter_report(found)


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

    name = "here" if yaml is None else Path(yaml).stem
    made = calibrate(measure(processes, budget, library_of(library), progress), name)
    if yaml is not None:
        write_text(Path(yaml), made.text)
    return calibration_here_report(made)
