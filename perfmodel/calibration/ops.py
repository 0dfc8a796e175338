"""Everything that kernel tables determine about one device."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.calibration.fit import Fit, fit
from perfmodel.calibration.forms import BY_PRECISION, with_constants
from perfmodel.calibration.timings import Selection, Timing, Timings, read_timings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perfmodel.specs import Hardware
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device

ORDER = ("stream", "reduction", "gemm", "cast and gemm", "convolution", "attention", "recurrent", "experts")
"""Later operations use the constants of earlier ones."""
MEMORY_BOUND = {"stream", "reduction"}
IN_CACHE = "smaller than twice the cache, which serves it: tells nothing of the memory"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Fits of one device, in the order they were made."""

    device: Device
    """With the fitted constants."""
    fits: tuple[Fit, ...]
    sources: tuple[str, ...]
    """Sources of the timings, with their addresses."""
    reasons: Counter[str]
    """Why rows do not count, and how many."""


def calibrate(
    paths: Sequence[Path], hardware: Hardware, chosen: Selection, progress: Callable[[int, int], None] | None = None
) -> Calibration:
    """Fit the constants of a device to tables of timed kernels.

    Args:
        paths: CSVs, plain or gzipped.
        hardware: whose datasheet the constants are relative to; what the tables do not determine is kept.
        chosen: which rows to take.
        progress: told how many fits are done, of how many.

    Raises InputError with every fault of the tables, and where they hold nothing of the device.
    """
    return fitted(read_timings(paths, chosen), hardware, progress)


def fitted(timings: Timings, hardware: Hardware, progress: Callable[[int, int], None] | None = None) -> Calibration:
    """Fit the constants of a device to timings, wherever they were read; arguments as of `calibrate`."""
    reasons = Counter(timings.reasons)
    groups: dict[tuple[str, Precision], list[Timing]] = defaultdict(list)
    for timing in timings.rows:
        reason = _unfit(timing, hardware.device)
        if reason:
            reasons[reason] += 1
        else:
            groups[timing.measured.op, timing.measured.precision].append(timing)
    device, fits = hardware.device, []
    taken: set[str] = set()
    ordered = sorted(groups, key=lambda key: (ORDER.index(key[0]), -len(groups[key])))
    for done, key in enumerate(ordered):
        made = fit(groups[key], device)
        fits.append(made)
        group = made.form.group
        if made.constants and (group not in taken or group in BY_PRECISION):
            device = with_constants(device, group, made.precision, made.constants, apart=group in taken)
            if made.form.keeps_launch and group not in taken:
                device = with_constants(device, "launch", made.precision, {"time": made.launch})
            taken.add(group)
        if progress:
            progress(done + 1, len(ordered))
    sources = tuple(dict.fromkeys(f"{t.source}, {web(t.address)}" for t in timings.rows if t.source))
    return Calibration(device, tuple(fits), sources, reasons)


def _unfit(timing: Timing, device: Device) -> str:
    if timing.measured.precision not in device.compute.peak and timing.measured.op not in MEMORY_BOUND:
        return f"no peak for {timing.measured.precision} on {device.name}"
    largest = max((cache.capacity for cache in device.caches), default=0.0)
    if timing.measured.op in MEMORY_BOUND and _traffic(timing) < 2 * largest:
        return IN_CACHE
    return ""


def _traffic(timing: Timing) -> float:
    return float(sum(kernel.traffic for kernel in timing.measured.kernels))


def web(address: str) -> str:
    """An address of a table as one of the web, as far as it names one."""
    if paper := re.match(r"arxiv:?\s*(\d{4}\.\d{4,5})", address, re.IGNORECASE):
        return f"https://arxiv.org/abs/{paper[1]}"
    repository = re.match(r"(?:https?://)?(github\.com/[\w.-]+/[\w.-]+?)(?:@(\w+))?(?::|$)", address)
    if repository is None:
        return address.partition(":")[0]
    return f"https://{repository[1]}/tree/{repository[2]}" if repository[2] else f"https://{repository[1]}"
