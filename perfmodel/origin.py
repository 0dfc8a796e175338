"""Values that remember where they were written.

A number read from YAML is an ordinary ``float``, ``int`` or ``str`` that also knows its file, line,
source and status. Arithmetic yields plain numbers again, so only what was *read* carries an origin;
``explain`` shows it beside each input of a formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import WrapValidator

from perfmodel.errors import Place  # noqa: TC001 - in the doctest's namespace


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a value, and what the group around it says of its source and status."""

    place: Place
    source: str = ""
    status: str = ""

    def __str__(self) -> str:
        return f"{self.place} ({self.status})" if self.status else str(self.place)


class TracedFloat(float):
    """A float that was read from somewhere."""

    origin: Origin


class TracedInt(int):
    """An int that was read from somewhere."""

    origin: Origin


class TracedText(str):
    """A text that was read from somewhere."""

    __slots__ = ("origin",)
    origin: Origin


def traced(value: Any, origin: Origin) -> Any:
    """``value`` with its origin; booleans, lists and None pass unchanged.

    >>> size = traced(80e9, Origin(Place("gpu.yaml", 3, 5), status="datasheet"))
    >>> size / 2, str(size.origin)
    (40000000000.0, 'gpu.yaml:3:5 (datasheet)')
    """
    kinds: dict[type, Any] = {float: TracedFloat, int: TracedInt, str: TracedText}
    for kind, keeper in kinds.items():
        if isinstance(value, kind) and not isinstance(value, bool):
            kept = keeper(value)
            kept.origin = origin
            return kept
    return value


def origin_of(value: object) -> Origin | None:
    """Where a value was read, or None for one that was computed."""
    return getattr(value, "origin", None)


def place_of(value: object, default: Place) -> Place:
    """The place of a value, or ``default`` for one that was computed or left out."""
    origin = origin_of(value)
    return origin.place if origin else default


def _keep(value: Any, handler: Any) -> Any:
    origin = origin_of(value)
    return traced(handler(value), origin) if origin else handler(value)


LARGEST = 1e18
"""Of a number without a unit: above it, counts are no longer exact as floats, let alone real."""


def _keep_number(value: Any, handler: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")  # noqa: TRY004 - what pydantic collects
    if isinstance(value, int | float) and abs(value) > LARGEST:
        raise ValueError(f"must be at most {LARGEST:g}")
    return _keep(value, handler)


KeepOrigin = WrapValidator(_keep)
"""Let a pydantic field return what it validated with the origin it came with."""

Integer = Annotated[int, WrapValidator(_keep_number)]
Fraction = Annotated[float, WrapValidator(_keep_number)]
Text = Annotated[str, KeepOrigin]
