"""`validate systems`: the list is complete, what passes passes, what fails is known, and bad files say where."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from perfmodel import api
from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.validation.systems.judge import judge_systems
from perfmodel.validation.systems.listing import Listing, rows
from perfmodel.validation.systems.spec import System, load_systems, system_names
from perfmodel.yamlfile import load

ENTRIES = {
    *(f"001-{n}" for n in ("A", 1, *range(3, 10), 11, 16, 19, 20)), *(f"000-{n}" for n in (0, 13, 15, 17, 18, 19)), "004-10", "004-17",
}  # fmt: skip
"""Of the list of systems that this library must express."""
FAILING = {
    ("leading-edge-systems", "ResNet-50, MXNet, fp16, all 16 devices of a DGX-2"),
    ("mics", "speed over ZeRO 3 on all 256"),
    ("mics", "model FLOP/s of a device under DeepSpeed's ZeRO 3, 141 / 1.397"),
}
"""With its cause in the file; a check that starts to pass leaves this list."""
FIGURES = {"adaptive-sgd", "data-encoding", "redundancy", "anchor-comparison", "hardware-scaling-trends", "leading-edge-systems", "freeride", "deeppool", "lb-bsp", "malleus",
           "gradient-coding", "decoupled-backpropagation"}  # fmt: skip
SYSTEMS = load_systems()


def test_every_entry_has_one_system() -> None:
    entries = [system.entry for _, system in SYSTEMS]
    assert len(entries) == len(set(entries))
    assert set(entries) == ENTRIES


def test_the_list_has_every_system_once() -> None:
    """Anchors and twenty entries of three lists; two repeat others."""
    every = [row.entry for row in rows()]
    assert len(every) == len(set(every))
    assert set(every) == {
        f"{group}-{n}" for group, first in (("000", 0), ("001", "A"), ("004", "A")) for n in (first, *range(1, 21))
    }


def test_the_page_is_that_of_the_list() -> None:
    page = importlib.import_module("tools.systems_page")
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "python tools/systems_page.py writes it again"


def test_an_entry_says_one_thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entry = '{entry: "000-1", name: one, paper: none, expressed: so, missing: all, studies: [nothing]}'
    Path("list.yaml").write_text(f"schema: 1\nentries:\n  - {entry}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(Path("list.yaml"), Listing)
    assert [problem.message for problem in caught.value.problems] == [
        "needs one of 'expressed', 'same' and 'missing', not 2", "there is no study nothing",
    ]  # fmt: skip


def test_each_says_how_and_what_was_readable() -> None:
    for name, system in SYSTEMS:
        assert system.expressed, name
        assert system.figure, name
        assert len(system.checks) >= 2, name


@pytest.mark.parametrize(("name", "system"), SYSTEMS, ids=[name for name, _ in SYSTEMS])
def test_its_checks_hold(name: str, system: System) -> None:
    (judged,) = judge_systems([(name, system)])
    failed = {(name, result.check.what) for result in judged.results if not result.passed}
    assert failed == {pair for pair in FAILING if pair[0] == name}
    if not failed:
        assert judged.status == ("passed" if name in FIGURES else "no figure readable")


def test_json_has_a_study_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "systems", "malleus", "bload", "--format", "json"]) == 0
    studies = json.loads(capsys.readouterr().out)["studies"]
    assert [study["name"] for study in studies] == ["bload", "malleus"]
    assert [study["status"] for study in studies] == ["no figure readable", "passed"]
    first = studies[1]["cases"][0]
    assert first["ours"] == first["published"]
    assert first["error"] == 0


def test_the_table_names_what_is_published_and_ours() -> None:
    (section,) = api.validate_systems(["lb-bsp"]).report.sections
    (row,) = section.rows
    assert row[0] == "001-7"
    assert "0.54" in row[3]
    assert row[4:] == ("0.54", "passed")


def test_one_that_fails_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "systems", "mics"]) == 1
    assert "Checks that fail" in capsys.readouterr().out


def test_names_that_there_are_not() -> None:
    with pytest.raises(InputError, match="maleus: no system of this name; did you mean 'malleus'"):
        load_systems(["maleus"])
    assert "malleus" in system_names()


BAD = """schema: 1
name: bad
entry: "001-9"
sources: {paper: "invented"}
expressed: somehow
files: [variations/nothing]
checks:
  - {what: one, kind: limit, quantity: bubble-share, inputs: {stages: 4}, at_least: 1, source: papers}
  - {what: two, kind: limit, quantity: bubble-share, source: paper}
"""


def test_a_bad_file_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("system.yaml").write_text(BAD, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(Path("system.yaml"), System)
    assert [str(problem) for problem in caught.value.problems] == [
        "system.yaml:6:9: files.0: the library has no variations/nothing",
        "system.yaml:8:88: checks.0.source: 'papers' is no key of 'sources'",
        "system.yaml:9:5: checks.1: needs 'value', 'at_least' or 'at_most'",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("quantity: bubble-share, inputs: {stages: 4}", "quantity: bubble-shares", "'bubble-shares' is no quantity; did you mean"),
        ("inputs: {stages: 4}", "inputs: {stage: 4}", "checks.0.inputs: bubble-share does not take these"),
    ],
)  # fmt: skip
def test_a_check_of_nothing_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    lines = (
        BAD.replace("files: [variations/nothing]\n", "").replace("source: papers", "source: paper").replace(old, new)
    )
    file = tmp_path / "system.yaml"
    file.write_text("\n".join(lines.splitlines()[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        judge_systems([("bad", load(file, System))])
