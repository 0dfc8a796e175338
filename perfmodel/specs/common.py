"""What all spec files share: sources, statuses, precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from perfmodel.origin import Fraction, Integer, Text, origin_of
from perfmodel.yamlfile import Fault, Spec, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIONS = "command line"
"""Source of a group that options alone made."""
Status = Literal["datasheet", "published", "measured", "fitted", "assumed"]
Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8"]

ELEMENT_BYTES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "fp4": 0.5, "int8": 1.0}
"""Bytes of one stored number; tf32 is a way to multiply numbers stored as fp32."""

STORED_BYTES = {precision: max(size, 2.0) for precision, size in ELEMENT_BYTES.items()}
"""Bytes of an activation, weight or gradient in memory: with fp8, fp4 and int8 only the operands of products shrink."""

WIDE: dict[Precision, Precision] = {"fp8": "bf16", "fp4": "bf16", "int8": "bf16"}
"""In which precision a job with narrow products computes everything else."""

Positive = Annotated[Fraction, Field(gt=0)]
"""A number above 0."""
Share = Annotated[Fraction, Field(gt=0, le=1)]
"""A number above 0 and up to 1."""
Size = Annotated[Integer, Field(gt=0)]
"""A whole number above 0."""
Degree = Annotated[Integer, Field(ge=1)]
"""Into how many parts something is cut, or how many there are."""


class Group(Spec):
    """Values that come from one place: where from, and how far to trust them."""

    source: Text
    """A key of the file's `sources`."""
    status: Status
    """datasheet, published (in a paper), measured, fitted (by us, to measurements) or assumed."""
    error: Annotated[Fraction, Field(gt=0)] | None = None
    """Median relative error of what these values predict, where it is known."""
    points: int | None = Field(default=None, gt=0)
    """How many measurements a fit used."""
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_options_alone(cls, data: Any) -> Any:
        """A group that the file has not, and that options made: assumed, with the command line as its source."""
        given = data.values() if isinstance(data, dict) else ()
        if given and all(getattr(origin_of(value), "status", "") == "option" for value in given):
            return {"source": OPTIONS, "status": "assumed"} | data
        return data


class SpecFile(Spec):
    """The head of every file of the library."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Text = Field(min_length=1)
    description: str = ""
    sources: dict[str, Text] = Field(min_length=1)
    """A key for each document that values are taken from: title and address."""

    def faults(self) -> Iterator[Fault]:
        """Groups that name a source which the file does not list."""
        for path, group in _groups(self, ""):
            if group.source not in {*self.sources, OPTIONS}:
                hint = nearest(group.source, self.sources) or f"; add it there, beside {', '.join(self.sources)}"
                yield Fault(f"{path}.source", f"{group.source!r} is no key of 'sources'{hint}", group.source)

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Every sourced group of the file with its path."""
        return _groups(self, "")


def _groups(node: object, path: str) -> Iterator[tuple[str, Group]]:
    if isinstance(node, Group):
        yield path, node
    if isinstance(node, Spec):
        for name, field in type(node).model_fields.items():
            yield from _groups(getattr(node, name), f"{path}.{field.alias or name}".lstrip("."))
    elif isinstance(node, tuple | dict):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _groups(item, f"{path}.{key}")
