"""Strategies over numbers of devices, and reports of `predict` term by term, as tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perfmodel.cost.losses import LADDER
from perfmodel.errors import InputError, Place, Problem
from perfmodel.reporting.report import Report, Section, flat
from perfmodel.reporting.text import count, quantity, rate, share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from perfmodel.comparison import Comparison, Crossover, Point

SCHEMA = 1
PROVENANCE = ("source", "status", "error", "points", "note")
"""Keys of a group that say where its values come from."""
REMEDY = "make one with `perfmodel predict WORKLOAD HARDWARE --format json --output FILE`"


def comparison_report(comparison: Comparison) -> Report:
    """Step time, throughput and exposed communication of every point, and the crossovers."""
    rows = [_row(point) for point in comparison.points]
    found = [
        {"faster": c.faster, "slower": c.slower, "devices": c.devices, "below": c.below, "above": c.above}
        for c in comparison.crossovers
    ]
    record = {
        "schema": SCHEMA, "workload": comparison.workload, "hardware": comparison.hardware, "scaling": comparison.scaling,
        "strategies": list(comparison.strategies), "points": rows, "crossovers": found,
    }  # fmt: skip
    title = f"{comparison.workload} on {comparison.hardware}, {comparison.scaling} scaling"
    header = ("strategy", "devices", "batch", "step time", "samples/s", "exposed", "of step", "speed-up", "")
    table = Section(title, header, tuple(map(_cells, comparison.points)), frozenset(range(1, 8)), frozenset({0}))
    return Report(record, rows, (table,), tuple(sentence(c) for c in comparison.crossovers))


def sentence(crossover: Crossover) -> str:
    """A crossover in words."""
    between = f"between {count(crossover.below)} and {count(crossover.above)}"
    return f"{crossover.faster} overtakes {crossover.slower} at {crossover.devices:.3g} devices ({between})"


def _row(point: Point) -> dict[str, Any]:
    made, messages = point.prediction, point.communication or (None, None)
    return {
        "strategy": point.strategy, "devices": point.devices, "batch": point.batch, "step_time": point.step_time,
        "samples_per_second": None if made is None else made.samples_per_second,
        "tokens_per_second": None if made is None else made.tokens_per_second,
        "communication": messages[0], "exposed_communication": messages[1], "speedup": point.speedup,
        "fits": None if made is None else made.fits, "reason": point.reason,
    }  # fmt: skip


def _cells(point: Point) -> tuple[str, ...]:
    head = (point.strategy, count(point.devices), count(point.batch))
    if point.prediction is None or point.communication is None:
        return (*head, "", "", "", "", "", point.reason)
    step, exposed = point.prediction.step_time, point.communication[1]
    speedup = "" if point.speedup is None else f"{point.speedup:.3g}"
    return (
        *head, quantity(step, "s"), rate(point.prediction.samples_per_second), quantity(exposed, "s"),
        share(exposed / step), speedup, point.reason,
    )  # fmt: skip


def reports_report(files: Sequence[Path]) -> Report:
    """Two or more reports of `predict`, term by term; the differences to the first add up to that of the step.

    Raises InputError with the faults of all files.
    """
    reports = _read(files)
    names = [path.stem for path in files]
    names = names if len(set(names)) == len(names) else [str(path) for path in files]
    exposed = [{row["name"]: float(row["exposed"]) for row in report["breakdown"]} for report in reports]
    terms = sorted(dict.fromkeys(name for own in exposed for name in own), key=lambda name: -_change(exposed, name))
    rows = [_term(name, names, [own.get(name, 0.0) for own in exposed]) for name in terms]
    rows.append(_term("step", names, [float(report["step_time"]) for report in reports]))
    record = {
        "schema": SCHEMA, "reports": [str(path) for path in files], "names": names,
        "step_time": [float(report["step_time"]) for report in reports], "terms": rows[:-1],
        "differing": list(_differing(reports)),
    }  # fmt: skip
    others = names[1:]
    header = ("term", *names, *(f"{name} - {names[0]}" for name in others))
    cells = tuple(_signed_cells(row, names) for row in _shown(rows, names))
    tables = [Section("Exposed time by term", header, cells, frozenset(range(1, len(header))), frozenset({0}))]
    if all("losses" in report for report in reports):
        splits = _split(names, [report["losses"] for report in reports])
        record["losses"] = splits
        rows += [{**row, "name": f"loss: {row['name']}"} for row in splits]
        shown = tuple(_signed_cells(row, names) for row in splits)
        tables.append(Section("Losses", ("loss", *header[1:]), shown, frozenset(range(1, len(header))), frozenset({0})))
    if record["differing"]:
        wide = tuple((row["path"], *map(str, row["values"])) for row in _differing(reports))
        tables.append(Section("What differs", ("", *names), wide))
    return Report(record, rows, tuple(tables))


def _split(names: Sequence[str], losses: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Losses by name, with the differences to the first, which add up to that of the step."""
    known = dict.fromkeys(name for own in losses for name in own)
    order = [*(name for name in LADDER if name in known), *(name for name in known if name not in LADDER)]
    return [_term(name, names, [float(own.get(name, 0.0)) for own in losses]) for name in order]


def _change(exposed: Sequence[dict[str, float]], name: str) -> float:
    return max(abs(own.get(name, 0.0) - exposed[0].get(name, 0.0)) for own in exposed)


def _term(name: str, names: Sequence[str], times: Sequence[float]) -> dict[str, Any]:
    values = dict(zip(names, times, strict=True))
    return {"name": name, **values, **{f"{other}.difference": values[other] - times[0] for other in names[1:]}}


def _shown(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Terms that differ, then the sum of those that do not, then the step."""
    *terms, step = rows
    alike = [row for row in terms if not any(row[f"{name}.difference"] for name in names[1:])]
    yield from (row for row in terms if row not in alike)
    if alike:
        title = f"{len(alike)} terms that do not differ"
        yield _term(title, names, [sum(row[name] for row in alike) for name in names])
    yield step


def _signed_cells(row: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    changes = [row[f"{name}.difference"] for name in names[1:]]
    signed = [f"+{quantity(change, 's')}" if change > 0 else quantity(change, "s") for change in changes]
    return row["name"], *(quantity(row[name], "s") for name in names), *signed


def _differing(reports: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Workload, hardware and what the strategies say otherwise."""
    inputs = [flat({key: report.get(key) for key in ("workload", "hardware", "strategy")}) for report in reports]
    for path in dict.fromkeys(key for own in inputs for key in own):
        values = [own.get(path) for own in inputs]
        if path.rpartition(".")[2] not in PROVENANCE and any(value != values[0] for value in values):
            yield {"path": path, "values": values}


def _read(files: Sequence[Path]) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = []
    problems: list[Problem] = []
    if len(files) < 2:
        problems.append(Problem(Place(str(files[0]) if files else "compare"), "", "needs another report beside it"))
    for path in files:
        try:
            reports.append(_report(path))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return reports


def _report(path: Path) -> dict[str, Any]:
    place = Place(str(path))
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError([Problem(place, "", f"cannot be read: {error.strerror}")]) from error
    except json.JSONDecodeError as error:
        raise InputError([Problem(Place(str(path), error.lineno, error.colno), "json", error.msg)]) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise InputError([Problem(place, "json", "is no text of JSON")]) from error
    if not isinstance(found, dict) or not _is_prediction(found):
        raise InputError([Problem(place, "", f"is no report of a prediction; {REMEDY}")])
    if found.get("schema") != SCHEMA:
        message = f"is of schema {found.get('schema')}, this version reads {SCHEMA}; {REMEDY}"
        raise InputError([Problem(place, "schema", message)])
    return found


def _is_prediction(found: dict[str, Any]) -> bool:
    terms = found.get("breakdown")
    return (
        isinstance(terms, list)
        and isinstance(found.get("step_time"), int | float)
        and all(isinstance(t, dict) and "name" in t and isinstance(t.get("exposed"), int | float) for t in terms)
    )
