"""What starting up imports, counted rather than timed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
import sys
from perfmodel.cli import main
code = main(sys.argv[1:])
sys.stderr.write(" ".join(sys.modules))
sys.exit(code)
"""
LIBRARIES = {"matplotlib", "numpy", "pandas", "pydantic", "rich", "ruamel", "scipy"}


def modules(fixtures: Path, *command: str) -> set[str]:
    call = [sys.executable, "-c", CODE, *command]
    done = subprocess.run(call, cwd=fixtures, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - ourselves
    return set(done.stderr.split())


def loaded(names: set[str]) -> set[str]:
    return names & LIBRARIES


def test_importing_the_package_imports_nothing_else() -> None:
    call = [sys.executable, "-c", "import sys, perfmodel; print(*sys.modules)"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - ourselves
    names = set(done.stdout.split())
    assert {name for name in names if name.startswith("perfmodel.")} == set()
    assert loaded(names) == set()


@pytest.mark.parametrize("command", [["--help"], ["predict", "--help"], ["list", "--help"]])
def test_help_needs_no_numbers(fixtures: Path, command: list[str]) -> None:
    names = modules(fixtures, *command)
    assert loaded(names) <= {"pydantic", "rich"}, "of these typer itself imports some"
    assert {name for name in names if name.startswith("perfmodel.") and "cli" not in name} <= {"perfmodel.errors"}


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_predict_imports_what_it_uses(fixtures: Path, form: str) -> None:
    names = modules(fixtures, "predict", "gpt2-124m", "machine.yaml", "--format", form)
    assert loaded(names) == {"numpy", "pydantic", "ruamel"}


def test_a_table_also_imports_rich(fixtures: Path) -> None:
    names = modules(fixtures, "predict", "gpt2-124m", "machine.yaml")
    assert loaded(names) == {"numpy", "pydantic", "rich", "ruamel"}
