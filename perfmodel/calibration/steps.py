"""Constants of a machine out of measured times of whole steps, as far as these determine them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.calibration.knobs import knobs_of
from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import library_name, path_of
from perfmodel.prediction import predict
from perfmodel.validation.cases import job_of, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from perfmodel.calibration.knobs import Knob
    from perfmodel.specs import Hardware, Strategy, Workload
    from perfmodel.specs.measurement import Row
    from perfmodel.validation.study import Study

    Column = NDArray[np.float64]

STEP = 0.02
"""Relative change of a constant in a finite difference: waves of tiles are no smooth function of anything."""
SHARED = 0.05
"""Relative standard error of one measurement: two by one team differ by 8 to 10 % (530B, 1T: 2205.05198, 2104.04473)."""
SURE = 0.1
"""Largest relative standard error of a constant that counts as determined, with measurements that err by `SHARED`."""
LEAST = SHARED / SURE
"""Smallest singular value of the Jacobian of logarithms for that: the errors are those of (J'J)^-1 times the noise squared."""
ROWS = 3
"""Measurements for each constant, at least."""
EDGE = 1.001
"""A value nearer to its bound than this ratio says that another cause is at work."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A job and the measured time of its step."""

    workload: Workload
    strategy: Strategy
    time: float


@dataclass(frozen=True, slots=True)
class Turned:
    """A constant that the steps determine."""

    knob: Knob
    before: float
    after: float
    error: float
    """Relative standard error, from the scatter of the measurements."""
    share: float
    """Mean relative change of the step for a relative change of the constant: how much of the steps hangs on it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows of one split, by their median absolute error with the old and with the new constants."""

    rows: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class StepCalibration:
    """What whole steps say of a machine."""

    hardware: Hardware
    """With the fitted constants."""
    turned: tuple[Turned, ...]
    kept: Mapping[str, str]
    """Constants that are not determined, and why."""
    points: int
    source: str
    errors: Mapping[str, Judged]
    """By split."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why rows do not count, and how many."""


def calibrate_steps(
    studies: Sequence[Study], name: str | Path, hardware: Hardware, progress: Callable[[int, int], None] | None = None
) -> StepCalibration:
    r"""Fit the constants of a machine that measured steps determine.

    .. math:: \min_\theta \sum_i \rho\left(\log \frac{T_i(\theta)}{t_i}\right), \quad
        J_{ij} = \frac{\partial \log T_i}{\partial \log \theta_j}

    Args:
        studies: measured rows.
        name: of the machine, as the rows may name it too.
        hardware: the machine; what the rows do not determine keeps its value.
        progress: told how many rounds of the fit are done, of how many.

    A set of constants is determined where the smallest singular value of J is so large that measurements which err by 5 %
    leave each constant within 10 %, with three rows for each; constants are given up one by one until it is. The fit has
    the loss of `calibrate ops` (soft L1 of logarithms). Rows of the test split never enter it; they judge.

    Raises InputError where no row counts, or nothing is determined.
    """
    reasons: Counter[str] = Counter()
    rows = {split: list(_timed(studies, name, split, reasons)) for split in ("calibration", "test")}
    used = rows["calibration"]
    if not used:
        raise _fault(studies, _no_rows(len(rows["test"]), reasons))
    precisions = Counter(one.workload.training.precision for one in used)
    knobs = list(knobs_of(hardware, [precision for precision, _ in precisions.most_common()]))
    jacobian = sensitivities(used, hardware, knobs)
    turned, kept, machine = _fitted(used, hardware, knobs, jacobian, progress)
    if not turned:
        raise _fault(studies, f"determine no constant: {'; '.join(f'{n} {why}' for n, why in kept.items())}")
    errors = {
        split: Judged(len(some), *(float(np.median(np.abs(misses(some, one)))) for one in (hardware, machine)))
        for split, some in rows.items()
        if some
    }
    rowed = (rows[0].measurement.source for study in studies for rows in study.configurations)
    source = "; ".join(list(dict.fromkeys(filter(None, rowed)))[:3]) or "steps timed by the user"
    return StepCalibration(machine, tuple(turned), kept, len(used), source, errors, reasons)


def _timed(studies: Sequence[Study], name: str | Path, split: str, reasons: Counter[str]) -> Iterator[Timed]:
    """Rows of one split that ran on this machine, with the time of a step that their metric implies."""
    for study in studies:
        for rows in study.configurations:
            if rows[0].measurement.split == split and (reason := _elsewhere(rows[0], study.folder, name)):
                reasons[reason] += 1
            elif rows[0].measurement.split == split:
                yield from _counted(rows, study, reasons)


def _counted(rows: tuple[Row, ...], study: Study, reasons: Counter[str]) -> Iterator[Timed]:
    judged = judge(rows, study.name, study.folder)
    times = [
        one for one in judged if one.counts and one.metric != "peak_memory" and one.error is not None and one.step_time
    ]
    if not times:
        reasons[next((one.reason for one in judged if one.reason), "no time of a step")] += 1
        return
    one, job = times[0], job_of(rows[0], study.folder)
    # whatever the metric, errors are of time, and so give back the time that was measured
    yield Timed(job.workload, job.strategy, (one.step_time or 0.0) / (1 + (one.error or 0.0)))


def _elsewhere(row: Row, folder: Path, name: str | Path) -> str:
    """Why a row tells nothing of this machine; empty where it does."""
    m = row.measurement
    if any(path.startswith("hardware.") for path in m.sets):
        return "changes the machine by an override"
    named = path_of("hardware", library_name("hardware", m.hardware, folder))
    same = named.exists() and named.samefile(path_of("hardware", name))
    return "" if same else f"ran on {m.hardware}"


def misses(rows: Sequence[Timed], hardware: Hardware) -> Column:
    """Logarithm of predicted over measured time."""
    return np.log([
        predict(one.workload, hardware, one.strategy).step_time / one.time for one in rows
    ])  # fmt: skip


def sensitivities(rows: Sequence[Timed], hardware: Hardware, knobs: Sequence[Knob]) -> Column:
    """The Jacobian of the logarithms of step times, by finite differences: rows x constants."""
    columns = []
    for knob in knobs:
        value = knob.value(hardware)
        ahead, behind = (misses(rows, knob.turned(hardware, value * factor)) for factor in (1 + STEP, 1 - STEP))
        columns.append((ahead - behind) / np.log((1 + STEP) / (1 - STEP)))
    return np.stack(columns, axis=1)


def determined(jacobian: Column, names: Sequence[str]) -> tuple[list[int], dict[str, str]]:
    """Constants that all can be told at once, and why the others cannot.

    Args:
        jacobian: rows x constants, of logarithms.
        names: of the constants.

    >>> determined(np.array([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.5, 0.05, 0.0]]), ["a", "b", "c"])[0]
    [0]
    """
    left, kept = list(range(len(names))), {}
    for number in list(left):
        if np.linalg.norm(jacobian[:, number]) < LEAST:
            left.remove(number)
            kept[names[number]] = (
                f"changes the steps too little: by {np.mean(np.abs(jacobian[:, number])):.0%} of its own change"
            )
    while left:
        _, values, vectors = np.linalg.svd(jacobian[:, left], full_matrices=True)
        if len(values) == len(left) and values[-1] >= LEAST:
            break
        mixed = np.abs(vectors[-1])
        among = [i for i, part in zip(left, mixed, strict=True) if part >= mixed.max() / 4]
        dropped = min(among, key=lambda i: float(np.linalg.norm(jacobian[:, i])))
        others = ", ".join(names[i] for i in among if i != dropped)
        kept[names[dropped]] = f"cannot be told from {others}" if others else "cannot be told from the others"
        left.remove(dropped)
    while len(jacobian) < ROWS * len(left):
        dropped = min(left, key=lambda i: float(np.linalg.norm(jacobian[:, i])))
        kept[names[dropped]] = (
            f"{len(jacobian)} rows: {ROWS} are needed for each constant, and the steps hang more on others"
        )
        left.remove(dropped)
    return left, kept


def _fitted(
    rows: Sequence[Timed],
    hardware: Hardware,
    knobs: list[Knob],
    jacobian: Column,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[Turned], dict[str, str], Hardware]:
    """The fit, and what is kept; a constant that ends at its bound is given back, and the others are chosen anew."""
    refused: dict[str, str] = {}
    while True:
        left = [i for i, knob in enumerate(knobs) if knob.name not in refused]
        places, kept = determined(jacobian[:, left], [knobs[i].name for i in left])
        chosen = [knobs[left[place]] for place in places]
        if not chosen:
            return [], kept | refused, hardware
        values, slopes, residuals = _solved(rows, hardware, chosen)
        at_edge = [k.name for k, v in zip(chosen, values, strict=True) if not _inside(k, v)]
        refused |= dict.fromkeys(at_edge, "would end at the limit of what is possible: another cause is at work")
        if progress:
            progress(len(refused) + 1, len(knobs))
        if not at_edge:
            return _turned(chosen, hardware, values, slopes, residuals), kept | refused, _with(hardware, chosen, values)


def _inside(knob: Knob, value: float) -> bool:
    low, high = knob.bounds
    return low * EDGE < value < high / EDGE


def _turned(
    knobs: Sequence[Knob], hardware: Hardware, values: Column, slopes: Column, residuals: Column
) -> list[Turned]:
    """Each with its error: the scatter of the rows through the inverse of the normal equations."""
    noise = float(np.sqrt(np.sum(residuals**2) / max(1, len(residuals) - len(knobs))))
    deviations = noise * np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
    return [
        Turned(knob, knob.value(hardware), float(value), float(error), float(np.mean(np.abs(column))))
        for knob, value, error, column in zip(knobs, values, deviations, slopes.T, strict=True)
    ]


def _solved(rows: Sequence[Timed], hardware: Hardware, knobs: Sequence[Knob]) -> tuple[Column, Column, Column]:
    """Values, Jacobian and residuals at the least loss."""
    from scipy.optimize import least_squares

    def residuals(logs: Column) -> Column:
        return misses(rows, _with(hardware, knobs, np.exp(logs)))

    def jacobian(logs: Column) -> Column:
        return sensitivities(rows, _with(hardware, knobs, np.exp(logs)), knobs)

    bounds = np.log(np.array([knob.bounds for knob in knobs])).T
    start = np.clip(np.log([knob.value(hardware) for knob in knobs]), bounds[0] + 1e-6, bounds[1] - 1e-6)
    found = least_squares(
        residuals,
        start,
        jac=jacobian,
        bounds=bounds,
        loss="soft_l1",
        f_scale=0.1,
        xtol=1e-4,
        ftol=1e-5,
        max_nfev=30,
    )
    return np.exp(found.x), jacobian(found.x), residuals(found.x)


def _with(hardware: Hardware, knobs: Sequence[Knob], values: Column) -> Hardware:
    for knob, value in zip(knobs, values, strict=True):
        hardware = knob.turned(hardware, float(value))
    return hardware


def _no_rows(test: int, reasons: Counter[str]) -> str:
    why = "; ".join(f"{count} rows: {reason}" for reason, count in reasons.most_common(4))
    if test:
        return f"no row to fit: {test} rows are of the test split, which never enters a fit; mark those to fit with split = calibration"
    return f"no row to fit{f': {why}' if why else ''}"


def _fault(studies: Sequence[Study], message: str) -> InputError:
    return InputError([Problem(Place(", ".join(study.name for study in studies)), "", message)])
