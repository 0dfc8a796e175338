"""The inverse question answered: what a number of the machine must be, and what it would be worth beside that."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from perfmodel.planner.limits import FIGURES
from perfmodel.planner.plan import value_of
from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import quantity, share

if TYPE_CHECKING:
    from perfmodel.planner.inverse import Point, Solution

SCHEMA = 1


def solution_report(solution: Solution) -> Report:
    """The answer, the values around it, and what each of them gives."""
    figures = tuple(dict.fromkeys(("step_time", "mfu", *(limit.figure for limit in solution.limits))))
    rows = [_row(solution, point, figures) for point in solution.around]
    made = {
        "schema": SCHEMA, "workload": str(solution.point.prediction.workload.name),
        "hardware": str(solution.point.prediction.hardware.name), "path": solution.path, "unit": solution.unit,
        "limits": [asdict(limit) for limit in solution.limits], "sense": solution.sense,
        "value": solution.point.value if solution.found else None, "stated": _row(solution, solution.stated, figures),
        "nearest": _row(solution, solution.point, figures), "around": rows,
    }  # fmt: skip
    lines = [_line(solution, point, figures) for point in solution.around]
    header = (solution.path.rpartition(".")[2], *figures, "keeps all")
    table = Section("Around it", header, tuple(lines), frozenset(range(len(header) - 1)))
    return Report(made, rows, (_answer(solution), table))


def _answer(solution: Solution) -> Section:
    wanted = " and ".join(limit.text for limit in solution.limits)
    point, stated = (_shown(solution, each) for each in (solution.point, solution.stated))
    nearer = solution.point.excess < solution.stated.excess
    nearest = f"{point} breaks them least" if nearer else "none comes nearer than it is"
    said = {
        "at least": f"at least {point}",
        "at most": f"at most {point}",
        "any": "any value in reach keeps the bounds",
        "none": f"no value in reach keeps the bounds; {nearest}",
    }[solution.sense]
    p = solution.point.prediction
    rows = [
        ("wanted", wanted),
        (solution.path, said),
        ("as it is", f"{stated}{'' if solution.stated.excess else ', which keeps the bounds'}"),
    ]
    if solution.sense == "none":
        rows += [(limit.figure, _figure(limit.figure, value_of(p, limit.figure))) for limit in solution.limits]
    return Section(f"{p.workload.name} on {p.hardware.name}", ("", ""), tuple(rows), whole=frozenset({0}))


def _row(solution: Solution, point: Point, figures: tuple[str, ...]) -> dict[str, Any]:
    values = {name: value_of(point.prediction, name) for name in figures}
    return {solution.path: point.value, **values, "keeps_all": point.excess <= 0}


def _line(solution: Solution, point: Point, figures: tuple[str, ...]) -> tuple[str, ...]:
    values = (_figure(name, value_of(point.prediction, name)) for name in figures)
    return _shown(solution, point), *values, "yes" if point.excess <= 0 else "no"


def _shown(solution: Solution, point: Point) -> str:
    return f"{point.value:.4g}" if solution.unit == "1" else quantity(point.value, solution.unit)


def _figure(name: str, value: float) -> str:
    unit = FIGURES[name][0]
    return share(value) if name == "mfu" else f"{value:.4g}" if unit == "1" else quantity(value, unit)
