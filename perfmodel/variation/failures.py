"""What failures and checkpoints leave of the time, and how long a training takes with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas import reliability as formulas

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction
    from perfmodel.specs.failures import Failures

PROBABILITY, SPREADS = 0.8, 1.2816
"""Of the band around the time of a training, and its half width in standard deviations."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Failures of a job and what they cost."""

    name: str
    rate: float
    """Failures per second."""
    checkpoint_size: float
    write: float
    """Time for which a checkpoint stops the training."""
    interval: float
    """Of work between checkpoints."""
    best_interval: float
    """By Daly."""
    young_interval: float
    restart: float
    """From a failure to the first step after it."""
    goodput: float
    """Share of the time in which steps are made that count."""
    standing: float
    """Share of the time in which the job waits for a node to be repaired."""
    work: float | None
    """Time of the whole training without failures and checkpoints."""
    time: float | None
    """Expected, with them."""
    low: float | None
    high: float | None
    """Between which it lies with 80 % probability, as far as failures go."""
    failures: float | None
    """Expected during the training."""

    @property
    def mtbf(self) -> float:
        """Mean time between failures of the job."""
        return 1 / self.rate


def reliability(prediction: Prediction, given: Failures, name: str) -> Reliability:
    """Failures of a job on its devices and hosts, with the checkpoints that its model needs."""
    devices = prediction.devices
    nodes = np.ceil(devices / float(prediction.hardware.host.devices))
    rate = float(formulas.failure_rate(
        devices=devices, nodes=nodes, device_mtbf=given.device_mtbf or np.inf, node_mtbf=given.node_mtbf or np.inf
    ))  # fmt: skip
    size = float(given.checkpoint_size or checkpoint_size(prediction))
    whole = float(formulas.storage_time(size=size, bandwidth=given.storage_bandwidth))
    write, restart = whole * float(given.stall), float(given.restart) + whole
    best = float(formulas.daly_interval(write=write, rate=rate))
    interval = float(given.interval or best)
    work = _work(prediction, given)
    with np.errstate(over="ignore"):  # a job that hardly ever survives an interval takes for ever
        stretch = float(
            formulas.checkpointed_time(work=1.0, interval=interval, write=write, restart=restart, rate=rate)
        )
    standing = _standing(given, rate)
    band = _band(work, interval, write, restart, rate, stretch / (1 - standing))
    return Reliability(
        name, rate, size, write, interval, best, float(formulas.young_interval(write=write, rate=rate)), restart,
        (1 - standing) / stretch, standing, work, *band,
        None if work is None else work * stretch * rate,
    )  # fmt: skip


def checkpoint_size(prediction: Prediction) -> float:
    """Bytes of the weights and of the optimiser's states of the whole model, once."""
    state = prediction.state
    return float(prediction.graph.trained) * float(state.weight + state.optimizer)


def _standing(given: Failures, rate: float) -> float:
    if given.spares is None or given.repair is None:
        return 0.0
    return float(formulas.spares_exhausted(spares=int(given.spares), rate=rate, repair=given.repair))


def _work(prediction: Prediction, given: Failures) -> float | None:
    """By the length that the workload states, or else the file of failures."""
    if prediction.run is not None:
        return prediction.run.time
    if given.steps is not None:
        return float(given.steps) * prediction.step_time
    if given.samples is not None:
        return float(given.samples) / prediction.samples_per_second
    if given.tokens is not None and prediction.tokens_per_second:
        return float(given.tokens) / prediction.tokens_per_second
    return None


def _band(
    work: float | None, interval: float, write: float, restart: float, rate: float, stretch: float
) -> tuple[float | None, float | None, float | None]:
    """Expected time of the training, with the ends of its band."""
    if work is None:
        return None, None, None
    time = work * stretch
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(
            formulas.checkpointed_deviation(work=work, interval=interval, write=write, restart=restart, rate=rate)
        )
    return time, max(time - SPREADS * deviation, work), time + SPREADS * deviation
