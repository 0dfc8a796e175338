"""A published system: what it is in terms of this library, and checks of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import SPECS, names, validation_folder
from perfmodel.yamlfile import Fault, Spec, load, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FILE = "system.yaml"
ENTRY = r"^\d{3}-(A|\d{1,2})$"
"""A number in the list of systems."""
Numbers = float | tuple[float, ...]


class Check(Spec):
    """One quantity of this library beside a number from elsewhere, or within limits."""

    what: str = Field(min_length=1)
    kind: Literal["published", "oracle", "limit"]
    """published: a figure that was measured; oracle: a result that a formula or planner must reproduce; limit: a bound or an ordering."""
    quantity: str
    """One of `perfmodel.validation.systems.quantities.QUANTITIES`."""
    inputs: dict[str, Any] = Field(default_factory=dict)
    over: dict[str, Any] | None = None
    """Divide by the same quantity with these inputs changed."""
    value: Numbers | None = None
    """What it must be, within the tolerance."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Relative; stated with the figure, before it was compared."""
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    source: str
    """A key of `sources`."""

    def faults(self) -> Iterator[Fault]:
        """A check that nothing can fail."""
        if self.value is None and self.at_least is None and self.at_most is None:
            yield Fault("", "needs 'value', 'at_least' or 'at_most'")


class System(Spec):
    """The head of the file."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str = Field(min_length=1)
    entry: str = Field(pattern=ENTRY)
    """Its number in the list of systems."""
    sources: dict[str, str] = Field(min_length=1)
    expressed: str = Field(min_length=1)
    """How, in words."""
    files: tuple[str, ...] = ()
    """Of the library: strategies/NAME, variations/NAME …"""
    figure: str = ""
    """The published figure in words, or why none is checked."""
    checks: tuple[Check, ...] = Field(min_length=1)

    def faults(self) -> Iterator[Fault]:
        """Sources and files that there are not."""
        for index, check in enumerate(self.checks):
            if check.source not in self.sources:
                yield Fault(f"checks.{index}.source", f"{check.source!r} is no key of 'sources'")
            for fault in check.faults():
                yield Fault(f"checks.{index}", fault.message)
        for index, file in enumerate(self.files):
            kind, _, name = file.partition("/")
            if not any(kind == known and name in names(known) for known in SPECS):
                yield Fault(f"files.{index}", f"the library has no {file}")


def folder() -> Path:
    """Of the systems, each in a folder of its own."""
    return validation_folder() / "systems"


def system_names() -> list[str]:
    """Of the library."""
    return sorted(path.parent.name for path in folder().glob(f"*/{FILE}"))


def load_systems(chosen: Sequence[str] = ()) -> list[tuple[str, System]]:
    """All systems, or those named.

    Raises InputError with every fault of every file, and for names that there are not.
    """
    known = system_names()
    found: list[tuple[str, System]] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(chosen or known):
        if name not in known:
            hint = nearest(name, known) or "; `perfmodel validate systems` shows all"
            problems.append(Problem(Place(name), "", f"no system of this name{hint}"))
            continue
        try:
            found.append((name, load(folder() / name / FILE, System, f"validation/systems/{name}/{FILE}")))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return sorted(found, key=lambda pair: entry_order(pair[1].entry))


def entry_order(entry: str) -> tuple[str, int]:
    """Where an entry stands in the list: its anchor first."""
    group, _, number = entry.partition("-")
    return group, 0 if number == "A" else int(number)
