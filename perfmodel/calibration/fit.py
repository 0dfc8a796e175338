"""Least squares on the logarithm of predicted over measured time, and how well the constants do on held-out shapes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.calibration.forms import FORMS, LAUNCH, Constant, Form, with_constants
from perfmodel.calibration.timings import stacked, times_of
from perfmodel.cost.compute import Processor
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfmodel.calibration.timings import Array, Timing
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device

LEAST = 5
"""Timings to fit; fewer determine nothing."""
EACH = 8
"""Timings that one constant takes: a short table determines only the first of a form."""
SOFT = 0.1
"""Errors above this share count ever less, so that a few odd kernels do not rule."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute relative errors of one way to predict."""

    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants of one operation in one precision, and what they are worth."""

    op: str
    precision: Precision
    form: Form
    constants: Mapping[str, float]
    """Empty where there was nothing to fit."""
    launch: float
    points: int
    """That were fitted."""
    held_out: int
    errors: Errors | None
    """On the held-out timings; None where there are none."""
    rivals: Mapping[str, Errors] = field(default_factory=dict)
    """Simple forms on the same timings."""


def fit(timings: Sequence[Timing], device: Device) -> Fit:
    """Fit what the timings of one operation and precision determine.

    Args:
        timings: of one operation in one precision.
        device: whose other constants are kept.
    """
    first = timings[0].measured
    train, held = ([t for t in timings if t.held_out is wanted] for wanted in (False, True))
    form = _moving(_determined(FORMS[first.op], len(train)), train, device)
    *found, launch = _search(train, device, form, first.precision) if len(train) >= LEAST else (0.0,)
    fitted = _changed(device, form, first.precision, found, launch)
    kept = dict(zip((c.name for c in form.constants), found, strict=False))
    errors = _errors(times(held, fitted), held)
    rivals = {name: _errors(rival(train, held, device), held) for name, rival in RIVALS.items()} if train else {}
    return Fit(
        first.op, first.precision, form, kept, launch, len(train), len(held), errors,
        {name: seen for name, seen in rivals.items() if seen},
    )  # fmt: skip


def _determined(form: Form, points: int) -> Form:
    """What so many timings can tell."""
    most = max(1, points // EACH)
    return replace(form, constants=form.constants[:most], engine=form.engine[: max(0, most - len(form.constants))])


def _moving(form: Form, timings: Sequence[Timing], device: Device) -> Form:
    """Without constants that move no timing, as those of gradients where forward passes alone were timed."""
    if not timings:
        return form
    precision = timings[0].measured.precision

    def moves(constant: Constant) -> bool:
        low, high = (
            times(timings, with_constants(device, form.group, precision, {constant.name: value}))
            for value in (constant.low, constant.high)
        )
        return bool(np.any(low != high))

    return replace(form, constants=tuple(constant for constant in form.constants if moves(constant)))


def times(timings: Sequence[Timing], device: Device) -> Array:
    """Predicted times as a column."""
    predicted = np.array([timing.harness for timing in timings])
    for batch in stacked(timings):
        processor = Processor(device, timings[batch.index[0]].measured.precision, sustained=False)
        predicted[batch.index] += sum(duration(processor.time(kernel)) for kernel in batch.kernels)
    return predicted


def _changed(device: Device, form: Form, precision: Precision, found: Sequence[float] | Array, launch: float) -> Device:
    own, engine = found[: len(form.constants)], found[len(form.constants) :]
    for group, constants, values in (
        (form.group, form.constants, own), (form.engine_group or form.group, form.engine, engine),
    ):  # fmt: skip
        if len(values):
            changed = {c.name: value for c, value in zip(constants, values, strict=True)}
            device = with_constants(device, group, precision, changed)
    return with_constants(device, "launch", precision, {"time": launch}) if launch else device


def _search(timings: Sequence[Timing], device: Device, form: Form, precision: Precision) -> tuple[float, ...]:
    """The constants of the form, those of the engine, and the time of a launch: the best of all searches."""
    from scipy.optimize import least_squares

    measured = times_of(timings)
    searched = (*form.constants, *form.engine, LAUNCH)

    def residuals(x: Array) -> Array:
        return np.asarray(np.log(times(timings, _changed(device, form, precision, x[:-1], x[-1])) / measured))

    start, low, high = (np.array([getattr(c, name) for c in searched]) for name in ("start", "low", "high"))
    tried = [
        least_squares(residuals, begin, bounds=(low, high), loss="soft_l1", f_scale=SOFT, x_scale=start)
        for begin in (start, *_again(start, searched))
    ]
    best = min(tried, key=lambda solved: float(solved.cost))
    return tuple(round(float(value), c.digits) for c, value in zip(searched, best.x, strict=True))


def _again(start: Array, searched: Sequence[Constant]) -> Iterator[Array]:
    """Starts of which one constant differs."""
    for place, constant in enumerate(searched):
        if constant.again is not None:
            other = start.copy()
            other[place] = constant.again
            yield other


def _errors(predicted: Array, timings: Sequence[Timing]) -> Errors | None:
    if not timings:
        return None
    errors = np.abs(predicted / times_of(timings) - 1)
    return Errors(float(np.median(errors)), float(np.quantile(errors, 0.9)))


def _bare_roofline(_: Sequence[Timing], held: Sequence[Timing], device: Device) -> Array:
    """The slower of FLOP over the peak and bytes over the bandwidth, nothing else."""
    memory = device.memory.bandwidth

    def one(timing: Timing) -> float:
        peak = device.compute.peak.get(timing.measured.precision, np.inf)
        return float(sum(max(k.flops / peak, k.traffic / memory) for k in timing.measured.kernels))

    return np.array([one(timing) for timing in held])


def _constant_efficiency(train: Sequence[Timing], held: Sequence[Timing], device: Device) -> Array:
    """The roofline, with peak and bandwidth lowered by one share that the fitted timings give."""
    share = np.median(_bare_roofline(train, train, device) / times_of(train))
    return np.asarray(_bare_roofline(train, held, device) / share)


RIVALS = {"constant efficiency": _constant_efficiency, "bare roofline": _bare_roofline}
"""What everybody uses: the forms to beat."""
