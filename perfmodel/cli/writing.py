"""A report to standard output or to a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.reporting.report import Format, Report


def write(report: Report, form: Format, output: Path | None) -> None:
    """Render a report; raises InputError where the file cannot be written."""
    import shutil

    from perfmodel.errors import InputError, Place, Problem

    width = shutil.get_terminal_size((130, 40)).columns
    text = report.render(form, width=max(width, 80))
    if output is None:
        _print(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError([Problem(Place("--output"), str(output), f"cannot be written: {error.strerror}")]) from error


def _print(text: str) -> None:
    """To standard output; a reader that leaves early (head) is no failure, nor is a narrow encoding."""
    from perfmodel.errors import InputError, Place, Problem

    if sys.stdout is None:
        raise InputError([Problem(Place("standard output"), "", "is closed; write to a file with --output")])
    try:
        _encoded(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up()
    except OSError as error:
        _give_up()
        raise InputError([Problem(Place("standard output"), "", f"cannot be written: {error.strerror}")]) from error


def _encoded(text: str) -> None:
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def _give_up() -> None:
    """What is still buffered goes nowhere, so that the end of the program does not try again."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
