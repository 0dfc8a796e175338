"""Timings of this machine as constants of a device, and messages between its processes as a tier of a network."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.calibration.document import HardwareFile, Written
from perfmodel.calibration.here_yaml import first_text, launch_of
from perfmodel.calibration.ops import Calibration, fitted
from perfmodel.calibration.timings import Timing, Timings, third
from perfmodel.calibration.writing import calibrated_text
from perfmodel.errors import InputError, Place, Problem
from perfmodel.graph.kernels import Gemm, Stream
from perfmodel.graph.ops import Attention, Conv2d
from perfmodel.measuring.cases import WIDTH
from perfmodel.specs import Hardware
from perfmodel.validation.ops import Measured
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.measuring.cases import Case
    from perfmodel.measuring.session import Found

ELEMENT = 4.0
"""Bytes: everything is timed in fp32."""
KEY = "here"
"""Of the source in the YAML."""
LARGE = 2**16
"""Bytes from which the bandwidth rules a message."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a ring of processes of one machine sees."""

    latency: float
    """Of one step."""
    bandwidth: float
    error: float
    """Median relative error of the ring's time over all sizes."""
    points: int


@dataclass(frozen=True, slots=True)
class Here:
    """This machine, calibrated."""

    found: Found
    calibration: Calibration
    link: Link | None
    """None where one process ran, or without PyTorch."""
    slowdown: float | None
    """Of computing and messages that run at once."""
    text: str
    """Its hardware YAML."""


def calibrate_here(found: Found, name: str, progress: Callable[[int, int], None] | None = None) -> Here:
    """Fit the constants of a share of this machine to what was measured on it.

    Args:
        found: timings.
        name: of the machine, in its YAML.
        progress: told how many fits are done, of how many.

    Peak and bandwidth are the best rates that were seen; every third shape is held out and judges the fits. Raises InputError
    where the time sufficed for no product or for no level of memory.
    """
    needed = {"product", "level"} - {case.kind for case in found.times}
    if needed:
        raise InputError(
            [Problem(Place("--budget"), "", f"too short to time a {' and a '.join(sorted(needed))}; give more seconds")]
        )
    link, slowdown = fitted_link(found), fitted_slowdown(found)
    timed = tuple(timings(found))
    peak = max(sum(float(kernel.flops) for kernel in one.measured.kernels) / one.time for one in timed)
    text = first_text(found, name, peak, link, slowdown)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "here.yaml"
        path.write_text(text, encoding="utf-8")
        hardware = load(path, Hardware, name)
    calibration = fitted(Timings(timed, Counter()), hardware, progress)
    file = HardwareFile(calibrated_text(text, calibration, KEY))
    if launch_of(found):
        told = {"source": KEY, "status": "measured", "note": "a call that adds two numbers"}
        file.write(Written("launch", None, {"time": launch_of(found)}, told))
    return Here(found, calibration, link, slowdown, file.text)


def timings(found: Found) -> Iterator[Timing]:
    """What was timed, in the words of the operator model."""
    for case, time in found.times.items():
        measured = _measured(case)
        if measured:
            yield Timing(measured, time, 0.0, KEY, "", third(measured))


def _measured(case: Case) -> Measured | None:
    sizes = case.sizes
    match case.kind:
        case "product":
            return Measured("gemm", "fp32", (Gemm("gemm", sizes[0], sizes[1], sizes[2], ELEMENT),))
        case "stream":
            return Measured("stream", "fp32", (Stream("add", 3 * ELEMENT * sizes[0]),))
        case "reduction":
            return Measured("reduction", "fp32", (Stream("softmax", 2 * ELEMENT * sizes[0] * WIDTH, reduces=True),))
        case "convolution":
            samples, inputs, outputs, side, kernel = sizes
            op = Conv2d("conv", samples, inputs, outputs, side, side, side**2, kernel**2, ELEMENT)
            return Measured("convolution", "fp32", op.forward())
        case "attention":
            samples, heads, positions, width = sizes
            fused = Attention(
                "attention",
                samples,
                positions,
                positions,
                heads,
                heads,
                width,
                ELEMENT,
                causal=True,
                fused=True,
                dropout=False,
            )
            return Measured("attention", "fp32", fused.forward())
        case _:
            return None


def fitted_link(found: Found) -> Link | None:
    r"""Latency and bandwidth of a ring of p processes, by least squares on relative errors.

    .. math:: T = 2 (p - 1) \left(\alpha + \frac{n}{p B}\right)
    """
    if len(found.messages) < 3 or found.processes < 2:
        return None
    size, time = (np.array(column) for column in zip(*found.messages, strict=True))
    steps = 2 * (found.processes - 1)
    columns = np.stack([np.full_like(size, steps), steps * size / found.processes], axis=1)
    from scipy.optimize import nnls

    latency, per_byte = nnls(columns / time[:, None], np.ones_like(time))[0]
    if not per_byte > 0:
        return None
    errors = np.abs(columns @ np.array([latency, per_byte]) / time - 1)
    return Link(float(latency), float(1 / per_byte), float(np.median(errors)), len(size))


def fitted_slowdown(found: Found) -> float | None:
    r"""The factor on computing a and messages b that run at once.

    .. math:: T = \max(a, b) + (s - 1) \min(a, b)
    """
    if found.beside is None:
        return None
    computing, messages, both = found.beside
    factor = 1 + (both - max(computing, messages)) / min(computing, messages)
    return float(np.clip(factor, 1.0, 1.99))
