"""Each term of a prediction traced to its equation, its inputs and its reference."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from perfmodel.cost.position import position
from perfmodel.errors import InputError, Place, Problem
from perfmodel.origin import origin_of
from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import quantity
from perfmodel.yamlfile import nearest

LEAST = 5e-4
"""Of a share, that it must fall short of one to be told."""

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.prediction import Prediction
    from perfmodel.timeline import Term


@dataclass(frozen=True, slots=True)
class FormulaText:
    """What a formula's docstring says."""

    summary: str
    equation: str
    arguments: dict[str, str]
    reference: str


def formula_text(formula: Callable[..., Any]) -> FormulaText:
    """Equation, meanings of the arguments and references out of the docstring.

    >>> from perfmodel.formulas.collectives import send
    >>> formula_text(send).arguments["size"]
    'n.'
    """
    doc = inspect.getdoc(formula) or ""
    math = re.search(r"\.\. math::(.*?)(?=\n\S|\nArgs:)", doc, re.DOTALL)
    arguments = re.search(r"\nArgs:\n(.*?)(?=\n\S|\Z)", doc, re.DOTALL)
    reference = re.search(r"\nReferences:\n(.*?)(?=\n\S|\Z)", doc, re.DOTALL)
    named = re.findall(
        r"^ {4}(\w+): (.*?)(?=^ {4}\w+: |\Z)", arguments.group(1) if arguments else "", re.MULTILINE | re.DOTALL
    )
    return FormulaText(
        doc.partition("\n")[0],
        " ".join(math.group(1).split()) if math else "",
        {name: " ".join(text.split()) for name, text in named},
        " ".join(reference.group(1).split()) if reference else "",
    )


def explain_report(prediction: Prediction, name: str | None = None) -> Report:
    """All terms, or those whose name contains ``name``; raises InputError where none does."""
    rows = prediction.terms
    if name is not None:
        rows = tuple(r for r in rows if r[0].name == name) or tuple(
            r for r in rows if name.lower() in r[0].name.lower()
        )
        if not rows:
            known = [leaf.name for leaf, _, _ in prediction.terms]
            raise InputError(
                [
                    Problem(
                        Place("TERM"),
                        name,
                        f"no term of this name{nearest(name, known) or '; without a TERM all are shown'}",
                    )
                ]
            )
    records = [_record(prediction, *row) for row in rows]
    sections = tuple(_section(r) for r in records)
    csv_rows = [
        {"term": r["name"], "time": r["time"], "formula": r["formula"], "input": i["name"], "value": i["value"],
         "unit": i["unit"], "origin": i["origin"], "status": i["status"]}
        for r in records for i in r["inputs"]
    ]  # fmt: skip
    return Report(records, csv_rows, sections)


def _record(prediction: Prediction, leaf: Term, time: float, exposed: float) -> dict[str, Any]:
    text = formula_text(leaf.formula)
    hints = get_type_hints(leaf.formula, include_extras=True)
    inputs = [
        {
            "name": name, "value": _plain(value), "unit": hints[name].__metadata__[0].name,
            "meaning": text.arguments.get(name, ""), **_origin(value, prediction),
        }
        for name, value in leaf.inputs.items()
    ]  # fmt: skip
    once = float(leaf.time)
    found = position(leaf)
    return {
        "name": leaf.name, "kind": leaf.kind, "once": once, "times": time / once if once else 0.0,
        "time": time, "exposed": exposed, "formula": f"{leaf.formula.__module__}.{leaf.formula.__name__}",
        "summary": text.summary, "equation": text.equation, "inputs": inputs, "reference": text.reference,
        "bound": found.bound if found else None, "factors": dict(found.factors) if found else {},
    }  # fmt: skip


def _origin(value: Any, prediction: Prediction) -> dict[str, str]:
    origin = origin_of(value)
    if origin is None:
        return {"origin": "derived or default", "status": "", "source": ""}
    source = prediction.hardware.sources.get(origin.source, origin.source)
    return {"origin": str(origin.place), "status": origin.status, "source": str(source)}


def _plain(value: Any) -> Any:
    array = np.asarray(value, dtype=float)
    return array.tolist() if array.ndim else float(array)


def _section(r: dict[str, Any]) -> Section:
    rows = []
    for i in r["inputs"]:
        mark = f"{i['origin']} ({i['status']})" if i["status"] else i["origin"]
        rows.append((i["name"], _shown(i["value"], i["unit"]), mark, i["meaning"]))
    result = f"{quantity(r['once'], 's')} x {r['times']:.6g} = {quantity(r['time'], 's')}, {quantity(r['exposed'], 's')} exposed"
    return Section(
        f"{r['name']}: {r['summary']}", ("input", "value", "from", "meaning"), tuple(rows), whole=frozenset({0, 2}),
        lead=r["equation"], tail=f"Result: {result}\n{_bound(r)}Reference: {r['reference']}",
    )  # fmt: skip


def _bound(r: dict[str, Any]) -> str:
    """What binds, and the shares of the peak (or of the bandwidth) that are left one after the other."""
    if not r["factors"]:
        return ""
    limit = "peak" if r["bound"] == "computing" else "bandwidth" if r["bound"] != "launch" else "ideal"
    left = " x ".join(f"{name} {value:.3g}" for name, value in r["factors"].items() if abs(value - 1) >= LEAST)
    return f"Bound by {r['bound']}: {prod(r['factors'].values()):.1%} of the {limit} = {left}\n"


def _shown(value: Any, unit: str) -> str:
    if isinstance(value, list):
        return ", ".join(f"{v:g}" for v in value)
    return f"{value:,.6g}" if unit == "1" else quantity(value, unit)
