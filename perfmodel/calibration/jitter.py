"""How unevenly the ranks of a traced job compute, as a distribution of delays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.formulas.order_statistics import exponential_kth, lognormal_kth, normal_kth

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfmodel.traces.job import TracedJob
    from perfmodel.traces.summary import Summary

    Column = NDArray[np.float64]

FEWEST = 8
"""Times from which a distribution is fitted."""
ALIKE = 1e-6
"""Relative deviation below which times do not differ."""
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Spread:
    """One distribution fitted to times over their mean."""

    kind: str
    parameter: str
    value: float
    """Of the one parameter that the distribution has in a variation file."""
    shape: float
    """Mean absolute difference of the quantiles of the fit from those found."""
    slowest: float
    """Expected slowest of the ranks over their mean, by the fit."""


@dataclass(frozen=True, slots=True)
class Jitter:
    """What traces tell of delays."""

    ranks: int
    steps: int
    """Of each rank."""
    files: str
    times: int
    """That were fitted."""
    deviation: float
    """Relative, of the devices within a step."""
    between_steps: float
    """Relative deviation of whole steps, over all ranks, beyond what devices explain; 0 where the traces cannot tell."""
    slowest: float
    """The slowest rank of a step over the mean of the step, on average."""
    forms: tuple[Spread, ...]
    """Best first."""

    @property
    def best(self) -> Spread:
        """The one whose quantiles lie nearest."""
        return self.forms[0]

    @property
    def error(self) -> float:
        """Relative, of the expected slowest rank."""
        return abs(self.best.slowest / self.slowest - 1)


def jitter_of(job: TracedJob) -> Jitter:
    """Delays of the devices of a job, from the time that each rank computes in each step.

    With several ranks, a rank's time counts over the mean of its step, so that steps of unlike lengths do no harm; with one,
    over the mean of the steps. Systematic differences, as of ranks that have more to do, count as delays too: a profile of one
    job cannot tell them from chance.

    Raises InputError where there are fewer than eight times, or all are alike.
    """
    table = np.array([_times(one, _common(job)) for one in job.ranks])
    ranks, steps = table.shape
    files = ", ".join(dict.fromkeys(PurePath(one.trace.file.partition(":")[0]).name for one in job.ranks))
    if table.size < FEWEST:
        raise _fault(
            files, f"{ranks} ranks with {steps} steps are {table.size} times; {FEWEST} are needed for a distribution"
        )
    mean = table.mean(axis=0) if ranks > 1 else table.mean()
    ratios = table / mean
    lost = np.sqrt(ranks / (ranks - 1)) if ranks > 1 else np.sqrt(steps / (steps - 1))  # one is spent on each mean
    deviation = float(ratios.std() * lost)
    if deviation < ALIKE:
        raise _fault(files, "all ranks compute equally long in all steps; there is no jitter to fit")
    slowest = float(np.mean(ratios.max(axis=0))) if ranks > 1 else float(ratios.max())
    forms = sorted(_forms(ratios.ravel(), deviation, ranks if ranks > 1 else steps), key=lambda one: one.shape)
    between = _between(table, deviation) if ranks > 1 and steps > 2 else 0.0
    return Jitter(ranks, steps, files, table.size, deviation, between, slowest, tuple(forms))


def _common(job: TracedJob) -> int:
    """Steps that all ranks have; without marks the whole trace is one."""
    return min(len(one.steps) for one in job.ranks)


def _times(summary: Summary, steps: int) -> list[float]:
    """Seconds of computing in each step."""
    return [step.computing for step in summary.steps[:steps]] if steps else [summary.computing]


def _between(table: Column, deviation: float) -> float:
    """Deviation of the means of steps, less what that of the devices alone gives them."""
    means = table.mean(axis=0)
    variance = float(np.var(means / means.mean(), ddof=1)) - deviation**2 / len(table)
    return float(np.sqrt(max(variance, 0.0)))


def _forms(ratios: Column, deviation: float, ranks: int) -> list[Spread]:
    """Distributions with one parameter, by their deviation, all scaled to a mean of 1."""
    from scipy.stats import norm

    place = (np.arange(len(ratios)) + 0.5) / len(ratios)
    normal, exponential = norm.ppf(place), -np.log1p(-place)
    sigma = float(np.sqrt(np.log1p(deviation**2)))
    found: list[tuple[str, str, float, Column, Callable[[], object]]] = [
        ("lognormal", "sigma", sigma, np.exp(sigma * normal - sigma**2 / 2),
         lambda: np.asarray(lognormal_kth(waited=ranks, dropped=0, median=1.0, sigma=sigma)) / np.exp(sigma**2 / 2)),
    ]  # fmt: skip
    if deviation <= 0.2:
        found.append(("normal", "deviation", deviation, 1 + deviation * normal,
                      lambda: normal_kth(waited=ranks, dropped=0, mean=1.0, deviation=deviation)))  # fmt: skip
    if deviation < 0.5:
        mean = deviation / (1 - deviation)
        found.append(("exponential", "mean", mean, (1 + mean * exponential) / (1 + mean),
                      lambda: np.asarray(exponential_kth(waited=ranks, dropped=0, shift=1.0, mean=mean)) / (1 + mean)))  # fmt: skip
    there = np.sort(ratios)
    return [
        Spread(kind, name, value, float(np.mean(np.abs(quantiles - there))), float(np.asarray(slowest())))
        for kind, name, value, quantiles, slowest in found
    ]


def variation_text(found: Jitter, name: str, source: str) -> str:
    """A file of `variations/` with what was found.

    Args:
        found: the fit.
        name: of the file.
        source: where the traces come from.
    """
    best = found.best
    parts = [f"    - {{kind: {best.kind}, {best.parameter}: {_short(best.value)}, per: device}}"]
    if found.between_steps > ALIKE:
        parts.append(f"    - {{kind: lognormal, sigma: {_short(found.between_steps)}, per: step}}")
    others = ", ".join(f"{one.kind} {one.shape:.2g}" for one in found.forms)
    return "\n".join([
        "schema: 1", f"name: {name}",
        f"description: What {found.ranks} ranks of a profiled job differ by in the time that they compute; steps of each - {found.steps}.",
        "sources:", f"  traces: {_quoted(source)}", "stragglers:", "  source: traces", "  status: fitted",
        f"  points: {found.times}", f"  error: {max(found.error, 0.001):.3f}",
        "  note: >-",
        f"    the slowest rank takes {found.slowest:.4f} of the mean of its step, {best.slowest:.4f} by the fit; mean difference of quantiles:",
        f"    {others}; ranks that have more to do count as slow",
        "  compute:", *parts, "",
    ])  # fmt: skip


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _short(value: float) -> str:
    return f"{value:.{DIGITS}g}"


def _fault(files: str, message: str) -> InputError:
    return InputError([Problem(Place("FILE"), files, message)])
