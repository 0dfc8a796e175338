"""What the documentation shows is what happens: commands, code, links, the test command."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfmodel.cli.app import app
from perfmodel.library import names

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TOOL = importlib.import_module("tools.docs")
PAGES: list[Path] = TOOL.pages()
README = (ROOT / "README.md").read_text(encoding="utf-8")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PLACES = re.compile(r"(?<![\w.~*/-])/(work|tmp|home/(?!user)|root|Users)/\w")
"""Where somebody's own files are."""
WRITTEN_LAST = {"docs/validation.md", "docs/images/validation.png"}
"""By tools/validation_page.py, from a run of all studies."""


def blocks(text: str, language: str) -> list[str]:
    return [body for found, body in BLOCK.findall(text) if found == language]


def committed() -> list[Path]:
    """Files that git keeps, or would."""
    call = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - a constant
    if done.returncode:
        pytest.skip("not in a git checkout")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


@every_page
class TestPage:
    def test_commands_print_what_stands_there(self, page: Path) -> None:
        text = page.read_text(encoding="utf-8")
        assert TOOL.rewritten(text) == text, "python tools/docs.py writes it again"

    def test_every_console_block_is_a_command_of_ours(self, page: Path) -> None:
        """Any other would go unchecked."""
        commands = {str(c.name or getattr(c.callback, "__name__", "")) for c in app.registered_commands}
        commands |= {str(group.name) for group in app.registered_groups}
        for block in blocks(page.read_text(encoding="utf-8"), "console"):
            program, command, *_ = shlex.split(block.splitlines()[0].removeprefix("$ "))
            assert (program, command in commands) == ("perfmodel", True)
            assert "\n$ " not in block, "one command for each block"

    def test_python_blocks_run(self, page: Path) -> None:
        text = "\n".join(blocks(page.read_text(encoding="utf-8"), "python"))
        examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
        assert len(examples.examples) == text.count(">>> "), "all code is an example"
        told: list[str] = []
        result = doctest.DocTestRunner().run(examples, out=told.append)
        assert result.failed == 0, "".join(told)

    def test_links_lead_somewhere(self, page: Path) -> None:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            file, _, anchor = target.partition("#")
            if re.match(r"https?://", target):
                continue
            there = (page.parent / file).resolve() if file else page
            if str(there.relative_to(ROOT)) in WRITTEN_LAST:
                continue
            assert there.exists(), target
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
            assert not anchor or anchor in {
                re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
            }

    def test_files_that_it_names_exist(self, page: Path) -> None:
        named = re.findall(
            r"`((?:docs|hardware|perfmodel|strategies|tests|tools|validation|workloads)/[\w./-]+)`",
            page.read_text(encoding="utf-8"),
        )
        for name in named:
            assert name in WRITTEN_LAST or (ROOT / name).exists(), name


class TestReadme:
    def test_its_test_command_is_what_ci_does(self) -> None:
        """Step by step; only the name of the environment differs, and CI begins by removing it."""
        (command,) = [line for block in blocks(README, "bash") for line in block.splitlines() if "pytest" in line]
        steps = [
            line
            for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")
        ]
        assert steps[:3] == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "rm -rf .venv-ci"]
        assert [step.replace(".venv-ci", ".venv") for step in steps[3:]] == command.split(" && ")

    def test_its_first_command_names_what_exists(self) -> None:
        first = blocks(README, "bash")[0].strip().split(" && ")[-1]
        program, command, workload, hardware, *_ = shlex.split(first)
        assert (program, command) == (".venv/bin/perfmodel", "predict")
        assert workload in names("workloads")
        assert hardware in names("hardware")

    def test_its_first_command_is_the_first_that_it_shows_the_output_of(self) -> None:
        first = blocks(README, "bash")[0].strip().split(" && ")[-1].removeprefix(".venv/bin/")
        assert blocks(README, "console")[0].splitlines()[0] == f"$ {first}"

    def test_ci_can_be_executed(self) -> None:
        assert (ROOT / ".ci" / "run").stat().st_mode & 0o111

    @pytest.mark.parametrize("word", ["validate", "check", "show"])
    def test_commands_in_its_text_exist(self, word: str) -> None:
        assert f"`perfmodel {word}" in README
        assert word in {str(c.name or getattr(c.callback, "__name__", "")) for c in app.registered_commands}


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public(tree: Documented, name: str = "") -> Iterator[tuple[str, Documented]]:
    """A module with its functions, classes and methods whose names do not begin with an underscore."""
    yield name, tree
    for child in ast.iter_child_nodes(tree) if isinstance(tree, ast.Module | ast.ClassDef) else ():
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            yield from public(child, f"{name}:{child.name}")


def test_every_public_module_function_class_and_method_has_a_docstring() -> None:
    bare = []
    for path in sorted((ROOT / "perfmodel").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bare += [name for name, node in public(tree, str(path.relative_to(ROOT))) if not ast.get_docstring(node)]
    assert bare == []


def test_no_file_knows_this_machine() -> None:
    """Absolute paths of the place where it was written mean nothing elsewhere."""
    told = []
    for path in committed():
        if path != Path(__file__) and path.suffix not in {".png", ".gz"}:
            text = path.read_text(encoding="utf-8")
            told += [
                f"{path.relative_to(ROOT)}:{n}: {line[:100]}"
                for n, line in enumerate(text.splitlines(), 1)
                if PLACES.search(line)
            ]
    assert told == []


def test_the_readme_leads_to_every_page() -> None:
    linked = set(LINK.findall(README))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= linked


def test_no_file_has_marks_of_an_unfinished_merge() -> None:
    for path in committed():
        if path.suffix not in {".png", ".gz"}:
            marks = re.findall(r"^(?:<{7}|>{7}) \w+$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert marks == [], path


def test_committed_text_is_utf_8_with_plain_line_ends_and_one_at_the_end() -> None:
    for path in committed():
        if path.suffix not in {".png", ".gz"}:
            raw = path.read_bytes()
            assert b"\r\n" not in raw, path
            assert not raw or raw.endswith(b"\n"), path
