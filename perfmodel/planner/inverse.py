"""The inverse question: what a number of the machine must be, so that a job keeps its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isnan, log2
from typing import TYPE_CHECKING, Any, Literal, get_args

from annotated_types import Ge, Le
from pydantic import BaseModel

from perfmodel.errors import InputError, Place, Problem
from perfmodel.planner.limits import Limit, excesses, limits_of
from perfmodel.planner.plan import value_of
from perfmodel.planner.sensitivity import numbers, scaled
from perfmodel.prediction import Prediction, predict
from perfmodel.units import Unit
from perfmodel.yamlfile import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.job import Job
    from perfmodel.planner.sensitivity import Path

REACH = 1e4
"""How many times smaller and larger than stated a number may become."""
RESOLUTION = 1e-3
"""Relative, of the answer."""
STEPS = ceil(log2(2 * log2(REACH) / log2(1 + RESOLUTION)))
"""Halvings of that range which reach it."""
AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the answer that are shown beside it."""
Sense = Literal["at least", "at most", "any", "none"]


@dataclass(frozen=True, slots=True)
class Point:
    """The job on the machine with one number changed."""

    value: float
    prediction: Prediction
    excess: float
    """By which share of its bound the worst figure breaks it; 0 where all are kept."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What the number must be."""

    path: str
    """As `--set` takes it."""
    unit: str
    """SI; 1 of a share."""
    limits: tuple[Limit, ...]
    sense: Sense
    """At least or at most so much; any value in reach keeps the bounds, or none does."""
    point: Point
    """At the answer; where there is none, at the end of the reach that breaks the bounds least, or as stated where no end comes nearer."""
    stated: Point
    """As the file has it."""
    around: tuple[Point, ...]
    """Multiples of the answer within reach, from the least."""

    @property
    def found(self) -> bool:
        """Whether some value keeps all bounds."""
        return self.sense != "none"


def solve(job: Job, path: str, wanted: Sequence[str]) -> Solution:
    """The value of one number of the machine at which a job just keeps its bounds: bisection of its logarithm.

    Args:
        job: workload, machine and strategy, which stay as they are.
        path: of the number, as "hardware.network.1.bandwidth".
        wanted: bounds, as "mfu>=0.4" or "step_time<=2 s".

    Assumes that more of the number makes each figure better throughout, or worse throughout. The memory of a device bounds nothing
    here. Raises InputError where the path leads to no number with a fraction, and for every bound that is none.
    """
    limits = limits_of(wanted, "--for")
    where, stated = _number(job, path)
    unit, least, most = _unit_and_range(job.hardware, where)

    def at(value: float) -> Point:
        made = predict(job.workload, scaled(job.hardware, where, value / stated), job.strategy)
        broken = (share for _, _, share in excesses(limits, lambda figure: value_of(made, figure)))
        return Point(value, made, max(broken, default=0.0))

    _require_figures(limits, at(stated).prediction)
    low, high = at(max(stated / REACH, least)), at(min(stated * REACH, most))
    sense: Sense
    match low.excess <= 0, high.excess <= 0:
        case True, True:
            sense, point = "any", at(stated)
        case False, False:
            sense, point = "none", min(at(stated), low, high, key=lambda one: one.excess)
        case kept, _:
            sense = "at most" if kept else "at least"
            point = _edge(at, *((low, high) if kept else (high, low)))
    reach = (point.value * factor for factor in AROUND)
    around = tuple(point if value == point.value else at(value) for value in reach if low.value <= value <= high.value)
    return Solution(path, unit, limits, sense, point, at(stated), around)


def _require_figures(limits: Sequence[Limit], made: Prediction) -> None:
    """That the job has every figure which is bounded: a price, tokens."""
    missing = [limit for limit in limits if isnan(value_of(made, limit.figure))]
    if missing:
        message = f"{made.workload.name} on {made.hardware.name} has no such figure"
        raise InputError([Problem(Place("--for"), limit.figure, message) for limit in missing])


def _edge(at: Any, kept: Point, broken: Point) -> Point:
    """The last point that keeps the bounds between one that does and one that does not."""
    for _ in range(STEPS):
        middle = at((kept.value * broken.value) ** 0.5)
        kept, broken = (middle, broken) if middle.excess <= 0 else (kept, middle)
    return kept


def _number(job: Job, path: str) -> tuple[Path, float]:
    known = {".".join(("hardware", *map(str, where))): (where, value) for where, value in numbers(job.hardware)}
    if path not in known:
        what = "is no number of the machine that can be solved for"
        example = "; give one as hardware.network.0.bandwidth: `perfmodel show` lists all"
        raise InputError([Problem(Place("PATH"), path, f"{what}{nearest(path, known) or example}")])
    return known[path]


def _unit_and_range(node: Any, path: Path) -> tuple[str, float, float]:
    """The unit of a number, and the least and the most that its spec allows."""
    told: list[Any] = []
    for step in path:
        if isinstance(node, BaseModel):
            field = type(node).model_fields[str(step)]
            told = [*field.metadata, *_metadata(field.annotation)]
        node = getattr(node, str(step)) if isinstance(node, BaseModel) else node[step]
    units = [each.name for each in told if isinstance(each, Unit)]
    least = [float(each.ge) for each in told if isinstance(each, Ge)]  # type: ignore[arg-type]
    most = [float(each.le) for each in told if isinstance(each, Le)]  # type: ignore[arg-type]
    return next(iter(units), "1"), max(least, default=0.0), min(most, default=float("inf"))


def _metadata(annotation: Any) -> Iterator[Any]:
    """What is said of a type and of the types inside it."""
    for each in getattr(annotation, "__metadata__", ()):
        yield each
        yield from getattr(each, "metadata", ())
    for part in get_args(annotation):
        yield from _metadata(part)
