"""Published systems that have no folder: checked by another study, the same as another entry, or not expressible yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from perfmodel.library import validation_folder
from perfmodel.validation.systems.spec import ENTRY, entry_order, folder, load_systems
from perfmodel.yamlfile import Fault, Spec, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.validation.systems.spec import System

FILE = "list.yaml"


class Listed(Spec):
    """One entry of the list of systems."""

    entry: str = Field(pattern=ENTRY)
    name: str = Field(min_length=1)
    paper: str
    expressed: str = ""
    """How, where it is."""
    studies: tuple[str, ...] = ()
    """Of measured cases, that check it."""
    same: str = ""
    """The entry that it repeats."""
    missing: str = ""
    """What this library has no words for."""


class Listing(Spec):
    """All that have no folder."""

    schema_version: Literal[1] = Field(alias="schema")
    entries: tuple[Listed, ...] = Field(min_length=1)

    def faults(self) -> Iterator[Fault]:
        """Entries that say nothing, or several things, and studies that there are not."""
        for index, one in enumerate(self.entries):
            said = [name for name in ("expressed", "same", "missing") if getattr(one, name)]
            if len(said) != 1:
                yield Fault(f"entries.{index}", f"needs one of 'expressed', 'same' and 'missing', not {len(said)}")
            for study in one.studies:
                if not (validation_folder() / study).is_dir():
                    yield Fault(f"entries.{index}.studies", f"there is no study {study}")


@dataclass(frozen=True, slots=True)
class Row:
    """One line about a published system."""

    entry: str
    name: str
    expressed: str
    checked: str


def load_listing() -> Listing:
    """Raises InputError with every fault of the file."""
    return load(folder() / FILE, Listing, f"validation/systems/{FILE}")


def rows() -> list[Row]:
    """Every published system: how it is expressed, and what checks it."""
    made = [_own(name, system) for name, system in load_systems()]
    made += [_listed(one) for one in load_listing().entries]
    return sorted(made, key=lambda row: entry_order(row.entry))


def _own(name: str, system: System) -> Row:
    counts = {kind: sum(check.kind == kind for check in system.checks) for kind in ("published", "oracle", "limit")}
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return Row(system.entry, system.name, system.expressed, f"systems/{name}: {said}")


def _listed(one: Listed) -> Row:
    if one.same:
        return Row(one.entry, one.name, f"as {one.same}", f"as {one.same}")
    if one.missing:
        return Row(one.entry, one.name, f"not yet: {one.missing}", "")
    return Row(one.entry, one.name, one.expressed, ", ".join(f"study {study}" for study in one.studies))
