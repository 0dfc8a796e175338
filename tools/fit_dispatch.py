"""Fit the dispatch time of a framework to the calibration rows of studies that ran it.

    python tools/fit_dispatch.py STRATEGY[,STRATEGY ...] STUDY [STUDY ...] [--loop]

The dispatch time is the only constant that is free, or with --loop beside that of kernels that follow others in a call; they minimise
the mean absolute error of the step time over those rows, each capped at a half. Prints the errors without a host, with the fitted
one, and the fit as YAML.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize, minimize_scalar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfmodel.errors import InputError
from perfmodel.job import Job, load_job
from perfmodel.prediction import predict
from perfmodel.specs.measurement import DIRECTNESS
from perfmodel.specs.strategy import Framework
from perfmodel.validation.consistency import implied_step_times
from perfmodel.validation.study import load_studies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.specs.measurement import Measurement


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


def errors(
    found: list[tuple[Job, float]], dispatch: float, loop: float | None = None
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Logarithms of predicted over measured step time."""
    framework = Framework.model_construct(name="fit", dispatch=dispatch, loop=loop, source="fit", status="fitted")
    strategies = [job.strategy.model_copy(update={"framework": framework}) for job, _ in found]
    return np.array([
        np.log(predict(job.workload, job.hardware, strategy).step_time / measured)
        for (job, measured), strategy in zip(found, strategies, strict=True)
    ])  # fmt: skip


def fitted(found: list[tuple[Job, float]], *, loop: bool) -> list[float]:
    """Seconds of a dispatch, and with ``loop`` of a kernel in a loop."""

    def loss(us: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        if min(us) < 0:
            return 1.0
        return float(np.mean(np.minimum(np.abs(errors(found, *(1e-6 * us))), 0.5)))

    if not loop:
        best = minimize_scalar(
            lambda us: loss(np.array([us])), bounds=(0.0, 200.0), method="bounded", options={"xatol": 0.2}
        )
        return [1e-6 * float(best.x)]
    starts = [(us, us / 3) for us in (50.0, 100.0)]
    found_best = min(
        (minimize(loss, start, method="Nelder-Mead", options={"xatol": 0.5}) for start in starts),
        key=lambda b: float(b.fun),
    )
    return [1e-6 * float(us) for us in found_best.x]


def main() -> int:
    """Fit one framework."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strategies")
    parser.add_argument("studies", nargs="+")
    parser.add_argument("--loop", action="store_true", help="fit the time of a kernel in a loop too")
    options = parser.parse_args()
    wanted = options.strategies.split(",")
    found = list(cases(options.studies, lambda row: row.strategy in wanted))
    best = fitted(found, loop=options.loop)
    for name, times in (("without", [0.0] * len(best)), ("with", best)):
        size = np.abs(np.expm1(errors(found, *times)))
        print(
            f"{name:8} {len(found)} rows: median {100 * np.median(size):.1f} %, p90 {100 * np.quantile(size, 0.9):.1f} %"
        )
    median = float(np.median(np.abs(np.expm1(errors(found, *best)))))
    constants = ", ".join(
        f"{name}: {1e6 * time:.1f} us" for name, time in zip(("dispatch", "loop"), best, strict=False)
    )
    print(f"framework: {{{constants}, status: fitted, points: {len(found)}, error: {median:.3f}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
