"""Hold systems to their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.validation.systems.quantities import QUANTITIES
from perfmodel.yamlfile import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfmodel.validation.systems.spec import Check, System

Status = Literal["passed", "failed", "no figure readable"]
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Result:
    """One check and what this library says."""

    check: Check
    ours: tuple[float, ...]
    error: float | None
    """Largest relative difference from the value; None for limits."""
    passed: bool


@dataclass(frozen=True, slots=True)
class JudgedSystem:
    """A system with the results of its checks."""

    name: str
    system: System
    results: tuple[Result, ...]

    @property
    def status(self) -> Status:
        """Passed only where a figure or an oracle is among what holds."""
        if not all(result.passed for result in self.results):
            return "failed"
        figures = any(result.check.kind != "limit" for result in self.results)
        return "passed" if figures else "no figure readable"

    @property
    def headline(self) -> Result:
        """The first figure, else the first limit."""
        return next((r for r in self.results if r.check.kind != "limit"), self.results[0])


def judge_systems(
    systems: Sequence[tuple[str, System]], progress: Callable[[int, int], None] | None = None
) -> list[JudgedSystem]:
    """The checks of all; raises InputError where one asks for what this library does not have."""
    problems: list[Problem] = []
    judged = []
    for done, (name, system) in enumerate(systems, start=1):
        results = []
        for index, check in enumerate(system.checks):
            try:
                results.append(_result(check))
            except InputError as error:
                problems.extend(error.problems)
            except (TypeError, ValueError, KeyError) as error:
                place = Place(f"validation/systems/{name}/system.yaml")
                problems.append(
                    Problem(place, f"checks.{index}.inputs", f"{check.quantity} does not take these: {error}")
                )
        judged.append(JudgedSystem(name, system, tuple(results)))
        if progress:
            progress(done, len(systems))
    if problems:
        raise InputError(problems)
    return judged


def _result(check: Check) -> Result:
    ours = _value(check.quantity, check.inputs)
    if check.over is not None:
        ours = ours / _value(check.quantity, {**check.inputs, **check.over})
    error = None
    if check.value is not None:
        value = np.atleast_1d(np.asarray(check.value, dtype=float))
        same = value.shape == ours.shape
        error = float(np.max(np.abs(ours - value) / np.maximum(np.abs(value), 1e-300))) if same else np.inf
    passed = (
        (error is None or error <= check.tolerance + ROUNDING)
        and (check.at_least is None or bool(np.all(ours >= check.at_least * (1 - ROUNDING))))
        and (check.at_most is None or bool(np.all(ours <= check.at_most * (1 + ROUNDING))))
    )
    return Result(check, tuple(ours.tolist()), error, passed)


def _value(quantity: str, inputs: dict[str, Any]) -> NDArray[np.float64]:
    if quantity not in QUANTITIES:
        hint = nearest(quantity, QUANTITIES) or f"; there are {', '.join(QUANTITIES)}"
        raise InputError([Problem(Place("checks"), "quantity", f"{quantity!r} is no quantity{hint}")])
    return np.atleast_1d(np.asarray(QUANTITIES[quantity](**inputs), dtype=float))
