"""Fit the share of a fabric's bandwidth that a machine's jobs reach to whole steps.

    python tools/fit_fabric.py MACHINE TIER STUDY [STUDY ...] [--every N]

For fabrics without a table of collectives whose jobs are bound by it. TIER counts from 0, the innermost. Takes calibration
rows of the studies on the machine, every Nth of them, and minimises the mean absolute logarithm of predicted over measured step
time, each capped at a half; studies weigh equally. Prints the errors with the efficiency of the file and with the fitted one,
and the fit as YAML.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fit_dispatch import cases

from perfmodel.prediction import predict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfmodel.job import Job


def with_efficiency(job: Job, tier: int, efficiency: float) -> Job:
    """The job on a fabric of another efficiency."""
    network = list(job.hardware.network)
    network[tier] = network[tier].model_copy(update={"efficiency": efficiency})
    return replace(job, hardware=job.hardware.model_copy(update={"network": tuple(network)}))


def errors(found: list[tuple[Job, float]], tier: int, efficiency: float | None) -> NDArray[np.float64]:
    """Logarithms of predicted over measured step time."""
    jobs = ((job if efficiency is None else with_efficiency(job, tier, efficiency), time) for job, time in found)
    return np.array([np.log(predict(job.workload, job.hardware, job.strategy).step_time / time) for job, time in jobs])


def main() -> int:
    """Fit one tier."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("tier", type=int)
    parser.add_argument("studies", nargs="+")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    found = [
        list(cases([study], lambda row: row.hardware == options.machine))[:: options.every] for study in options.studies
    ]

    def loss(log_efficiency: float) -> float:
        each = [np.mean(np.minimum(np.abs(errors(rows, options.tier, np.exp(log_efficiency))), 0.5)) for rows in found]
        return float(np.mean(each))

    best = minimize_scalar(loss, bounds=(np.log(0.01), 0.0), method="bounded", options={"xatol": 0.02})
    efficiency = float(np.exp(best.x))
    every = [row for rows in found for row in rows]
    for name, value in (("as it is", None), ("fitted", efficiency)):
        size = np.abs(np.expm1(errors(every, options.tier, value)))
        print(
            f"{name:8} {len(every)} rows: median {100 * np.median(size):.1f} %, p90 {100 * np.quantile(size, 0.9):.1f} %"
        )
    print(f"efficiency: {efficiency:.3g}, points: {len(every)}, error: {np.median(size):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
