"""Which numbers of a machine a step hangs on: per cent of the step time for one per cent of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from perfmodel.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs import Hardware, Strategy, Workload

STEP = 0.01
"""Relative change on both sides: small against the steps of tiles and waves that it may fall on, large against rounding."""
LEAST = 5e-4
"""Elasticity below which a number is left out."""

Path = tuple[str | int, ...]
"""Fields and indices on the way to a number."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What one number of the machine is worth."""

    path: str
    """As `--set` takes it, without hardware."""
    value: float
    elasticity: float
    """Per cent of the step time for one per cent of the number; negative where more of it is faster."""


def sensitivities(workload: Workload, hardware: Hardware, strategy: Strategy) -> tuple[Sensitivity, ...]:
    """Of each number of the machine that the step hangs on, the strongest first: central differences of the logarithms.

    Args:
        workload: what is trained.
        hardware: whose numbers are changed one at a time.
        strategy: how it is laid out, which stays.
    """

    def slope(path: Path) -> float:
        times = [predict(workload, scaled(hardware, path, 1 + change), strategy).step_time for change in (-STEP, STEP)]
        return float(np.log(times[1] / times[0]) / np.log((1 + STEP) / (1 - STEP)))

    found = (Sensitivity(".".join(map(str, path)), value, slope(path)) for path, value in numbers(hardware))
    strong = (one for one in found if abs(one.elasticity) >= LEAST)
    return tuple(sorted(strong, key=lambda one: -abs(one.elasticity)))


def numbers(node: Any, path: Path = ()) -> Iterator[tuple[Path, float]]:
    """Every number with a fraction, by the path of its fields: counts and words are no matter of per cent."""
    if isinstance(node, float) and node > 0 and path[-1] not in {"error", "points"}:
        yield path, float(node)
    elif isinstance(node, BaseModel):
        for name in type(node).model_fields:
            yield from numbers(getattr(node, name), (*path, name))
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from numbers(value, (*path, str(key)))
    elif isinstance(node, tuple):
        for index, value in enumerate(node):
            yield from numbers(value, (*path, index))


def scaled(node: Any, path: Path, factor: float) -> Any:
    """A copy with one number changed."""
    if not path:
        return node * factor
    head, *rest = path
    if isinstance(node, BaseModel):
        return node.model_copy(update={str(head): scaled(getattr(node, str(head)), tuple(rest), factor)})
    if isinstance(node, dict):
        return {key: scaled(value, tuple(rest), factor) if str(key) == head else value for key, value in node.items()}
    return tuple(scaled(value, tuple(rest), factor) if index == head else value for index, value in enumerate(node))
