"""Strategies side by side over numbers of devices: one prediction for each point, and where one overtakes another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.job import Job, load_job
from perfmodel.prediction import Prediction, predict
from perfmodel.timeline import COMMUNICATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from perfmodel.specs import Strategy

Scaling = Literal["weak", "strong"]
EQUAL = 1e-9
"""Relative difference of step times below which no strategy is ahead."""


@dataclass(frozen=True, slots=True)
class Point:
    """One strategy on so many devices."""

    strategy: str
    """As the user named it."""
    devices: int
    batch: int
    prediction: Prediction | None
    """None where it cannot be laid out."""
    reason: str
    """Why it cannot run; empty where it can."""
    alone: Prediction | None = None
    """The same strategy on one device; None where that cannot be laid out."""

    @property
    def speedup(self) -> float | None:
        """Of throughput over one device."""
        if self.prediction is None or self.alone is None:
            return None
        return self.prediction.samples_per_second / self.alone.samples_per_second

    @property
    def step_time(self) -> float | None:
        """Of one step, also where memory does not suffice."""
        return None if self.prediction is None else self.prediction.step_time

    @property
    def communication(self) -> tuple[float, float] | None:
        """Time of all messages, and of it what nothing hides."""
        if self.prediction is None:
            return None
        kinds = [times for kind, times in self.prediction.kinds.items() if kind in COMMUNICATION]
        return sum(time for time, _ in kinds), sum(exposed for _, exposed in kinds)


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where one strategy becomes faster than another, by interpolation over the logarithms."""

    faster: str
    """Beyond it."""
    slower: str
    devices: float
    below: int
    """The predicted numbers of devices on both sides."""
    above: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All points of all strategies."""

    workload: str
    hardware: str
    scaling: Scaling
    points: tuple[Point, ...]

    @property
    def strategies(self) -> tuple[str, ...]:
        """In the order in which they were named."""
        return tuple(dict.fromkeys(point.strategy for point in self.points))

    def of(self, strategy: str) -> dict[int, float]:
        """Step time by number of devices, where there is one."""
        return {
            p.devices: p.prediction.step_time
            for p in self.points
            if p.strategy == strategy and p.prediction is not None
        }

    @property
    def crossovers(self) -> tuple[Crossover, ...]:
        """Of each pair of strategies, over the numbers of devices on which both run."""
        pairs = combinations(self.strategies, 2)
        return tuple(found for a, b in pairs for found in crossovers((a, self.of(a)), (b, self.of(b))))


def crossovers(first: tuple[str, Mapping[int, float]], second: tuple[str, Mapping[int, float]]) -> Iterator[Crossover]:
    """Where two curves of step time over devices cross: linear between points, in the logarithms of both.

    Args:
        first: a name, and step times by number of devices.
        second: likewise.

    >>> [found] = crossovers(("ring", {2: 2.0, 8: 2.0}), ("server", {2: 1.0, 8: 4.0}))
    >>> found.faster, found.devices
    ('ring', 4.0)
    """
    (a, slow), (b, fast) = first, second
    ratios = [(n, float(np.log(slow[n] / fast[n]))) for n in sorted(slow.keys() & fast.keys())]
    apart = [(n, ratio) for n, ratio in ratios if abs(ratio) > EQUAL]
    for (below, before), (above, after) in pairwise(apart):
        if before * after < 0:
            share = before / (before - after)
            devices = float(np.exp((1 - share) * np.log(below) + share * np.log(above)))
            faster, slower = (a, b) if after < 0 else (b, a)
            yield Crossover(faster, slower, round(devices, 9), below, above)


def compare(
    workload: str | Path,
    hardware: str | Path,
    strategies: Sequence[str | Path],
    devices: Sequence[int],
    *,
    batch: int,
    scaling: Scaling,
    settings: Mapping[str, Any] | None = None,
    sets: Mapping[str, Any] | None = None,
) -> Comparison:
    """Predict every strategy on every number of devices.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise.
        strategies: likewise, one or more.
        devices: of the whole job.
        batch: samples of a step: of each device with weak scaling, of all together with strong scaling.
        scaling: weak or strong.
        settings: single options for all points, as in `perfmodel.job.SETTINGS`; a microbatch that is left out is
            all samples of a replica.
        sets: further overrides for all points.

    Raises InputError with every fault of the files; what cannot run is a point with the reason.
    """
    given = {name: value for name, value in (settings or {}).items() if value is not None}
    loaded: dict[str, Job] = {}
    problems: list[Problem] = []
    for name in dict.fromkeys(strategies):
        try:
            loaded[str(name)] = load_job(workload, hardware, name, given, sets)
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(dict.fromkeys(problems))
    job = next(iter(loaded.values()))

    def point(name: str, strategy: Strategy, count: int) -> Point:
        total = batch * count if scaling == "weak" else batch
        model = strategy.tp * strategy.pp * strategy.cp
        chosen = {"microbatch": max(total * model // count, 1), **given, "devices": count, "batch": total}
        made, reason = _predicted(workload, hardware, name, chosen, sets)
        return Point(name, count, total, made, reason)

    points: list[Point] = []
    for name, each in loaded.items():
        alone = point(name, each.strategy, 1).prediction
        made = (point(name, each.strategy, count) for count in sorted(set(devices)))
        points.extend(replace(one, alone=alone) for one in made)
    return Comparison(str(job.workload.name), str(job.hardware.name), scaling, tuple(points))


def _predicted(
    workload: str | Path,
    hardware: str | Path,
    strategy: str,
    settings: Mapping[str, Any],
    sets: Mapping[str, Any] | None,
) -> tuple[Prediction | None, str]:
    try:
        job = load_job(workload, hardware, strategy, settings, sets)
        made = predict(job.workload, job.hardware, job.strategy)
    except InputError as error:
        return None, "; ".join(f"{problem.path}: {problem.message}" for problem in error.problems)
    if made.fits:
        return made, ""
    return made, "does not fit in the memory of a device"


def request_problems(
    strategies: Sequence[str | Path], devices: Sequence[object], batch: int | None, batch_per_device: int | None
) -> Iterator[Problem]:
    """What is wrong with a request, before any file is read."""
    if not strategies:
        yield Problem(Place("--strategies"), "", "name one or more, as in --strategies horovod,parameter-server")
    if not devices:
        yield Problem(Place("--devices"), "", "give one or more numbers, as in --devices 2,4,8,16")
    for count in devices:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            yield Problem(Place("--devices"), "", f"must be whole numbers above 0, not {count!r}")
    for name, size in (("--batch", batch), ("--batch-per-device", batch_per_device)):
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            yield Problem(Place(name), "", f"must be a whole number above 0, not {size!r}")
    if (batch is None) == (batch_per_device is None):
        message = "give --batch-per-device for weak scaling, or --batch for strong scaling"
        yield Problem(Place("--batch"), "", message if batch is None else f"not both: {message}")
