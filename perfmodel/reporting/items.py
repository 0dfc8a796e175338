"""What the library holds, one item in full, and the outcome of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel.library import SINGULAR, SPECS, document, find, names
from perfmodel.origin import origin_of
from perfmodel.reporting.report import Report, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from perfmodel.library import Kind

WORDS = ("note", "description")
"""Prose of a file; its table shows values, its JSON everything."""
HEADING = {"hardware": "Hardware", "workloads": "Workloads", "strategies": "Strategies", "variations": "Variations"}


def list_report(kinds: Sequence[Kind]) -> Report:
    """Names and descriptions of all items of some kinds."""
    items = [
        {"kind": SINGULAR[kind], "name": name, "title": str(spec.name), "description": spec.description}
        for kind in kinds
        for name in names(kind)
        for spec in [find(kind, name)]
    ]
    sections = tuple(
        Section(HEADING[kind], ("name", "title", "description"),
                tuple((i["name"], i["title"], i["description"]) for i in items if i["kind"] == SINGULAR[kind]))
        for kind in kinds
    )  # fmt: skip
    return Report(items, items, sections)


def show_report(kind: Kind, name: str | Path) -> Report:
    """One item with every value that its file gives, and where each comes from."""
    source = document(kind, name)
    spec = source.validate(SPECS[kind])
    sources = {key: str(text) for key, text in getattr(spec, "sources", {}).items()}
    rows = [
        {"path": path, "value": value, **_origin(value, sources)}
        for path, value in _leaves(source.data, "")
        if not path.startswith("sources.") and path.rpartition(".")[2] not in {"source", "status"}
    ]
    values = tuple(
        (r["path"], str(r["value"]), r["place"], r["status"], r["source"])
        for r in rows
        if not r["path"].endswith(WORDS)
    )
    sections = (
        Section(
            f"{SINGULAR[kind]}: {getattr(spec, 'name', name)}",
            ("path", "value", "from", "status", "source"),
            values,
            whole=frozenset({0, 2}),
        ),
        Section("Sources", ("key", "document"), tuple(sources.items())),
    )
    return Report({"kind": SINGULAR[kind], "name": str(name), "values": rows, "sources": sources}, rows, sections)


def check_report(checked: Sequence[tuple[str, Kind]]) -> Report:
    """Files that passed."""
    rows = [{"file": file, "kind": SINGULAR[kind], "problems": 0} for file, kind in checked]
    table = tuple((r["file"], r["kind"], "ok") for r in rows)
    return Report(rows, rows, (Section("Checked", ("file", "kind", "result"), table),))  # type: ignore[arg-type]


def _leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}".lstrip("."))
    elif isinstance(node, list) and any(isinstance(item, dict | list) for item in node):
        for index, item in enumerate(node):
            yield from _leaves(item, f"{path}.{index}")
    else:
        yield path, node


def _origin(value: Any, sources: dict[str, str]) -> dict[str, str]:
    origin = origin_of(value[0] if isinstance(value, list) and value else value)
    if origin is None:
        return {"place": "", "status": "", "source": ""}
    return {
        "place": str(origin.place),
        "status": origin.status,
        "source": origin.source if origin.source in sources else "",
    }
