"""The shape of a model as a workload of the library: one with that very shape, or a generic one with overrides."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from perfmodel import library
from perfmodel.specs.workload import Transformer

if TYPE_CHECKING:
    from perfmodel.specs import Workload

Value = str | int | bool | float

_SIZES = ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "head_dim", "vocabulary")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table prints of a transformer."""

    generic: str
    """The workload of its family."""
    layers: int
    hidden: int
    ffn_hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    facts: tuple[tuple[str, Value], ...] = ()
    """What differs from the family: ("workload.model.dropout", False), ..."""


def named(shape: Shape) -> tuple[str, dict[str, Value]]:
    """A workload and the overrides that give it this shape; none where the library has the model itself.

    >>> named(Shape("generic-llama", 32, 4096, 11008, 32, 32, 128, 32000))
    ('llama-2-7b', {})
    """
    overrides: dict[str, Value] = {f"workload.model.{name}": getattr(shape, name) for name in _SIZES}
    overrides |= dict(shape.facts)
    name = _library_twin(shape)
    return (name, {}) if name else (shape.generic, overrides)


@cache
def _library_twin(shape: Shape) -> str:
    paths = {f"model.{name}": getattr(shape, name) for name in _SIZES}
    paths |= {path.removeprefix("workload."): value for path, value in shape.facts}
    wanted: Workload = library.find(
        "workloads", shape.generic, {path: (value, "table") for path, value in paths.items()}
    )
    return next((name for name, model in _library_models() if model == _essence(wanted)), "")


@lru_cache(maxsize=1)
def _library_models() -> tuple[tuple[str, tuple[object, ...]], ...]:
    found = []
    for name in library.names("workloads"):
        workload: Workload = library.find("workloads", name)
        if isinstance(workload.model, Transformer) and not name.startswith("generic-"):
            found.append((name, _essence(workload)))
    return tuple(found)


def _essence(workload: Workload) -> tuple[object, ...]:
    """All that tells two transformers apart, defaults filled in."""
    model = workload.model
    if not isinstance(model, Transformer):
        return ()
    provenance = {"source", "status", "error", "points", "note"}
    rest = (getattr(model, name) for name in sorted(set(type(model).model_fields) - provenance - set(_SIZES)))
    return (model.layers, model.hidden, model.ffn, model.heads, model.kv, model.head, model.vocabulary, *rest)


assert set(_SIZES) <= {f.name for f in fields(Shape)}  # noqa: S101
