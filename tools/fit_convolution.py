"""Fit the convolution share of each chip and precision to whole steps of single devices.

    python tools/fit_convolution.py [--chip CHIP] [--workload NAME] [--streaming] [--devices N] [--without TEXT] STUDY [STUDY ...]

Boards with the same chip share one constant (CHIPS). It is the only one that is free, but for the share of the memory
bandwidth with --streaming, for a chip without a table of kernels; the loss is that of `perfmodel calibrate` (soft L1 of the
logarithm of predicted over measured time), over the calibration rows of convolutional networks on one device. Runs of
one configuration count once, by their median; --without leaves out those whose address or notes hold a text, as of software
older than the chip. Prints for each chip and precision the errors with the shares of the hardware files and the fit as
YAML. The shares in the hardware files come from lambda-pytorch, lambda-tensorflow, timm, deeplearningexamples, dlperf,
mxnet, misc, tf-cnn-benchmarks, jcjohnson-cnn and soumith-convnet, that of T4 in fp16 from pollux.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from fit_dispatch import cases
from scipy.optimize import least_squares

from perfmodel.prediction import predict
from perfmodel.specs.hardware import OtherProducts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfmodel.job import Job
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Hardware
    from perfmodel.specs.measurement import Measurement

    Column = np.ndarray[tuple[int], np.dtype[np.float64]]

CHIPS = {
    "GK210": ("aws-p2-8xlarge", "aws-p2-16xlarge"),
    "GM200": ("titan-x-maxwell",),
    "GM204": ("aws-g3-16xlarge",),
    "GP102": ("titan-x-pascal", "gtx-1080ti", "p40-8gpu", "gtx-1080"),
    "GP100": ("dgx-1-p100",),
    "GV100": (
        "dgx-1-v100-16gb", "dgx-1-v100", "dgx-2", "dgx-2h", "ac922-4gpu", "ac922-6gpu", "aws-p3-16xlarge",
        "aws-p3dn-24xlarge", "jean-zay-v100", "v100-8gpu-pcie", "v100s-8gpu-pcie", "titan-v",
    ),
    "TU102 GeForce": ("rtx-2080ti-8gpu-pcie", "exxact-2080ti", "pcie-4gpu-100gbe", "pcie-4gpu-100gib", "pcie-4gpu-10gbe"),
    "TU102 Quadro": ("quadro-rtx-8000-8gpu-pcie", "quadro-rtx-8000-8gpu-nvlink"),
    "TU104 T4": ("aws-g4dn-12xlarge",),
    "GA100": ("dgx-a100-40gb", "dgx-a100-80gb", "a100-pcie-40gb", "a100-pcie-80gb", "jean-zay-a100", "aws-p4d-24xlarge", "aws-p4de-24xlarge", "a800-8gpu"),
    "GA102 GeForce": ("rtx-3090-8gpu-pcie", "rtx-3080-2gpu-pcie"),
    "GA104 GeForce": ("rtx-3070-2gpu-pcie",),
    "GA102 RTX": ("rtx-a6000-8gpu-pcie", "rtx-a5000-2gpu-nvlink"),
    "GA102 A10": ("a10-8gpu-pcie",),
    "AD102 GeForce": ("rtx-4090-2gpu-pcie",),
    "AD102 RTX": ("rtx-6000-ada-8gpu-pcie",),
    "AD104 L4": ("l4-8gpu-pcie",),
    "GH100": (
        "dgx-h100", "dgx-h200", "h100-pcie", "h200-4gpu", "grand-teton-h100-96gb", "aws-p5-48xlarge", "aws-p5en-48xlarge",
        "azure-nd-h100-v5", "gcp-a3-high", "gcp-a3-mega", "h800-8gpu", "gh200-96gb", "gh200-nvl2", "gh200-nvl32", "alps-gh200",
    ),
    "GB100": ("dgx-b200", "aws-p6-b200-48xlarge"),
    "Vega 20": ("radeon-pro-vii-2gpu-pcie",),
}  # fmt: skip
"""Machines by chip; where tensor cores add up in fp32 at half of their rate (GeForce), the chip counts as another."""


def with_shares(hardware: Hardware, precision: Precision, shares: Column) -> Hardware:
    """The machine, with the convolutions of one precision, and perhaps the streams, at ``shares`` of the peaks."""
    efficiency = hardware.device.efficiency
    products = efficiency.products(precision)
    convolution = products.convolution.model_copy(update={"fraction": float(shares[0])})
    changed = OtherProducts.model_construct(matmul=products.matmul, convolution=convolution)
    update: dict[str, object] = {"precisions": {**efficiency.precisions, precision: changed}}
    for share in shares[1:]:
        update["streaming"] = efficiency.streaming.model_copy(update={"fraction": float(share)})
    efficiency = efficiency.model_copy(update=update)
    return hardware.model_copy(update={"device": hardware.device.model_copy(update={"efficiency": efficiency})})


def ratios(found: list[tuple[Job, float]], precision: Precision, shares: Column) -> Column:
    """Predicted over measured step time."""
    return np.array([
        predict(job.workload, with_shares(job.hardware, precision, shares), job.strategy).step_time / measured
        for job, measured in found
    ])  # fmt: skip


def configurations(rows: Iterable[tuple[Job, float]]) -> list[tuple[Job, float]]:
    """Each job once, with the median of its step times."""
    jobs: dict[str, Job] = {}
    times: dict[str, list[float]] = defaultdict(list)
    for job, measured in rows:
        key = f"{job.workload!r} {job.hardware!r} {job.strategy!r}"
        jobs.setdefault(key, job)
        times[key].append(measured)
    return [(job, float(np.median(times[key]))) for key, job in jobs.items()]


def fit(found: list[tuple[Job, float]], precision: Precision, *, streaming: bool) -> tuple[Column, Column]:
    """The shares that the hardware files state, and those that fit best."""
    efficiency = found[0][0].hardware.device.efficiency
    shares = [efficiency.products(precision).convolution.fraction, efficiency.streaming.fraction]
    stated = np.array(shares[: 2 if streaming else 1], dtype=float)

    def residuals(shares: Column) -> Column:
        return np.log(ratios(found, precision, shares))

    start = np.minimum(stated, 0.95)
    best = least_squares(
        residuals, start, bounds=(0.05, 1.0), loss="soft_l1", f_scale=0.1, diff_step=np.full_like(start, 0.01)
    )
    return stated, best.x


def main() -> int:
    """Fit every chip that has rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chip", choices=CHIPS)
    parser.add_argument("--workload", help="one network, where hosts bind the others of a study")
    parser.add_argument("--streaming", action="store_true")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="rows of up to N devices; 8 for one host")
    parser.add_argument("--without", default="\n")
    parser.add_argument("studies", nargs="+")
    options = parser.parse_args()
    wanted = {options.chip: CHIPS[options.chip]} if options.chip else CHIPS
    chips = {machine: chip for chip, machines in wanted.items() for machine in machines}
    groups: dict[tuple[str, Precision], list[tuple[Job, float]]] = defaultdict(list)

    def is_wanted(row: Measurement) -> bool:
        named = options.workload in {None, row.workload}
        return (
            named
            and (row.devices or 1) <= options.devices
            and row.hardware in chips
            and options.without not in f"{row.address} {row.notes}"
        )

    for job, measured in cases(options.studies, is_wanted):
        if job.workload.model.family == "convnet":
            groups[chips[str(job.hardware.name)], job.workload.training.precision].append((job, measured))
    for (chip, precision), rows in sorted(groups.items()):
        found = configurations(rows)
        print(f"{chip} {precision}")
        for shares in fit(found, precision, streaming=options.streaming):
            size = np.abs(ratios(found, precision, shares) - 1)
            print(f"  convolution: {{fraction: {shares[0]:.3f}, points: {len(found)}, error: {np.median(size):.3f}}}")
            for share in shares[1:]:
                print(f"  streaming: {{fraction: {share:.3f}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
