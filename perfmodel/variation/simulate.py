"""The closed forms checked by drawing: steps device by device, and stretches between checkpoints failure by failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.variation.factors import factor

if TYPE_CHECKING:
    from numpy.random import Generator

    from perfmodel.specs.variation import Part
    from perfmodel.variation.factors import Array
    from perfmodel.variation.failures import Reliability
    from perfmodel.variation.mitigation import Plan
    from perfmodel.variation.reweigh import Base
    from perfmodel.variation.slowest import Phase, Shape

DRAWS = 2_000_000
"""Random numbers that are held at a time."""


@dataclass(frozen=True, slots=True)
class Job:
    """Steps that are made by one plan."""

    base: Base
    """Of one replica, with the load that the plan gives it."""
    plan: Plan
    share: float
    """Of all steps."""
    compute: Phase
    messages: Phase


@dataclass(frozen=True, slots=True)
class Drawn:
    """A mean of independent draws."""

    mean: float
    error: float
    """Standard error of the mean."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What so many steps, or stretches between checkpoints, gave."""

    steps: int
    seed: int
    step_time: Drawn | None
    counted: Drawn | None
    """Share of the batch that counts."""
    stretch: Drawn | None
    """Time of a stretch with its checkpoint, failures included, over the work in it."""
    sequences: Drawn | None = None
    """Step with sequences of several lengths, before other delays."""


def drawn(values: Array) -> Drawn:
    """The mean of independent values, with its error."""
    return Drawn(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def simulate(jobs: list[Job], reliability: Reliability | None, *, steps: int, seed: int) -> Simulation:
    """Draw ``steps`` steps and as many stretches.

    Args:
        jobs: plans with their shares of the steps; none where there are no stragglers.
        reliability: of the job; None where it has no failures.
        steps: to draw.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    made = [(job.share, *_steps(job, max(round(steps * job.share), 2), random)) for job in jobs]
    stretch = None if reliability is None else _stretches(reliability, steps, random)
    return Simulation(
        steps, seed, _combined([(share, times) for share, times, _ in made]),
        _combined([(share, counted) for share, _, counted in made]), stretch,
    )  # fmt: skip


def _combined(drawn: list[tuple[float, Array]]) -> Drawn | None:
    """Mean over strata, each with its share."""
    if not drawn:
        return None
    mean = sum(share * float(values.mean()) for share, values in drawn)
    variance = sum(share**2 * float(values.var(ddof=1)) / len(values) for share, values in drawn)
    return Drawn(mean, float(np.sqrt(variance)))


def _steps(job: Job, steps: int, random: Generator) -> tuple[Array, Array]:
    shape = job.compute.shape
    held = shape.devices * (shape.passes if _passing(job) else 1)
    batch = max(int(DRAWS / held), 1)
    batches = [_batch(job, min(batch, steps - start), random) for start in range(0, steps, batch)]
    times, counted = zip(*batches, strict=True)
    return np.concatenate(times), np.concatenate(counted)


def _passing(job: Job) -> bool:
    return any(part.lasts == "pass" for phase in (job.compute, job.messages) for part in phase.parts)


def _batch(job: Job, steps: int, random: Generator) -> tuple[Array, Array]:
    """Times of some steps, and the shares of the batch that count in each."""
    base, plan = job.base, job.plan
    stages = _stages(job.compute, steps, random)
    messages = _stages(job.messages, steps, random).max(axis=1)
    slowest = stages.max(axis=1)
    others = (stages.sum(axis=1) - slowest) / (stages.shape[1] - 1) if stages.shape[1] > 1 else slowest
    everything = np.ones(steps)
    if plan.kind == "none":
        replica = (base.compute + base.update) * slowest + base.bubble * others
        return replica.max(axis=1) + base.communication * messages.max(axis=1), everything
    if plan.deadline is not None:
        time = (base.compute + base.bubble) * plan.deadline + base.communication * messages.max(axis=1) + base.update
        return time, np.minimum(1.0, plan.deadline / slowest).mean(axis=1)
    replica = base.compute * slowest + base.bubble * others + base.communication * messages
    full = plan.kind in {"gradient-coding", "data-encoding", "replication"}
    if plan.copies > 1:
        replica = replica.reshape(steps, -1, plan.copies).min(axis=2)
    waited = np.partition(replica, int(plan.waited) - 1, axis=1)[:, int(plan.waited) - 1]
    return waited + base.update, everything if full else everything * plan.waited / job.compute.shape.replicas


def _stages(phase: Phase, steps: int, random: Generator) -> Array:
    """Factors of steps x stages x replicas: of the slowest device that shares the layers of each."""
    shape = phase.shape
    devices = np.ones((steps, shape.stages, shape.replicas, shape.group))
    for part in phase.parts:
        if part.lasts == "step":
            devices += _drawn(part, shape, steps, random) - 1
    passing = [part for part in phase.parts if part.lasts == "pass"]
    slowest: Array = devices.max(axis=3)
    return slowest + _passes(passing, shape, steps, random) - 1 if passing else slowest


def _drawn(part: Part, shape: Shape, steps: int, random: Generator) -> Array:
    """One cause, for each device in the order of ranks: tensor and context innermost, then data, then pipeline."""
    grid = (steps, shape.stages, shape.replicas, shape.group)
    one = factor(part)
    if part.per == "step":
        return one.sample(random, (steps, 1, 1, 1))
    if part.per == "device":
        return one.sample(random, grid)
    nodes = one.sample(random, (steps, -(-shape.devices // shape.node)))
    return np.repeat(nodes, shape.node, axis=1)[:, : shape.devices].reshape(grid)


def _passes(parts: list[Part], shape: Shape, steps: int, random: Generator) -> Array:
    """Mean over the passes of a step of the slowest device that shares a layer."""
    count = max(round(shape.passes), 1)
    total = np.zeros((steps, shape.stages, shape.replicas))
    for _ in range(count):
        delay = sum(factor(part).sample(random, (*total.shape, shape.group)) - 1 for part in parts)
        total += 1 + np.max(delay, axis=-1)
    return total / count


def _stretches(reliability: Reliability, count: int, random: Generator) -> Drawn:
    """Work, checkpoint, and again from the last one after each failure, which may also hit a restart."""
    r = reliability
    time, failures = _unbroken(count, r.interval + r.write, r.rate, random)
    again, _ = _unbroken(int(failures.sum()), r.restart, r.rate, random)
    time += np.bincount(np.repeat(np.arange(count), failures), again, count)
    return drawn(time / r.interval)


def _unbroken(
    count: int, length: float, rate: float, random: Generator
) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Times until a run of some length goes without failure, with the failures until then."""
    time, failures = np.zeros(count), np.zeros(count, dtype=np.int64)
    left = np.arange(count)
    while left.size:
        until = random.exponential(1 / rate, left.size)
        failed = until < length
        time[left] += np.where(failed, until, length)
        failures[left] += failed
        left = left[failed]
    return time, failures
