"""Replicas on machines of several classes: their speeds, given or predicted, and what they make of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import find
from perfmodel.origin import place_of
from perfmodel.prediction import predict_layout
from perfmodel.variation.balance import slowdown
from perfmodel.variation.reweigh import base_of

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction
    from perfmodel.specs.machines import Machines


def machine_factor(prediction: Prediction, machines: Machines | None) -> float:
    """Time of computing on machines of several speeds over that on those of the hardware file."""
    if machines is None:
        return 1.0
    threads = None if machines.threads is None else int(machines.threads)
    try:
        return slowdown(
            _every(prediction, machines), int(prediction.layout.dp), balance=str(machines.balance), threads=threads
        )
    except ValueError as error:
        place = place_of(machines.threads, Place("stragglers.machines"))
        raise InputError([Problem(place, "stragglers.machines.threads", str(error))]) from None


def _every(prediction: Prediction, machines: Machines) -> list[float]:
    """The speed of each class, as often as it counts."""
    own = [float(speed) for speed in machines.speeds] or [speed_of(prediction, str(name)) for name in machines.devices]
    counts = machines.counts or (1,) * len(own)
    return [speed for speed, count in zip(own, counts, strict=True) for _ in range(count)]


def speed_of(prediction: Prediction, hardware: str) -> float:
    """Of another device over that of the job, in computing the same step.

    Raises InputError where there is no such hardware file, or its device has no such precision.
    """
    device, precision = find("hardware", hardware).device, prediction.workload.training.precision
    if precision not in device.compute.peak:
        message = f"{device.name} has no peak for {precision}; it has {', '.join(device.compute.peak)}"
        raise InputError([Problem(Place("--stragglers"), "stragglers.machines.devices", message)])
    other = prediction.hardware.model_copy(update={"device": device})
    made = predict_layout(prediction.workload, other, prediction.strategy, prediction.layout)
    return base_of(prediction.tree).compute / base_of(made.tree).compute
