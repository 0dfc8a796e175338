"""YAML 1.2 text -> plain data whose leaves know their place.

The text is untrusted input: no tag is executed, and depth and expanded size are bounded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from perfmodel.errors import InputError, Place, Problem
from perfmodel.origin import Origin, traced

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_DEPTH = 40
MAX_NODES = 100_000
PLAIN = (str, int, float, bool, type(None))

Location = tuple[int | str, ...]


def scalar(text: str) -> object:
    """The value of an option's text, read as YAML reads it: number, boolean, list or text.

    >>> scalar("8"), scalar("2e-6"), scalar("300 GB/s"), scalar("true")
    (8, 2e-06, '300 GB/s', True)
    """
    if re.fullmatch(r"[a-z-]+|[1-9]\d*", text) and text not in {"true", "false", "null"}:
        return int(text) if text.isdigit() else text  # most options; a YAML reader costs 2 ms each
    try:
        value = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return text
    return value if isinstance(value, (*PLAIN, list, dict)) else text


def parse(text: str, file: str) -> tuple[dict[str, Any], dict[Location, Place]]:
    """Plain data, and the place of every node; raises InputError where it is no mapping, or not safe to read."""
    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
        message = re.sub(r"\s*\n.*", "", str(error.problem), flags=re.DOTALL)
        message = f"{error.context} {message}" if message.startswith("but ") else message
        message = "is indented by a tab; YAML takes spaces alone" if r"'\t' that cannot start" in message else message
        raise InputError([Problem(place, "yaml", message)]) from error
    except RecursionError as error:
        raise InputError([Problem(Place(file), "yaml", "is nested too deeply")]) from error
    except (YAMLError, ValueError) as error:
        raise InputError([Problem(Place(file), "yaml", str(error).partition("\n")[0])]) from error
    if not isinstance(tree, dict):
        raise InputError([Problem(Place(file, 1, 1), "", "must be a mapping of keys to values")])
    walker = _Walker(file)
    return walker.plain(tree, (), Origin(Place(file, 1, 1))), walker.places


class _Walker:
    """Turns ruamel's tree into plain data whose leaves know their origin."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[Location, Place] = {}
        self.nodes = 0

    def plain(self, node: Any, path: Location, origin: Origin) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            limit = f"{MAX_NODES} nodes" if self.nodes > MAX_NODES else f"{MAX_DEPTH} levels"
            raise InputError([Problem(origin.place, "yaml", f"expands to more than {limit}")])
        if getattr(getattr(node, "tag", None), "value", None):
            tag = str(node.tag.value).replace("tag:yaml.org,2002:", "!!")
            raise InputError([Problem(origin.place, "yaml", f"tag {tag!r} is not allowed")])
        if isinstance(node, dict):
            inner = self._group(node, origin)
            return {key: self._child(node, key, path, inner) for key in node}
        if isinstance(node, list):
            return [self._child(node, index, path, origin) for index in range(len(node))]
        for kind in (bool, int, float, str):
            if isinstance(node, kind):
                return traced(kind(node), origin)
        if node is None:
            return None
        raise InputError(
            [Problem(origin.place, "yaml", f"a {type(node).__name__} is no value here; text needs quotes")]
        )

    def _child(self, node: Any, key: Any, path: Location, origin: Origin) -> Any:
        at = (*path, key)
        own = (node.lc.data or {}).get(key)  # what a merge key (<<) brings has none
        place = Place(self.file, own[0] + 1, own[1] + 1) if own else origin.place
        if isinstance(node, dict) and not isinstance(key, str):
            raise InputError([Problem(place, "yaml", f"key {key!r} is no text; put it in quotes")])
        self.places[at] = place
        return self.plain(node[key], at, Origin(place, origin.source, origin.status))

    def _group(self, node: Mapping[Any, Any], origin: Origin) -> Origin:
        source, status = node.get("source", origin.source), node.get("status", origin.status)
        return Origin(origin.place, str(source), str(status))
