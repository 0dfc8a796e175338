"""Operators of profiler traces as timings, and what they determine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.calibration.fit import EACH, LEAST, times
from perfmodel.calibration.forms import FORMS, with_constants
from perfmodel.calibration.ops import Calibration, fitted
from perfmodel.calibration.timings import Timing, Timings, third, times_of
from perfmodel.errors import InputError, Place, Problem
from perfmodel.traces.operators import traced_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfmodel.specs import Hardware
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device
    from perfmodel.traces.operators import TracedOperator
    from perfmodel.traces.trace import Trace


def calibrate_traces(
    traces: Sequence[Trace], hardware: Hardware, progress: Callable[[int, int], None] | None = None
) -> Calibration:
    """Fit the constants of a device to the operators with shapes that traces hold.

    Args:
        traces: of one device.
        hardware: whose datasheet the constants are relative to; what the traces do not determine is kept.
        progress: told how many fits are done, of how many.

    Each distinct operator is one timing, the median of its calls; every third is held out and judges: constants that predict
    those no better than the ones at hand are not taken. Raises InputError where no operator can be used.
    """
    found = traced_operators(traces)
    name = next((trace.device for trace in traces if trace.device), "a device without a name")
    files = ", ".join(dict.fromkeys(PurePath(trace.file.partition(":")[0]).name for trace in traces))
    rows = [_timing(one, f"trace of {name}", files) for one in found.operators]
    if not rows:
        why = "; ".join(f"{1e3 * time:.3g} ms of {reason}" for reason, time in found.reasons.most_common(3))
        message = f"no operator with shapes that can be used; {why or 'no kernels'}; record with record_shapes=True"
        raise InputError([Problem(Place("FILE"), files, message)])
    first = fitted(Timings(tuple(rows), Counter()), hardware, progress)
    worse = dict(_no_gain(first, rows, hardware.device))
    if not worse:
        return _sustained(first)
    kept = [row for row in rows if (row.measured.op, row.measured.precision) not in worse]
    reasons = Counter(worse[row.measured.op, row.measured.precision] for row in rows if row not in kept)
    return (
        _sustained(fitted(Timings(tuple(kept), reasons), hardware))
        if kept
        else replace(first, fits=(), reasons=reasons)
    )


def _sustained(made: Calibration) -> Calibration:
    """A job ran at the clocks of jobs: what its products reached is sustained already."""
    device, fits = made.device, list(made.fits)
    for place, fit in enumerate(fits):
        if fit.form.group == "matmul" and fit.constants:
            fits[place] = replace(fit, constants={**fit.constants, "sustained": 1.0})
            device = with_constants(device, "matmul", fit.precision, {"sustained": 1.0})
    return replace(made, device=device, fits=tuple(fits))


def _no_gain(made: Calibration, rows: Sequence[Timing], device: Device) -> Iterator[tuple[tuple[str, Precision], str]]:
    """Fits that predict the held-out timings no better than the constants which the device has."""
    for fit in made.fits:
        held = [
            row for row in rows if row.held_out and (row.measured.op, row.measured.precision) == (fit.op, fit.precision)
        ]
        if not held or not fit.constants or fit.errors is None or fit.precision not in device.compute.peak:
            continue
        before = float(np.median(np.abs(times(held, device) / times_of(held) - 1)))
        if before <= fit.errors.median:
            yield (
                (fit.op, fit.precision),
                (
                    f"{fit.op} in {fit.precision}: the constants at hand err by {before:.0%} on the held-out timings, new ones by "
                    f"{fit.errors.median:.0%}"
                ),
            )


def _timing(one: TracedOperator, source: str, files: str) -> Timing:
    return Timing(one.measured, one.time, 0.0, source, files, third(one.measured))


def determined(calibration: Calibration) -> Iterator[tuple[str, str, str]]:
    """Of each operation: in which precision, and which constants were fitted, or why none was."""
    seen = set()
    for fit in calibration.fits:
        seen.add(fit.op)
        if not fit.form.group:
            continue
        every = [constant.name for constant in FORMS[fit.op].constants]
        kept = [name for name in every if name not in fit.constants]
        if not fit.constants:
            yield fit.op, fit.precision, f"all kept: {fit.points} timings to fit, {LEAST} are needed"
        elif kept:
            yield (
                fit.op,
                fit.precision,
                f"{', '.join(kept)} kept: {fit.points} timings to fit, {EACH} for each constant",
            )
        else:
            yield fit.op, fit.precision, "all fitted"
    for op, form in FORMS.items():
        if form.group and op not in seen:
            reason = next((reason for reason in calibration.reasons if reason.startswith(f"{op} in")), "")
            yield (
                op,
                "",
                f"all kept: {reason.partition(': ')[2] or 'no such operator in the traces that could be used'}",
            )
