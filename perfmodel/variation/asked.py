"""Distributions of lengths that a command names without a variation file: a CSV, or lognormal:median=500,sigma=0.8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import find
from perfmodel.specs import Variation
from perfmodel.variation.lengths import Lengths
from perfmodel.yamlfile import Document
from perfmodel.yamltext import scalar

LOGNORMAL = "lognormal:"
POLICIES = {"rows", "assignment", "context"}
"""What else the text may say; the rest belongs to the distribution."""


def lengths_of(asked: str | Path) -> Variation:
    """What `--lengths` means.

    Args:
        asked: a variation of the library, a YAML file with a section `lengths`, a CSV with the column `length` and perhaps
            `count`, or `lognormal:median=500,sigma=0.8` with `most`, `rows`, `assignment` and `context` as in such a section.

    Raises InputError with every fault.
    """
    text = str(asked)
    if text.startswith(LOGNORMAL):
        return _written("lognormal lengths", _assigned(text))
    if Path(text).suffix == ".csv":
        lengths = Lengths.read(Path(text))
        histogram = {"lengths": [int(v) for v in lengths.values], "shares": [float(s) for s in lengths.shares]}
        return _written(f"lengths of {Path(text).name}", {"distribution": {"kind": "histogram", **histogram}})
    found: Variation = find("variations", asked)
    return found


def _assigned(text: str) -> dict[str, Any]:
    pairs = [pair.partition("=") for pair in text.removeprefix(LOGNORMAL).split(",")]
    wrong = ["".join(pair) for pair in pairs if not pair[1]]
    if wrong:
        raise InputError(
            [
                Problem(Place("--lengths"), part, "must be key=value, as in lognormal:median=500,sigma=0.8")
                for part in wrong
            ]
        )
    given = {key.strip(): scalar(value.strip()) for key, _, value in pairs}
    policies = {key: given.pop(key) for key in list(given) if key in POLICIES}
    return {"distribution": {"kind": "lognormal", **given}, **policies}


def _written(name: str, section: dict[str, Any]) -> Variation:
    values = {
        "schema": 1, "name": name, "sources.option": "given as --lengths", "lengths.source": "option", "lengths.status": "assumed",
        **{f"lengths.{key}": value for key, value in section.items() if key != "distribution"},
        **{f"lengths.distribution.{key}": value for key, value in section["distribution"].items()},
    }  # fmt: skip
    source = Document("--lengths", {})
    source.override_all({path: (value, "--lengths") for path, value in values.items()})
    return source.validate(Variation)
