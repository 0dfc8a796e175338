"""Bad files, each with the exact lines that its author gets to read: tests/specs/bad/expected.txt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.yamlfile import MAX_BYTES

BAD = Path(__file__).parent / "bad"
FILES = sorted(path.name for path in BAD.glob("*.yaml"))
EXPECTED: dict[str, list[str]] = {}
for _line in (BAD / "expected.txt").read_text(encoding="utf-8").splitlines():
    EXPECTED.setdefault(_line.partition(":")[0], []).append(_line)


def faults(file: str | Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        api.check([file])
    return [str(problem) for problem in caught.value.problems]


def test_each_file_has_its_lines() -> None:
    assert sorted(EXPECTED) == FILES
    assert len(FILES) >= 12


@pytest.mark.parametrize("file", FILES)
def test_every_fault_at_once_in_the_order_of_the_lines(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    found = faults(file)
    assert found == EXPECTED[file]
    lines = [int(part) if part.isdecimal() else 0 for part in (line.split(":")[1] for line in found)]
    assert lines == sorted(lines)


def test_no_tag_is_executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """tag.yaml would touch a file in the working folder."""
    monkeypatch.chdir(tmp_path)
    faults(BAD / "tag.yaml")
    assert list(tmp_path.iterdir()) == []


def test_all_files_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    with pytest.raises(InputError) as caught:
        api.check(FILES)
    assert str(caught.value).splitlines() == [line for file in FILES for line in EXPECTED[file]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"schema: 1\nname: caf\xe9\n", "is no UTF-8 text (byte 19)"),
        (b"schema: 1\nname: a\x00b\n", "yaml: unacceptable character #x0000: special characters are not allowed"),
        (b"#" * (MAX_BYTES + 1), "holds more than 1 MB, too large for a YAML file"),
        (
            b"schema: 1\ntp: " + b"9" * 5000 + b"\n",
            "yaml: Exceeds the limit (4300 digits) for integer string conversion",
        ),
    ],
)
def test_bytes_that_are_no_text_or_too_many(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    (found,) = faults(file)
    assert found.startswith(f"{file}: {message}")


def test_what_is_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    assert faults(folder) == [f"{folder}: is a directory, not a YAML file"]
    assert faults(tmp_path / "none.yaml") == [f"{tmp_path}/none.yaml: cannot be read: No such file or directory"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "secret.yaml"
    file.touch(mode=0)
    assert faults(file) == [f"{file}: cannot be read: Permission denied"]


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "strategy.yaml"
    file.write_text("\ufeffschema: 1\ntp: 3\n", encoding="utf-8")
    assert api.check([file]).rows[0]["kind"] == "strategy"


def test_the_command_line_prints_these_lines_and_nothing_else() -> None:
    call = [sys.executable, "-m", "perfmodel", "check", *FILES]
    done = subprocess.run(call, cwd=BAD, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - ourselves
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [line for file in FILES for line in EXPECTED[file]]
