"""Turn a table of published measurements into the measurement CSV.

    python -m validation.tools.tabulate RAW.csv -o validation/STUDY/cases.csv [--study NAME]

The header tells what kind of table it is. skipped.csv beside the output holds the rows that are no cases,
with the reason of each.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from validation.tools.cases import Case, Skipped, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

KINDS = ("llm", "training")
"""Modules of this package, each with a HEADER (columns that its tables have) and rows()."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, convert, write; the exit code is 2 for a table of no known kind."""
    parser = argparse.ArgumentParser(prog="tabulate", description="A table of measurements as the measurement CSV.")
    parser.add_argument("raw", type=Path, help="the table, CSV or gzipped CSV")
    parser.add_argument("-o", "--output", type=Path, required=True, help="cases.csv to write")
    parser.add_argument("--study", default="", help="only the rows whose ids begin with this name")
    options = parser.parse_args(arguments)
    try:
        results = tabulate(options.raw, options.study)
    except ValueError as error:
        sys.stderr.write(f"{options.raw.name}: {error}\n")
        return 2
    options.output.parent.mkdir(parents=True, exist_ok=True)
    cases, skipped = write(results, options.output)
    sys.stderr.write(f"{options.output}: {cases} cases, {skipped} rows skipped\n")
    return 0


def tabulate(raw: Path, study: str = "") -> list[Case | Skipped]:
    """The cases and skipped rows of a table; raises ValueError where no module knows its header."""
    with _open(raw) as file:
        reader = csv.DictReader(file)
        convert = importlib.import_module(f"validation.tools.{kind(reader.fieldnames or ())}").rows
        results: Iterator[Case | Skipped] = convert(reader)
        return [result for result in results if not study or study_of(result.id) == study]


def kind(header: Iterable[str]) -> str:
    """The module that reads a table with this header."""
    given = set(header)
    present = [name for name in KINDS if importlib.util.find_spec(f"validation.tools.{name}")]
    known = {name: set(importlib.import_module(f"validation.tools.{name}").HEADER) for name in present}
    for name, columns in known.items():
        if columns <= given:
            return name
    lacking = "; ".join(f"a {name} table lacks {', '.join(sorted(columns - given))}" for name, columns in known.items())
    message = f"its header is of no known kind: {lacking}"
    raise ValueError(message)


def study_of(identifier: str) -> str:
    """The study that an id belongs to.

    >>> study_of("megatron-sc21-001#step_time")
    'megatron-sc21'
    """
    return re.sub(r"-\d+(#.*)?$", "", identifier)


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


if __name__ == "__main__":
    sys.exit(main())
