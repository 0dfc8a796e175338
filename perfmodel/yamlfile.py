"""YAML 1.2 -> frozen spec; every fault at once, as file:line:col with its remedy.

The files are untrusted input: their size is bounded here, tags, depth and expanded size in `yamltext`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from perfmodel.errors import InputError, Place, Problem
from perfmodel.origin import Origin, origin_of, traced
from perfmodel.textfile import read_text
from perfmodel.yamltext import Location, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a spec finds in itself: which field, and what to do."""

    path: str
    message: str
    value: object = None


class Spec(BaseModel):
    """Base of everything that is read from YAML: frozen, unknown keys refused."""

    # defer_build: the command line starts a sixth faster where only the specs in use are compiled
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    def faults(self) -> Iterator[Fault]:
        """Contradictions between fields, which no single field can see."""
        yield from ()


AnySpec = TypeVar("AnySpec", bound=Spec)


@dataclass(slots=True)
class Document:
    """Plain data with the place of every node; options may still override it."""

    file: str
    data: dict[str, Any]
    places: dict[Location, Place] = field(default_factory=dict)

    def override(self, path: str, value: object, option: str) -> None:
        """Set ``path`` ("network.0.latency") to a value that was given as a command-line option."""
        place = Place(option)
        steps: Location = _steps(path)
        node: Any = self.data
        for depth, step in enumerate(steps[:-1]):
            if isinstance(node, dict) and step not in node:
                node[step] = {}
                self.places[steps[: depth + 1]] = place
            try:
                node = node[step]
            except (KeyError, IndexError, TypeError):
                node = None
            if not isinstance(node, dict | list):
                raise InputError([Problem(place, path, f"there is no {'.'.join(map(str, steps[: depth + 1]))}")])
        try:
            node[steps[-1]] = traced(value, Origin(place, status="option"))
        except (IndexError, TypeError) as error:
            raise InputError([Problem(place, path, f"there is no {path}")]) from error
        # what stood below is gone, and with it its places
        self.places = {at: known for at, known in self.places.items() if at[: len(steps)] != steps} | {steps: place}

    def override_all(self, overrides: Mapping[str, tuple[object, str]]) -> None:
        """Apply {path: (value, option)}; raises InputError with every one that leads nowhere."""
        problems: list[Problem] = []
        for path, (value, option) in overrides.items():
            try:
                self.override(path, value, option)
            except InputError as error:
                problems.extend(error.problems)
        if problems:
            raise InputError(problems)

    def place(self, location: Location) -> Place:
        """The deepest known place on the way to ``location``: a missing key stops at its parent."""
        at = Place(self.file, 1, 1)
        node: Any = self.data
        reached: Location = ()
        for step in location:
            if not isinstance(node, dict | list) or (*reached, step) not in self.places:
                continue  # the tag of a union, or the missing key itself
            reached = (*reached, step)
            at = self.places[reached]
            node = _step(node, step)
        return at

    def validate(self, spec: type[AnySpec]) -> AnySpec:
        """The data as a frozen spec; raises InputError with every problem found."""
        try:
            made = spec.model_validate(self.data)
        except ValidationError as error:
            raise InputError(self._problems(spec, error)) from error
        problems = [Problem(self._fault_place(fault), fault.path, fault.message) for fault in made.faults()]
        if problems:
            raise InputError(sorted(problems, key=lambda p: p.place.line))
        return made

    def _written(self, location: Location) -> Location:
        """``location`` without the tags of unions, which pydantic adds and no file contains."""
        kept: Location = ()
        node: Any = self.data
        for position, step in enumerate(location):
            inside = step in node if isinstance(node, dict) else isinstance(node, list) and isinstance(step, int)
            if inside:
                node = _step(node, step)
            elif position < len(location) - 1 or not isinstance(node, dict):
                continue
            kept = (*kept, step)
        return kept

    def _fault_place(self, fault: Fault) -> Place:
        origin = origin_of(fault.value)
        return origin.place if origin else self.place(_steps(fault.path))

    def _problems(self, spec: type[BaseModel], error: ValidationError) -> list[Problem]:
        found: dict[Problem, None] = {}
        faults = [(self._written(fault["loc"]), fault) for fault in error.errors()]
        told = {location for location, fault in faults if fault["type"] != "tuple_type"}
        for location, fault in faults:
            if fault["type"] == "tuple_type" and location in told:
                continue  # the other half of a union, such as a number or a pair
            problem = Problem(self.place(location), ".".join(map(str, location)), fault_message(spec, location, fault))
            found.setdefault(problem)
        return sorted(found, key=lambda p: (p.place.line, p.place.column))


def _step(node: Any, step: int | str) -> Any:
    return node[step]


def _steps(path: str) -> Location:
    return tuple(int(step) if step.isascii() and step.isdecimal() else step for step in path.split("."))


def read(path: Path, shown: str = "") -> Document:
    """Parse one YAML file; raises InputError where it is no mapping, or not safe to read."""
    file = shown or str(path)
    data, places = parse(read_text(path, file, "YAML", MAX_BYTES), file)
    return Document(file, data, places)


def load(path: Path, spec: type[AnySpec], shown: str = "") -> AnySpec:
    """Parse ``path`` and validate it as ``spec``."""
    return read(path, shown).validate(spec)


def nearest(word: str, known: Iterable[str]) -> str:
    """A suggestion such as ``; did you mean 'memory'?``, or nothing: names that begin so, or that look alike in any case."""
    names, lower = list(known), word.lower()
    longer = [name for name in names if word and name.startswith(word)]
    spelled = [name for name in names if name.lower() == lower]
    close = (longer or spelled or difflib.get_close_matches(word, names, n=3, cutoff=0.6))[:3]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


_EXPECTED = {
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "bool_type": "true or false", "bool_parsing": "true or false",
    "string_type": "text", "tuple_type": "a list",
    "dict_type": "a mapping of keys to values", "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}  # fmt: skip
"""What pydantic's types of fault miss."""


def fault_message(spec: type[BaseModel], location: Location, fault: Any) -> str:
    """What is wrong, and how to mend it, of one of pydantic's faults."""
    if fault["type"] in _EXPECTED:
        scalar = isinstance(fault["input"], int | float)
        quotes = "; put it in quotes" if fault["type"] == "string_type" and scalar else ""
        return f"must be {_EXPECTED[fault['type']]}, not {_shown(fault['input'])}{quotes}"
    match fault["type"]:
        case "extra_forbidden":
            return f"unknown key{nearest(str(location[-1]), _siblings(spec, location))}"
        case "missing":
            return "is missing; this key is required"
        case "literal_error" | "enum":
            expected = re.findall(r"'([^']+)'", fault["ctx"]["expected"])
            hint = nearest(str(fault["input"]), expected) if len(expected) > 1 else ""
            return f"must be {fault['ctx']['expected']}{hint}"
        case "string_too_short":
            return "must not be empty"
        case "too_short":
            return f"needs at least {fault['ctx']['min_length']}"
        case "union_tag_invalid":
            return f"{fault['ctx']['tag']!r} is none of {fault['ctx']['expected_tags']}"
        case "union_tag_not_found":
            return f"needs the key {fault['ctx']['discriminator']}"
        case _:
            return re.sub(r"^(Value error|Input), ?", "", fault["msg"]).replace("Input should", "must")


def _shown(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", type(None): "empty"}
    if type(value) in kinds:
        return kinds[type(value)]
    return str(value).lower() if isinstance(value, bool) else repr(value)[:40]


def _siblings(spec: type[BaseModel], location: Location) -> set[str]:
    """The keys that may stand beside the last step of ``location``."""
    models = {spec}
    for step in location[:-1]:
        if isinstance(step, str):
            fields = [f for m in models for name, f in m.model_fields.items() if step in {name, f.alias}]
            models = {model for f in fields for model in _models(f.annotation)}
    return {f.alias or name for model in models for name, f in model.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Those that an annotation such as ``tuple[Tier, ...] | None`` names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)
