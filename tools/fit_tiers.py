"""Fit the tiers of hardware/*.yaml to published collectives.

    python tools/fit_tiers.py [DATA]

DATA is the shared data folder (default ../shared/data). Prints the efficiency and latency of each tier as a commented line of
YAML, with the median error on held-out sizes: every third, by a seeded hash. Least squares on the logarithm of predicted
over measured time (soft L1), by the all-reduce formula of the package.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import math
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

from perfmodel.formulas.collectives import all_reduce

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SEED = "perfmodel-1"
SMALL = 16384.0
"""Messages (in bytes) up to this size are all latency."""


@dataclass(frozen=True)
class Link:
    """A tier to fit on all-reduces: of one unit, or of several units around a tier that is fitted already."""

    name: str
    table: str
    hardware: str
    devices: int
    bandwidth: float
    """Per device and per direction."""
    library: str = ""
    inside: int = 1
    """Devices of the tier inside, with its latency."""
    inside_latency: float = 0.0
    known: float | None = None
    """The efficiency, where the plateau of large messages gives it: a fit would trade it against the latency."""


COLLECTIVES, COLLECTIVES_MORE = "collectives/collectives.csv.gz", "collectives/collectives_more.csv.gz"
LINKS = (
    Link("dgx-2 NVSwitch", COLLECTIVES_MORE, "NVIDIA DGX-2", 16, 150e9, "NCCL via MPI", known=0.81),
    Link("dgx-1 cube mesh (P100)", COLLECTIVES_MORE, "NVIDIA DGX-1 (8x P100-SXM2-16GB) / NVLink1", 8, 80e9),
    Link("ac922 socket", COLLECTIVES_MORE, "IBM AC922 (Yme", 2, 75e9, "NCCL single proces"),
    Link("ac922 X-Bus", COLLECTIVES_MORE, "IBM AC922 (Yme", 4, 16e9, "NCCL single proces", 2, 5e-6),
    Link("a100 NVSwitch", COLLECTIVES_MORE, "8x A100-SXM4-40GB", 8, 300e9, known=0.78),
    Link("a100 NVSwitch, graph", COLLECTIVES, "a100_sxm", 8, 300e9, "NCCL 2.27.3", known=0.78),
    Link("h100 NVSwitch", COLLECTIVES, "h100_sxm", 8, 450e9, "NCCL 2.27.3", known=0.82),
    Link("h200 NVSwitch", COLLECTIVES, "h200_sxm", 8, 450e9, "NCCL 2.26.2", known=0.82),
    Link("b200 NVSwitch", COLLECTIVES, "b200_sxm", 8, 900e9, "NCCL 2.27.3", known=0.72),
    Link("gb200 NVL72", COLLECTIVES, "sm_100_GB200: 72 devices as 1", 72, 900e9, known=0.75),
    Link("h100 InfiniBand", COLLECTIVES_MORE, "Nebius", 16, 50e9, "", 8, 3.4e-6, known=0.95),
    Link("b200 InfiniBand", COLLECTIVES_MORE, "Lambda 1CC", 16, 50e9, "", 8, 4.5e-6, known=0.95),
    Link("p3dn EFA", COLLECTIVES_MORE, "AWS p3dn.24xlarge (8x V100-SXM2-32GB)", 16, 1.5625e9, "", 8, 5e-6, known=0.7),
    Link("p4de EFA", COLLECTIVES_MORE, "AWS p4de", 16, 6.25e9, "", 8, 5e-6, known=0.78),
    Link("2080 ti PCIe", COLLECTIVES_MORE, "2x RTX 2080 Ti / PCIe", 2, 15.75e9),
    Link("EDR, 1 GPU per node", COLLECTIVES_MORE, "ORNL SummitDev", 8, 12.5e9),
)


def fit_link(data: Path, link: Link) -> str:
    """Efficiency and latency of the all-reduce of the package, as one commented line of YAML."""
    sizes, times = [], []
    with gzip.open(data / link.table, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            wanted = row["hardware"].startswith(link.hardware) and row["library"].startswith(link.library)
            here = row["collective"] == "all_reduce" and row["devices"] == str(link.devices)
            if wanted and here and row["split"] == "calibration" and float(row["time_us"] or 0) > 0:
                sizes.append(float(row["bytes"]))
                times.append(float(row["time_us"]) * 1e-6)
    size, time, n, inside = np.array(sizes), np.array(times), link.devices, link.inside
    held = np.array([hashlib.sha256(f"{SEED}:{x}".encode()).digest()[0] % 3 == 0 for x in sizes])

    def predict(x: Array, some: Array) -> Array:
        efficiency, latency = link.known or x[0], x[1] * 1e-6
        ring = ((n / inside - 1) * latency + (n - n / inside) * link.inside_latency) / (n - 1)
        tree = (np.log2(n / inside) * latency + np.log2(inside) * link.inside_latency) / np.log2(n)
        bandwidth = link.bandwidth * inside * efficiency
        return np.asarray(all_reduce(size=some, ranks=n, bandwidth=bandwidth, latency=ring, tree_latency=tree))

    def residuals(x: Array) -> Array:
        return np.asarray(np.log(predict(x, size[~held]) / time[~held]))

    plateau = float(np.max(2 * (n - 1) / n * size / time)) / 1e9
    found = least_squares(residuals, [0.7, 3.0], bounds=([0.01, 0.1], [1.0, 900.0]), loss="soft_l1", f_scale=0.1)
    errors = np.abs(predict(found.x, size[held]) / time[held] - 1) if held.any() else np.array([np.nan])
    return (
        f"# {link.name:24} efficiency: {link.known or found.x[0]:.3f}, latency: {found.x[1]:.1f} us, "
        f"points: {len(sizes)}, error: {np.median(errors):.3f}, p90 {np.quantile(errors, 0.9):.3f}; "
        f"best bus bandwidth {plateau:.0f} GB/s, shortest {time.min() * 1e6:.0f} us"
    )


def fit_nodes(data: Path) -> str:
    """Efficiency and latency of 8 x 400 Gbit/s per node, on the curves of Fernandez et al. for 4 to 512 nodes."""
    ranks, sizes, rates = [], [], []
    with (data / "systems_a.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            label = re.search(r"(\d+)([KMG])iB", row["model"])
            if row["arxiv"] == "2411.13055" and row["metric"] == "allreduce_busbw" and label:
                ranks.append(float(row["devices"]))
                sizes.append(float(label[1]) * 1024 ** (" KMG".index(label[2])))
                rates.append(float(row["value"]) * 1e9)
    n, size = np.array(ranks), np.array(sizes)
    time = 2 * (n - 1) / n * size / np.array(rates)
    held = np.array(
        [hashlib.sha256(f"{SEED}:{pair}".encode()).digest()[0] % 3 == 0 for pair in zip(n, size, strict=True)]
    )
    inside = 3.2e-6

    def predict(x: Array, some: Array) -> Array:
        nodes = n[some] / 8
        ring = ((nodes - 1) * x[1] * 1e-6 + (n[some] - nodes) * inside) / (n[some] - 1)
        tree = (np.log2(nodes) * x[1] * 1e-6 + 3 * inside) / np.log2(n[some])
        return np.asarray(
            all_reduce(size=size[some], ranks=n[some], bandwidth=400e9 * x[0], latency=ring, tree_latency=tree)
        )

    def residuals(x: Array) -> Array:
        return np.asarray(np.log(predict(x, ~held) / time[~held]))

    found = least_squares(residuals, [0.8, 20.0], bounds=([0.1, 0.1], [1.0, 900.0]), loss="soft_l1", f_scale=0.1)
    errors = np.abs(predict(found.x, held) / time[held] - 1)
    return (
        f"# {'h100 nodes, 4 to 512':24} efficiency: {found.x[0]:.3f}, latency: {found.x[1]:.1f} us, "
        f"points: {len(time)}, error: {np.median(errors):.3f}, p90 {np.quantile(errors, 0.9):.3f}"
    )


def small_messages(data: Path, hardware: str, library: str) -> str:
    """Latency of one step of a tree, from messages that are all latency."""
    steps = []
    with gzip.open(data / COLLECTIVES_MORE, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            here = row["hardware"].startswith(hardware) and row["library"].startswith(library)
            wanted = row["collective"] == "all_reduce" and row["split"] == "calibration" and row["time_us"]
            if here and wanted and 0 < float(row["bytes"]) <= SMALL and row["devices"] in {"2", "4", "8", "16"}:
                steps.append(float(row["time_us"]) / (2 * math.log2(float(row["devices"]))))
    return f"# {hardware:24} small messages: {statistics.median(steps):.1f} us per step of a tree ({len(steps)})"


def main() -> int:
    """Print every tier."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data"), help="the shared data folder")
    data = parser.parse_args().data
    for link in LINKS:
        print(fit_link(data, link))
    print(fit_nodes(data))
    for hardware in ("NVIDIA DGX-2", "IBM AC922 (Yme", "IBM AC922 (MiniSummit"):
        print(small_messages(data, hardware, "NCCL via C3SR"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
