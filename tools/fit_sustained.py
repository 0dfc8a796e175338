"""Fit the share of short benchmarks that products keep up in training, to whole steps.

    python tools/fit_sustained.py PRECISION MACHINE[,MACHINE ...] STUDY [STUDY ...] [--strategies NAME[,NAME ...]] [--single]

The machines carry the same device. The one number `matmul.sustained` of that precision is free; the loss is that of
`perfmodel calibrate` (soft L1 of the logarithm of predicted over measured time), over the calibration rows in which products
are predicted to take at least a third of the step. Each study weighs the same, however many rows it has. Prints the errors with the number of the hardware files, with the
fitted one, and the fit as YAML.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, cast

import numpy as np
from fit_dispatch import cases
from scipy.optimize import least_squares

from perfmodel.prediction import predict

if TYPE_CHECKING:
    from perfmodel.job import Job
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Efficiency, Hardware, Products
    from perfmodel.specs.measurement import Measurement

LEAST = 1 / 3
"""Of the step, that products take in the rows of a fit."""
Column = np.ndarray[tuple[int], np.dtype[np.float64]]


def with_sustained(hardware: Hardware, precision: Precision, share: float) -> Hardware:
    """The machine, with the products of one precision at ``share`` of their short benchmark."""
    efficiency = hardware.device.efficiency
    stated = efficiency.products(precision)
    matmul = stated.matmul.model_copy(update={"sustained": share})
    changed: Efficiency
    if precision in efficiency.precisions:
        products: Products = stated.model_copy(update={"matmul": matmul})
        changed = efficiency.model_copy(update={"precisions": {**efficiency.precisions, precision: products}})
    else:
        changed = efficiency.model_copy(update={"matmul": matmul})
    return hardware.model_copy(update={"device": hardware.device.model_copy(update={"efficiency": changed})})


def ratios(found: list[tuple[Job, float]], precision: Precision, share: float) -> Column:
    """Predicted over measured step time."""
    return np.array([
        predict(job.workload, with_sustained(job.hardware, precision, share), job.strategy).step_time / measured
        for job, measured in found
    ])  # fmt: skip


def of_products(job: Job) -> bool:
    """Whether products, recomputed ones among them, take enough of the step."""
    prediction = predict(job.workload, job.hardware, job.strategy)
    seen = sum(prediction.kinds.get(kind, (0.0, 0.0))[1] for kind in ("matmul", "recompute"))
    return seen >= LEAST * prediction.step_time


def main() -> int:
    """Fit one device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("precision")
    parser.add_argument("machines")
    parser.add_argument("studies", nargs="+")
    parser.add_argument("--strategies", default="")
    parser.add_argument("--single", action="store_true", help="rows of one device alone")
    options = parser.parse_args()
    precision = cast("Precision", options.precision)
    machines, strategies = options.machines.split(","), set(filter(None, options.strategies.split(",")))

    def is_wanted(row: Measurement) -> bool:
        named = row.hardware in machines and (not strategies or row.strategy in strategies)
        return named and (not options.single or row.devices == 1)

    found: list[tuple[Job, float]] = []
    weights: list[float] = []
    for study in options.studies:
        rows = [
            (job, t)
            for job, t in cases([study], is_wanted)
            if job.workload.training.precision == precision and of_products(job)
        ]
        found += rows
        weights += [max(len(rows), 1) ** -0.5] * len(rows)
    stated = found[0][0].hardware.device.efficiency.products(precision).matmul.sustained
    balance = np.array(weights) / np.mean(weights)

    def residuals(share: Column) -> Column:
        return np.asarray(balance * np.log(ratios(found, precision, float(share[0]))))

    fit = least_squares(
        residuals, [min(stated, 0.95)], bounds=([0.3], [1.2]), loss="soft_l1", f_scale=0.1, diff_step=[0.01]
    )
    for share in (stated, float(fit.x[0])):
        size = np.abs(ratios(found, precision, share) - 1)
        print(f"median {100 * np.median(size):.1f} %, p90 {100 * np.quantile(size, 0.9):.1f} %")
        print(f"sustained: {share:.3f}  # {len(found)} rows, error {np.median(size):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
