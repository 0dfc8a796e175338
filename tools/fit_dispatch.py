"""Fit the dispatch time of a framework to the calibration rows of studies that ran it.

    python tools/fit_dispatch.py STRATEGY[,STRATEGY ...] STUDY [STUDY ...] [--loop] [--host MACHINE ...]

The dispatch time is the only constant that is free, or with --loop beside that of kernels that follow others in a call, with --host
beside the speed of the hosts of a machine; they minimise the mean absolute error of the step time over those rows, each capped at a
half. Prints the errors without a host, with the fitted one, and the fit as YAML.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfmodel.errors import InputError
from perfmodel.job import Job, load_job
from perfmodel.library import find
from perfmodel.prediction import predict
from perfmodel.specs.hardware import Thread
from perfmodel.specs.measurement import DIRECTNESS
from perfmodel.specs.strategy import Framework
from perfmodel.validation.consistency import implied_step_times
from perfmodel.validation.study import load_studies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perfmodel.specs.measurement import Measurement

    Point = np.ndarray[tuple[int], np.dtype[np.float64]]


def cases(studies: list[str], wanted: Callable[[Measurement], bool]) -> Iterator[tuple[Job, float]]:
    """Jobs of calibration rows that are wanted, with their measured step time."""
    for study in load_studies(studies):
        for rows in study.configurations:
            times = [r.measurement for r in rows if r.measurement.metric in DIRECTNESS]
            if not times or times[0].split != "calibration" or not wanted(times[0]):
                continue
            first = min(times, key=lambda m: DIRECTNESS.index(m.metric))
            try:
                job = load_job(first.workload, first.hardware, first.strategy, first.settings, first.sets)
                yield job, next(implied_step_times(first, predict(job.workload, job.hardware, job.strategy)))[1]
            except InputError:
                continue


@dataclass(frozen=True, slots=True)
class Fit:
    """What is free."""

    dispatch: float
    """us."""
    loop: float | None = None
    """us."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Of the hosts of machines."""

    def step_time(self, job: Job) -> float:
        """As predicted with it, in seconds."""
        loop = None if self.loop is None else 1e-6 * self.loop
        framework = Framework.model_construct(
            name="fit", dispatch=1e-6 * self.dispatch, loop=loop, source="fit", status="fitted"
        )
        hardware, speed = job.hardware, self.speeds.get(job.hardware.name)
        if speed is not None:
            thread = Thread.model_construct(speed=speed, source="fit", status="fitted")
            hardware = hardware.model_copy(update={"host": hardware.host.model_copy(update={"thread": thread})})
        return predict(job.workload, hardware, job.strategy.model_copy(update={"framework": framework})).step_time


def errors(found: list[tuple[Job, float]], fit: Fit) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Logarithms of predicted over measured step time."""
    return np.array([np.log(fit.step_time(job) / measured) for job, measured in found])


def fitted(found: list[tuple[Job, float]], machines: list[str], *, loop: bool) -> Fit:
    """The fit of least error."""

    def fit_of(free: Point) -> Fit:
        values = free.tolist()
        return Fit(values[0], values[1] if loop else None, dict(zip(machines, values[1 + loop :], strict=True)))

    def loss(free: Point) -> float:
        return 1.0 if min(free) <= 0 else float(np.mean(np.minimum(np.abs(errors(found, fit_of(free))), 0.5)))

    starts = [np.array([us, *([us / 3] if loop else []), *(1.0 for _ in machines)]) for us in (50.0, 100.0)]
    tries = (minimize(loss, start, method="Nelder-Mead", options={"xatol": 0.02, "fatol": 1e-5}) for start in starts)
    return fit_of(min(tries, key=lambda best: float(best.fun)).x)


def main() -> int:
    """Fit one framework."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strategies")
    parser.add_argument("studies", nargs="+")
    parser.add_argument("--loop", action="store_true", help="fit the time of a kernel in a loop too")
    parser.add_argument("--host", action="append", default=[], metavar="MACHINE", help="fit the speed of its hosts too")
    options = parser.parse_args()
    wanted = options.strategies.split(",")
    found = list(cases(options.studies, lambda row: row.strategy in wanted))
    if not found:
        parser.error(f"{', '.join(options.studies)}: no calibration row of {options.strategies}")
    best = fitted(found, [find("hardware", name).name for name in options.host], loop=options.loop)
    for name, fit in (("without", Fit(0.0)), ("with", best)):
        size = np.abs(np.expm1(errors(found, fit)))
        print(
            f"{name:8} {len(found)} rows: median {100 * np.median(size):.1f} %, p90 {100 * np.quantile(size, 0.9):.1f} %"
        )
    median = float(np.median(np.abs(np.expm1(errors(found, best)))))
    loop = "" if best.loop is None else f", loop: {best.loop:.1f} us"
    print(
        f"framework: {{dispatch: {best.dispatch:.1f} us{loop}, status: fitted, points: {len(found)}, error: {median:.3f}}}"
    )
    for machine, speed in best.speeds.items():
        rows = [row for row in found if row[0].hardware.name == machine]
        left = float(np.median(np.abs(np.expm1(errors(rows, best)))))
        print(
            f"host.thread of {machine}: {{speed: {speed:.2f}, status: fitted, points: {len(rows)}, error: {left:.3f}}}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
