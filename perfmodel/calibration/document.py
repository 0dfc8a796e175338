"""Constants into the YAML of a machine: its comments, order and other values stay as they are."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from perfmodel.calibration.forms import BY_PRECISION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


KERNELS = "attention_kernels"
STATEMENTS = ("source", "status", "points", "error", "note")
"""Of a group, about where its values come from; a fit writes them anew."""
TIMES = {
    "time": ("us", 1e6), "depth_time": ("ns", 1e9), "latency": ("us", 1e6), "setup": ("us", 1e6), "ramp": ("us", 1e6),
    "handshake": ("us", 1e6), "ramp_size": ("kB", 1e-3), "eager": ("kB", 1e-3),
}  # fmt: skip
"""Constants with a unit."""


@dataclass(frozen=True, slots=True)
class Written:
    """Values of one group and where they come from."""

    group: str
    slot: str | None
    """The precision whose own products they are, or the kernel of attention; None is the device's own group."""
    values: Mapping[str, float]
    statements: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenTier:
    """Constants of one tier and where they come from."""

    index: int
    library: str
    """Whose constants they are; empty for the tier's own."""
    values: Mapping[str, float]
    statements: Mapping[str, Any]


class HardwareFile:
    """The YAML of a machine, open for writing."""

    def __init__(self, text: str) -> None:
        """Parse it, keeping all that is no value."""
        self._yaml = YAML(typ="rt", pure=True)
        self._yaml.preserve_quotes = True
        self._yaml.width = 4096
        self._yaml.indent(mapping=2, sequence=4, offset=2)
        self._tree = self._yaml.load(text)

    @property
    def text(self) -> str:
        """As it would stand in the file."""
        stream = io.StringIO()
        self._yaml.dump(self._tree, stream)
        return stream.getvalue()

    def cite(self, key: str, source: str) -> None:
        """Name a source, unless the key is there."""
        self._tree["sources"].setdefault(key, source)

    def forget_sources(self) -> None:
        """Drop the sources that no group cites any more."""
        cited = set(_cited(self._tree))
        for key in [key for key in self._tree["sources"] if key not in cited]:
            del self._tree["sources"][key]

    def write(self, written: Written) -> None:
        """Set the values of one group."""
        _fill(self._group(written.group, written.slot), written)

    def write_tier(self, written: WrittenTier) -> None:
        """Set the constants of one tier, or those of another library on it."""
        tier = self._tree["network"][written.index]
        if written.library:
            own = CommentedMap()
            _set(tier, "libraries", tier.get("libraries", CommentedMap()))
            tier["libraries"][written.library] = own
            tier = own
        _fill(tier, written)

    def _group(self, name: str, precision: str | None) -> Any:
        efficiency = self._tree["device"]["efficiency"]
        if name == KERNELS:
            return efficiency.setdefault(name, CommentedMap()).setdefault(precision, CommentedMap())
        if precision is None or name not in BY_PRECISION:
            return efficiency.setdefault(name, CommentedMap())
        products = efficiency.setdefault("precisions", CommentedMap())
        own = products.setdefault(precision, CommentedMap())
        if name not in own:
            own[name] = CommentedMap({k: v for k, v in efficiency[name].items() if k not in STATEMENTS})
        return own[name]


def _fill(group: Any, written: Written | WrittenTier) -> None:
    for key in STATEMENTS:
        if written.statements.get(key) is None:
            group.pop(key, None)
    for key, value in written.values.items():
        _set(group, key, _with_unit(key, value))
    for key, value in written.statements.items():
        if value is not None:
            _set(group, key, value)


def _with_unit(key: str, value: float) -> str | float:
    unit, size = TIMES.get(key, ("", 1.0))
    if unit == "kB" and value >= 1e6:
        unit, size = "MB", 1e-6
    return f"{value * size:.4g} {unit}" if unit else _short(value)


def _set(group: Any, key: str, value: Any) -> None:
    """In place; a new key comes before the last, whose comment may belong to what follows the group."""
    if key in group:
        group[key] = value
    else:
        group.insert(max(0, len(group) - 1), key, value)


def _short(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def _cited(tree: Any) -> Iterator[str]:
    if isinstance(tree, list):
        for item in tree:
            yield from _cited(item)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key == "source":
                yield str(value)
            else:
                yield from _cited(value)
