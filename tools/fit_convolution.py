"""Fit the convolution share of a device to whole steps, where its kernel table contradicts the networks.

    python tools/fit_convolution.py PRECISION MACHINE[,MACHINE ...] STUDY [STUDY ...]

The machines carry the same device. Its one share of the peak in that precision is free; the loss is that of
fit_efficiency.py (soft L1 of the logarithm of predicted over measured time), over the calibration rows of convolutional
networks. Prints the errors with the share of the hardware files, with the fitted one, and the fit as YAML.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np
from fit_dispatch import cases
from scipy.optimize import least_squares

from perfmodel.prediction import predict

if TYPE_CHECKING:
    from perfmodel.job import Job
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Hardware


def with_share(hardware: Hardware, precision: Precision, share: float) -> Hardware:
    """The machine, with the convolutions of one precision at ``share`` of the peak."""
    efficiency = hardware.device.efficiency
    products = efficiency.precisions[precision]
    changed = products.model_copy(update={"convolution": products.convolution.model_copy(update={"fraction": share})})
    efficiency = efficiency.model_copy(update={"precisions": {**efficiency.precisions, precision: changed}})
    return hardware.model_copy(update={"device": hardware.device.model_copy(update={"efficiency": efficiency})})


def ratios(
    found: list[tuple[Job, float]], precision: Precision, share: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Predicted over measured step time."""
    return np.array([
        predict(job.workload, with_share(job.hardware, precision, share), job.strategy).step_time / measured
        for job, measured in found
    ])  # fmt: skip


def main() -> int:
    """Fit one device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("precision")
    parser.add_argument("machines")
    parser.add_argument("studies", nargs="+")
    options = parser.parse_args()
    machines = options.machines.split(",")
    rows = cases(options.studies, lambda row: row.hardware in machines)
    found = [
        (job, measured) for job, measured in rows
        if job.workload.model.family == "convnet" and job.workload.training.precision == options.precision
    ]  # fmt: skip
    stated = found[0][0].hardware.device.efficiency.products(options.precision).convolution.fraction

    def residuals(share: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.log(ratios(found, options.precision, float(share[0])))

    fit = least_squares(residuals, [stated], bounds=([0.1], [1.0]), loss="soft_l1", f_scale=0.1, diff_step=[0.01])
    for share in (stated, float(fit.x[0])):
        size = np.abs(ratios(found, options.precision, share) - 1)
        print(f"median {100 * np.median(size):.1f} %, p90 {100 * np.quantile(size, 0.9):.1f} %")
        print(f"convolution: {{fraction: {share:.3f}, points: {len(found)}, error: {np.median(size):.3f}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
