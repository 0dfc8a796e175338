"""One result in four formats."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Format = Literal["table", "json", "csv", "markdown"]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table of text; numbers stand right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns of numbers."""
    whole: frozenset[int] = frozenset()
    """Columns of names that are never broken over lines."""
    lead: str = ""
    """A line above the table."""
    tail: str = ""
    """A line under it."""


@dataclass(frozen=True, slots=True)
class Report:
    """A result: ``record`` for JSON, ``rows`` for CSV, ``sections`` for people."""

    record: Any
    rows: Sequence[dict[str, Any]]
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = field(default=())
    """Lines under the tables: warnings, how to read on."""

    def render(self, form: Format, *, width: int = 100) -> str:
        """The text of one format, ending in a newline."""
        match form:
            case "json":
                return json.dumps(_finite(self.record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            case "csv":
                return _csv(_finite(self.rows))
            case "markdown":
                return _markdown(self)
            case "table":
                return _table(self, width)


def _finite(value: Any) -> Any:
    """What has no bound is null, as a link that nobody crosses: JSON knows no infinity, and its readers refuse one."""
    match value:
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case float():
            return value if isfinite(value) else None
        case _:
            return value


def flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level of dotted keys; lists are left out.

    >>> flat({"a": {"b": 1}, "c": [1, 2], "d": None})
    {'a.b': 1, 'd': None}
    """
    row: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            row |= flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            row[f"{prefix}{key}"] = value
    return row


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    header = list(dict.fromkeys(key for row in rows for key in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _markdown(report: Report) -> str:
    lines: list[str] = []
    for section in report.sections:
        rules = ("--:" if i in section.right else "---" for i in range(len(section.header)))
        cells = (section.header, tuple(rules), *section.rows)
        table = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in cells]
        around = [[text, ""] if text else [] for text in (section.lead, section.tail)]
        lines += [f"### {section.title}", "", *around[0], *table, "", *around[1]]
    lines += [f"- {note}" for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def _table(report: Report, width: int) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False, color_system=None)
    for stated in report.sections:
        section = stated if _fits(stated, width) else _turned(stated)
        console.print(section.title, style="bold", markup=False)
        if section.lead:
            console.print(section.lead, markup=False)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(section.header))
        for i, name in enumerate(section.header):
            table.add_column(
                name, justify="right" if i in section.right else "left", overflow="fold", no_wrap=i in section.whole
            )
        for row in section.rows:
            table.add_row(*map(Text, row))
        console.print(table)
        if section.tail:
            console.print(section.tail, markup=False)
            console.print()
    for note in report.notes:
        console.print(note, markup=False)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


GAP = 3
"""Between two columns."""


def _fits(section: Section, width: int) -> bool:
    columns = zip(section.header, *section.rows, strict=True)
    return sum(max(map(len, column)) + GAP for column in columns) - GAP + 2 <= width


def _turned(section: Section) -> Section:
    """A few rows of many figures, stood on end: broken words and numbers cannot be read."""
    if len(section.right) < len(section.header) or len(section.rows) >= len(section.header):
        return section
    header, *rows = zip(section.header, *section.rows, strict=True)
    return replace(section, header=header, rows=tuple(rows), right=frozenset(range(1, len(header))))
