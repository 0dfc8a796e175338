"""Fit the efficiency constants of hardware/*.yaml to published kernel timings.

    python tools/fit_efficiency.py [DATA] [--only WORD]

DATA is the shared data folder (default ../shared/data). Only constants leave this script, as YAML groups on
standard output; each with the number of timings used and the median error on held-out shapes. A table of the
median and the 90th percentile follows as comments.

Method: least squares on the logarithm of predicted over measured time (soft L1, so that a few odd kernels do not
rule), one source per fit. Where a table is split, only its calibration rows are read; of these a third of the
*shapes*, chosen by a seeded hash, is held out and judged. The products are predicted by
`perfmodel.formulas.matmul.tiled_matmul` itself. A fit of products keeps the streaming fraction of its device fixed
where memory-bound kernels gave one, and the launch time is that of the products: one kernel in a stream of kernels.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import math
import re
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfmodel.formulas.attention import flash_attention
from perfmodel.formulas.collectives import all_reduce
from perfmodel.formulas.matmul import tiled_matmul
from perfmodel.formulas.roofline import streaming
from perfmodel.specs.hardware import MatmulEfficiency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SEED = "perfmodel-1"
LEAST_SIDE = 64
"""Products with a shorter side are inference of one token, or a vector; training has none that matter."""
LEAST_QUERIES = 256
"""Shorter prefills are inference."""
NO_SHARE = 0.8
"""Of the memory bandwidth, in fits of devices without memory-bound timings."""
SMALL = 16384.0
"""Messages (in bytes) up to this size are all latency."""
MOST = 0.95
"""No table holds a product that keeps more than this of the dense peak: an upper bound of `fraction`."""
TILES: tuple[tuple[int, int], ...] = MatmulEfficiency.model_fields["tiles"].default


@dataclass(frozen=True)
class Part:
    """What a datasheet says of the device that was timed: the fit is relative to this."""

    peak: float
    cores: int
    bandwidth: float


@dataclass(frozen=True)
class Plan:
    """One fit: the rows to take, and the device that they were timed on."""

    name: str
    part: Part
    table: str
    device: str
    source: str = ""
    precision: str = ""
    element: float = 2.0
    tiles: tuple[tuple[int, int], ...] = TILES
    least_bytes: float = 0.0
    """Of memory-bound kernels: smaller ones are served by a cache."""
    library: str = ""
    """Of attention: words in its name."""


PARTS = {
    "v100-sxm2": Part(125e12, 80, 898e9),
    "v100-sxm2 fp32": Part(15.67e12, 80, 898e9),
    "v100-sxm3": Part(125e12, 80, 981e9),
    "v100-sxm3 fp32": Part(15.67e12, 80, 981e9),
    "v100-pcie fp32": Part(14.13e12, 80, 897e9),
    "titan-rtx fp32": Part(16.31e12, 72, 672e9),
    "titan-rtx": Part(130.5e12, 72, 672e9),
    "t4 fp32": Part(8.141e12, 40, 320e9),
    "t4": Part(65.13e12, 40, 320e9),
    "p100 fp32": Part(10.61e12, 56, 732e9),
    "p100-pcie fp32": Part(9.526e12, 56, 732e9),
    "titan-x fp32": Part(6.691e12, 24, 336.6e9),
    "titan-x-pascal fp32": Part(10.97e12, 28, 480.4e9),
    "1080ti fp32": Part(11.34e12, 28, 484.4e9),
    "a100-40gb": Part(312e12, 108, 1560e9),
    "a100-40gb fp32": Part(19.5e12, 108, 1560e9),
    "a100-80gb": Part(312e12, 108, 2039e9),
    "a100-80gb-pcie fp32": Part(19.5e12, 108, 1940e9),
    "h100": Part(989e12, 132, 3350e9),
    "h200": Part(989e12, 132, 4800e9),
    "b200": Part(2250e12, 148, 7700e9),
    "gb200": Part(2500e12, 152, 8000e9),
    "mi300x": Part(1307.4e12, 304, 5300e9),
    "mi250x": Part(191.5e12, 110, 1640e9),
    "mi210 fp32": Part(22.6e12, 104, 1638e9),
    "knl": Part(6.093e12, 68, 450e9),
    "tpu7x": Part(1153.5e12, 2, 3685e9),
}
GEMM, MORE, CONV, MEMORY, ATTENTION, ROCBLAS = (
    f"kernels/{name}.csv.gz"
    for name in ("gemm", "dgx2_ac922_and_more", "conv", "memory_bound", "attention", "gemm_rocblas_efficiency")
)
DGX2, YME, RTX = "NVIDIA V100-SXM3-32GB (DGX-2)", "NVIDIA V100-SXM2 (IBM AC922 Yme)", "NVIDIA Titan RTX"
AICONFIGURATOR = "AIConfigurator silicon db"
MIB = 2.0**20

STREAMING = (
    Plan("a100-80gb", PARTS["a100-80gb-pcie fp32"], MEMORY, "NVIDIA A100 80GB PCIe", "NeuSight", least_bytes=80 * MIB),
    Plan("a100-40gb", PARTS["a100-40gb"], MEMORY, "NVIDIA A100-PCIE-40GB", "NeuSight", least_bytes=80 * MIB),
    Plan("h100", PARTS["h100"], MEMORY, "NVIDIA H100 80GB HBM3", AICONFIGURATOR, least_bytes=100 * MIB),
    Plan("h200", PARTS["h200"], MEMORY, "NVIDIA H200", AICONFIGURATOR, least_bytes=100 * MIB),
    Plan("b200", PARTS["b200"], MEMORY, "NVIDIA B200", AICONFIGURATOR, least_bytes=250 * MIB),
    Plan("gb200", PARTS["gb200"], MEMORY, "NVIDIA GB200", AICONFIGURATOR, least_bytes=250 * MIB),
    Plan("v100-pcie", PARTS["v100-pcie fp32"], MEMORY, "Tesla V100-PCIE-32GB", "NeuSight", least_bytes=12 * MIB),
    Plan("t4", PARTS["t4 fp32"], MEMORY, "Tesla T4", "NeuSight", least_bytes=8 * MIB),
    Plan("mi210", PARTS["mi210 fp32"], MEMORY, "AMD Instinct MI210", "NeuSight", least_bytes=16 * MIB),
    Plan("p100-pcie", PARTS["p100-pcie fp32"], MEMORY, "Tesla P100-PCIE-16GB", "NeuSight", least_bytes=8 * MIB),
)
MATMUL = (
    Plan("a100-80gb", PARTS["a100-80gb"], GEMM, "NVIDIA A100-SXM4-80GB", "Vidur", "fp16"),
    Plan("a100-80gb aic", PARTS["a100-80gb"], GEMM, "NVIDIA A100-SXM4-80GB", AICONFIGURATOR, "bf16"),
    Plan("h100", PARTS["h100"], GEMM, "NVIDIA H100 80GB HBM3", AICONFIGURATOR, "bf16"),
    Plan("h100 vidur", PARTS["h100"], GEMM, "NVIDIA H100 80GB HBM3", "Vidur", "fp16"),
    Plan("h200", PARTS["h200"], GEMM, "NVIDIA H200", AICONFIGURATOR, "bf16"),
    Plan("b200", PARTS["b200"], GEMM, "NVIDIA B200", AICONFIGURATOR, "bf16"),
    Plan("b200 simumax", PARTS["b200"], GEMM, "NVIDIA B200", "SimuMax", "bf16"),
    Plan("gb200", PARTS["gb200"], GEMM, "NVIDIA GB200", AICONFIGURATOR, "bf16"),
    Plan("v100", PARTS["v100-sxm2"], GEMM, "NV_V100", "DeepBench train", "fp16"),
    Plan("v100-sxm3", PARTS["v100-sxm3"], MORE, DGX2, "SP19", "FP16 tensor cores enabled"),
    Plan("v100-sxm2", PARTS["v100-sxm2"], MORE, YME, "SP19", "FP16 tensor cores enabled"),
    Plan("v100-sxm3 fp32", PARTS["v100-sxm3 fp32"], MORE, DGX2, "SP19", "FP32 no tensor cores", 4.0),
    Plan("titan-rtx fp32", PARTS["titan-rtx fp32"], MORE, RTX, "SP19", "FP32 no tensor cores", 4.0),
    Plan("titan-rtx", PARTS["titan-rtx"], MORE, RTX, "SP19", "FP16 tensor cores enabled"),
    Plan("t4 fp32", PARTS["t4 fp32"], GEMM, "NV_T4", "DeepBench train", "fp32", 4.0),
    Plan("t4", PARTS["t4"], GEMM, "NV_T4", "DeepBench train", "fp16"),
    Plan("p100 fp32", PARTS["p100 fp32"], GEMM, "NV_P100", "DeepBench train", "fp32", 4.0),
    Plan("p100-pcie fp32", PARTS["p100-pcie fp32"], GEMM, "Tesla P100-PCIE-16GB", "NeuSight", "fp32", 4.0),
    Plan("titan-x fp32", PARTS["titan-x fp32"], GEMM, "NV_TitanX", "DeepBench train", "fp32", 4.0),
    Plan("titan-x-pascal fp32", PARTS["titan-x-pascal fp32"], GEMM, "NV_TitanX_Pascal", "DeepBench train", "fp32", 4.0),
    Plan("1080ti fp32", PARTS["1080ti fp32"], GEMM, "NV_1080Ti", "DeepBench train", "fp32", 4.0),
    Plan("mi300x", PARTS["mi300x"], GEMM, "AMD MI300X class (gfx942)", "XLA", "bf16"),
    Plan("knl", PARTS["knl"], GEMM, "IA_KNL7250", "DeepBench train", "fp32", 4.0),
    Plan("tpu7x", PARTS["tpu7x"], MORE, "TPU7x (per device = half chip)", "Google", "BF16", tiles=((256, 256),)),
    Plan("mi250x", PARTS["mi250x"], ROCBLAS, "AMD MI200 (one GCD)", "rocBLAS", "bf16"),
)
CONVOLUTION = (
    Plan("v100", PARTS["v100-sxm2"], CONV, "NV_V100", "DeepBench train", "fp16"),
    Plan("v100-sxm3", PARTS["v100-sxm3"], MORE, DGX2, "SP19", "FP16 tensor cores enabled"),
    Plan("v100-sxm2", PARTS["v100-sxm2"], MORE, YME, "SP19", "FP16 tensor cores enabled"),
    Plan("v100-sxm3 fp32", PARTS["v100-sxm3 fp32"], MORE, DGX2, "SP19", "FP32 no tensor cores", 4.0),
    Plan("titan-rtx fp32", PARTS["titan-rtx fp32"], MORE, RTX, "SP19", "FP32 no tensor cores", 4.0),
    Plan("titan-rtx", PARTS["titan-rtx"], MORE, RTX, "SP19", "FP16 tensor cores enabled"),
    Plan("t4 fp32", PARTS["t4 fp32"], CONV, "NV_T4", "DeepBench train", "fp32", 4.0),
    Plan("t4", PARTS["t4"], CONV, "NV_T4", "DeepBench train", "fp16"),
    Plan("titan-x fp32", PARTS["titan-x fp32"], CONV, "NV_TitanX", "DeepBench train", "fp32", 4.0),
    Plan("titan-x-pascal fp32", PARTS["titan-x-pascal fp32"], CONV, "NV_TitanX_Pascal", "DeepBench train", "fp32", 4.0),
    Plan("knl", PARTS["knl"], CONV, "IA_KNL7250", "DeepBench train", "fp32", 4.0),
)


@dataclass(frozen=True)
class Timing:
    """One measured kernel: a product, an implicit product or a stream."""

    shape: tuple[float, ...]
    time: float
    traffic: float
    rows: float = 0.0
    columns: float = 0.0
    depth: float = 0.0
    count: float = 1.0

    @property
    def held_out(self) -> bool:
        """Every third shape, by a hash that does not depend on the order of the rows."""
        digest = hashlib.sha256(f"{SEED}:{self.shape}".encode()).digest()
        return digest[0] % 3 == 0


@dataclass
class Fit:
    """Constants with their error on shapes that the fit has not seen."""

    plan: Plan
    group: str
    constants: dict[str, float]
    points: int
    median: float
    p90: float
    launch: float = 0.0

    def yaml(self) -> str:
        """The groups as they stand in a hardware file (source is to be named there)."""
        values = ", ".join(f"{key}: {value}" for key, value in self.constants.items())
        tail = f"status: fitted, points: {self.points}, error: {self.median:.3f}"
        lines = [f"{self.group}: {{{values}, {tail}}}"]
        if self.launch:
            lines.append(f"launch: {{time: {self.launch * 1e6:.1f} us, {tail}}}")
        return "\n".join(lines)


def rows_of(data: Path, plan: Plan) -> Iterator[dict[str, str]]:
    """Calibration rows of one table that belong to the plan."""
    with gzip.open(data / plan.table, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            if row.get("split", "calibration") != "calibration" or row["device"] != plan.device:
                continue
            if row["source"].startswith(plan.source) and plan.precision in ("", row["precision"]):
                yield row


def products(data: Path, plan: Plan) -> list[Timing]:
    """Matrix products with no short side; the median of a shape that was timed several times."""
    times: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for row in rows_of(data, plan):
        if plan.table == MORE:
            if row["kind"] != "gemm":
                continue
            sizes = dict(pair.split("=") for pair in row["params"].split())
            m, n, k, b = float(sizes["M"]), float(sizes["N"]), float(sizes["K"]), 1.0
        else:
            m, n, k, b = (float(row[key] or 1) for key in ("m", "n", "k", "batch"))
        if plan.table == ROCBLAS:
            share = float(row["value"]) / 100 if row["unit"] == "pct_of_peak" else 0.0
            time = 2 * m * n * k * b / (share * plan.part.peak) if share > 0 else 0.0
        else:
            time = float(row["time_us"] or 0) * 1e-6
        if min(m, n, k) >= LEAST_SIDE and time > 0:
            times[m, n, k, b].append(time)
    return [
        Timing((m, n, k, b), statistics.median(seen), plan.element * b * (m * k + k * n + m * n), m, n, k, b)
        for (m, n, k, b), seen in times.items()
    ]


def convolutions(data: Path, plan: Plan) -> list[Timing]:
    """Convolutions as implicit products, as `perfmodel.graph.ops.Conv2d` states them."""
    timings = []
    for row in rows_of(data, plan):
        if plan.table == MORE:
            if row["kind"] != "conv2d":
                continue
            size = {key: float(value) for key, value in (pair.split("=") for pair in row["params"].split())}
            n, c, h, w, k, r, s = (size[key] for key in "NCHWKRS")
            strides, pads = (size["Vertical_stride"], size["Horizontal_stride"]), (size["pad_h"], size["pad_w"])
            kind = {"fwd": "fwd", "bwd_data": "dgrad", "bwd_weights": "wgrad"}[row["pass"]]
        else:
            n, c, h, w, k, r, s = (float(row[key]) for key in ("n", "c", "h", "w", "k", "r", "s"))
            strides = float(row["stride_h"]), float(row["stride_w"])
            pads, kind = (float(row["pad_h"]), float(row["pad_w"])), row["pass"]
        high, wide = ((x + 2 * p - f) // t + 1 for x, p, f, t in zip((h, w), pads, (r, s), strides, strict=True))
        pixels, depth = n * high * wide, c * r * s
        traffic = plan.element * (n * c * h * w + pixels * k + k * depth)
        sides = {
            "fwd": (pixels, k, depth),
            "wgrad": (depth, k, pixels),
            "dgrad": (n * h * w, c, k * r * s * high * wide / (h * w)),
        }[kind]
        if plan.element > 2 and plan.name != "knl" and (r, s) == (3, 3) and high * wide == h * w:
            m, n_, d = sides
            sides = (m, n_, d * 16 / 36)  # Winograd, as `perfmodel.cost.compute` prices it
        if float(row["time_us"] or 0) > 0 and c > 4:
            timings.append(Timing((n, c, h, w, k, r, s), float(row["time_us"]) * 1e-6, traffic, *sides))
    return timings


ROW_REDUCTIONS = {"ln", "softmax"}
OTHER_STREAMS = {"rmsnorm/layernorm", "embedding"}
"""Left out: kernels of an inference engine that are bound by something else than the bandwidth, and gathers."""


def streams(data: Path, plan: Plan, *, reductions: bool = False) -> list[Timing]:
    """Elementwise kernels (or norms and softmax) that no cache serves, the best of a shape."""
    times: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for row in rows_of(data, plan):
        size = float(row["bytes"])
        if size >= plan.least_bytes and row["op"] not in OTHER_STREAMS and (row["op"] in ROW_REDUCTIONS) is reductions:
            times[float(row["rows"] or 0), float(row["cols"] or 0), size].append(float(row["time_us"]) * 1e-6)
    return [Timing(shape, min(seen), shape[-1]) for shape, seen in times.items()]


def column(timings: Iterable[Timing], name: str) -> Array:
    """One attribute of all timings."""
    return np.array([getattr(timing, name) for timing in timings])


def least(
    predict: Callable[[Array, list[Timing]], Array],
    start: list[float],
    low: list[float],
    high: list[float],
    timings: list[Timing],
) -> tuple[Array, float, float]:
    """Constants fitted to the training shapes, and median and p90 error on the held-out ones."""
    train, held = ([t for t in timings if t.held_out is wanted] for wanted in (False, True))

    def residuals(constants: Array) -> Array:
        return np.log(predict(constants, train) / column(train, "time"))

    found = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, x_scale=np.array(start))
    errors = np.abs(predict(found.x, held) / column(held, "time") - 1)
    return found.x, float(np.median(errors)), float(np.quantile(errors, 0.9))


def predict_products(
    plan: Plan,
    timings: list[Timing],
    *,
    fraction: float,
    tile_half: float,
    depth_half: float,
    launch: float,
    streaming_fraction: float,
) -> Array:
    """Times of products or implicit products, by the package's own formula."""
    return np.asarray(tiled_matmul(
        rows=column(timings, "rows"), columns=column(timings, "columns"), depth=column(timings, "depth"),
        count=column(timings, "count"), traffic=column(timings, "traffic"), peak=plan.part.peak,
        cores=plan.part.cores, tile_rows=np.array(plan.tiles)[:, 0], tile_columns=np.array(plan.tiles)[:, 1], fraction=fraction, sustained=1.0,
        tile_half=tile_half, depth_half=depth_half, bandwidth=plan.part.bandwidth,
        streaming_fraction=streaming_fraction, launch=launch,
    ))  # fmt: skip


def fit_streaming(data: Path, plan: Plan, *, reductions: bool = False) -> Fit:
    """The share of the bandwidth; the launch of these microbenchmarks is fitted and not kept."""

    def predict(x: Array, some: list[Timing]) -> Array:
        traffic = column(some, "traffic")
        return np.asarray(streaming(traffic=traffic, bandwidth=plan.part.bandwidth, fraction=x[0], launch=x[1] * 1e-6))

    timings = streams(data, plan, reductions=reductions)
    found, median, p90 = least(predict, [0.8, 5.0], [0.1, 0.01], [1.0, 60.0], timings)
    constants = {"fraction": round(float(found[0]), 3)}
    return Fit(plan, "reduction" if reductions else "streaming", constants, len(timings), median, p90)


def fit_matmul(data: Path, plan: Plan, streaming_fraction: float | None) -> Fit:
    """Fraction, saturation and launch; also the streaming fraction where no memory-bound kernels gave one."""

    def predict(x: Array, some: list[Timing]) -> Array:
        return predict_products(
            plan, some, fraction=x[0], tile_half=x[1], depth_half=x[2], launch=x[3] * 1e-6,
            streaming_fraction=streaming_fraction or x[4],
        )  # fmt: skip

    timings = products(data, plan)
    found, median, p90 = least(
        predict, [0.8, 10.0, 60.0, 4.0, 0.8], [0.2, 0.0, 0.0, 0.5, 0.3], [MOST, 300.0, 3000.0, 60.0, 1.0], timings
    )
    constants = {
        "fraction": round(float(found[0]), 3), "tile_half": round(float(found[1]), 1),
        "depth_half": round(float(found[2]), 0),
    }  # fmt: skip
    return Fit(plan, "matmul", constants, len(timings), median, p90, round(float(found[3]), 1) * 1e-6)


def fit_convolution(data: Path, plan: Plan, matmul: Fit, streaming_fraction: float) -> Fit:
    """The fraction alone: tile, depth and launch are those of the products of the same device."""

    def predict(x: Array, some: list[Timing]) -> Array:
        return predict_products(
            plan, some, fraction=x[0], tile_half=matmul.constants["tile_half"],
            depth_half=matmul.constants["depth_half"], launch=matmul.launch, streaming_fraction=streaming_fraction,
        )  # fmt: skip

    timings = convolutions(data, plan)
    found, median, p90 = least(predict, [0.6], [0.05], [1.0], timings)
    return Fit(plan, "convolution", {"fraction": round(float(found[0]), 3)}, len(timings), median, p90)


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


CROSS_CHECKS = (
    Plan("h100", PARTS["h100"], GEMM, "NVIDIA H100 80GB HBM3", "Vidur", "fp16"),
    Plan("h100", PARTS["h100"], GEMM, "NVIDIA Hopper sm_90 (H100/H200 not stated)", "XLA", "bf16"),
    Plan("b200", PARTS["b200"], GEMM, "NVIDIA B200", "XLA", "bf16"),
    Plan("b200", PARTS["b200"], GEMM, "NVIDIA B200", "SimuMax", "bf16"),
    Plan("a100-80gb", PARTS["a100-80gb"], GEMM, "NVIDIA A100-SXM4-80GB", AICONFIGURATOR, "bf16"),
)
"""Fits held against another source of the same device: the ratio is what `sustained` has to make good."""


def cross_check(data: Path, plan: Plan, fit: Fit, streaming_fraction: float) -> str:
    """Predicted over measured time of large products in another source."""
    timings = [t for t in products(data, plan) if t.rows * t.columns * t.depth * t.count >= 2.0**36]
    predicted = predict_products(
        plan, timings, fraction=fit.constants["fraction"], tile_half=fit.constants["tile_half"],
        depth_half=fit.constants["depth_half"], launch=fit.launch, streaming_fraction=streaming_fraction,
    )  # fmt: skip
    ratio = float(np.median(predicted / column(timings, "time")))
    return f"# {plan.name:12} against {plan.source} {plan.precision}: predicted/measured {ratio:.2f} ({len(timings)})"


ATTENTION_PLANS = (
    Plan(
        "a100-80gb",
        PARTS["a100-80gb"],
        ATTENTION,
        "NVIDIA A100-SXM4-80GB",
        AICONFIGURATOR,
        "bf16",
        library="vllm_flash_attn",
    ),
    Plan(
        "h100", PARTS["h100"], ATTENTION, "NVIDIA H100 80GB HBM3", AICONFIGURATOR, "bf16", library="vllm_flash_attn_fa3"
    ),
    Plan("h200", PARTS["h200"], ATTENTION, "NVIDIA H200", AICONFIGURATOR, "bf16", library="vllm_flash_attn_fa3"),
    Plan("b200", PARTS["b200"], ATTENTION, "NVIDIA B200", AICONFIGURATOR, "bf16", library="trtllm_mha"),
    Plan("gb200", PARTS["gb200"], ATTENTION, "NVIDIA GB200", AICONFIGURATOR, "bf16", library="trtllm_mha"),
)


def fit_attention(data: Path, plan: Plan) -> Fit:
    """Share of the peak and saturation of one library of fused attention; launch and streaming of the engine are not kept."""
    times: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for row in rows_of(data, plan):
        prefill = row["kind"] in {"context", "encoder"} and row["kv_precision"] != "fp8" and row["head_dim"] == "128"
        large = float(row["q_len"]) >= LEAST_QUERIES
        if prefill and large and plan.library in row["library"]:
            q, k, b, h, g, d, causal = (
                float(row[key]) for key in ("q_len", "kv_len", "batch", "heads", "kv_heads", "head_dim", "causal")
            )
            shape = (b, h, g, q, k or q, d, causal)
            times[shape].append(float(row["time_us"]) * 1e-6)
    timings = [
        Timing(s, statistics.median(seen), 4 * s[5] * s[0] * (s[3] * s[1] + s[4] * s[2])) for s, seen in times.items()
    ]

    def predict(x: Array, some: list[Timing]) -> Array:
        b, h, _, q, k, d, causal = np.array([t.shape for t in some]).T
        return np.asarray(flash_attention(
            heads=b * h, queries=q, keys=k - causal * q / 2, head_dim=d, products=2, traffic=column(some, "traffic"),
            peak=plan.part.peak, cores=plan.part.cores, block=128, fraction=x[0], keys_half=x[1] * 100,
            bandwidth=plan.part.bandwidth, streaming_fraction=x[3], launch=x[2] * 1e-6,
        ))  # fmt: skip

    found, median, p90 = least(predict, [0.5, 1.0, 10.0, 0.5], [0.05, 0.0, 0.1, 0.1], [1.0, 10.0, 60.0, 1.0], timings)
    constants = {"fraction": round(float(found[0]), 3), "keys_half": round(100 * float(found[1]))}
    return Fit(plan, "attention", constants, len(timings), median, p90)


STREAMING_OF = {
    "v100": "v100-pcie", "v100-sxm2": "v100-pcie", "v100-sxm3": "v100-pcie", "v100-sxm3 fp32": "v100-pcie",
    "titan-rtx": "t4", "titan-rtx fp32": "t4", "t4 fp32": "t4", "p100 fp32": "p100-pcie", "p100-pcie fp32": "p100-pcie",
    "titan-x fp32": "p100-pcie", "titan-x-pascal fp32": "p100-pcie", "1080ti fp32": "p100-pcie", "mi210 fp32": "mi210", "mi300x": "mi210", "h100 vidur": "h100",
    "a100-80gb aic": "a100-80gb", "b200 simumax": "b200", "mi250x": "mi210",
}  # fmt: skip
"""Where the products of one device were timed and the memory-bound kernels of its kin."""


def fit_all(data: Path, word: str) -> tuple[list[Fit], dict[str, Fit], dict[str, float]]:
    """Every fit of plans whose name contains ``word``; also the products and the streaming fractions by name."""
    fits = [fit_streaming(data, plan) for plan in STREAMING]
    shares = {fit.plan.name: fit.constants["fraction"] for fit in fits}
    fits.extend(fit_streaming(data, plan, reductions=True) for plan in STREAMING if plan.source == "NeuSight")

    def share(plan: Plan) -> float | None:
        return shares.get(STREAMING_OF.get(plan.name, plan.name))

    matmuls = {plan.name: fit_matmul(data, plan, share(plan)) for plan in MATMUL if word in plan.name}
    fits.extend(matmuls.values())
    fits.extend(
        fit_convolution(data, plan, matmuls[plan.name], share(plan) or NO_SHARE)
        for plan in CONVOLUTION
        if plan.name in matmuls
    )
    fits.extend(fit_attention(data, plan) for plan in ATTENTION_PLANS if plan.name in matmuls)
    return fits, matmuls, shares


def main(arguments: list[str] | None = None) -> int:
    """Print the groups of every plan, the table of errors, the tiers and the cross-checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data"), help="the shared data folder")
    parser.add_argument("--only", default="", metavar="WORD", help="plans whose name contains this")
    options = parser.parse_args(arguments)
    fits, matmuls, shares = fit_all(options.data, options.only)
    for fit in fits:
        print(f"# {fit.plan.name}: {fit.plan.device}, {fit.plan.source} {fit.plan.precision}".rstrip())
        print(fit.yaml() + "\n")
    print("# group        name                 points  median %   p90 %")
    for fit in fits:
        print(f"# {fit.group:12} {fit.plan.name:20} {fit.points:6d} {100 * fit.median:8.1f} {100 * fit.p90:8.1f}")
    print("\n# tiers, by the all-reduce formula of the package")
    for link in LINKS:
        print(fit_link(options.data, link))
    print(fit_nodes(options.data))
    for hardware in ("NVIDIA DGX-2", "IBM AC922 (Yme", "IBM AC922 (MiniSummit"):
        print(small_messages(options.data, hardware, "NCCL via C3SR"))
    print("\n# large products of another source under these constants")
    for plan in CROSS_CHECKS:
        if plan.name in matmuls:
            print(cross_check(options.data, plan, matmuls[plan.name], shares[plan.name]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
