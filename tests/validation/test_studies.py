"""The studies: whole, cited, and within their budgets when all are run."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfmodel.library import names, validation_folder
from perfmodel.specs.measurement import METRIC_UNIT
from perfmodel.validation.run import validate
from perfmodel.validation.study import load_studies, study_names
from perfmodel.validation.tables import machines

if TYPE_CHECKING:
    from perfmodel.validation.run import Judged
    from perfmodel.validation.study import Study

LIBRARY = validation_folder()
TOOL = importlib.import_module("tools.validation_page")
OTHERS = {"tools", "__pycache__", "live", "systems"}
"""Folders that hold no study: programs, and what `validate systems` reads."""
FOLDERS = sorted(path for path in LIBRARY.iterdir() if path.is_dir() and path.name not in OTHERS)
LEAST_COUNTED = 4_000
every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@pytest.fixture(scope="module")
def studies() -> dict[str, Study]:
    """All, read once; what cannot be read fails every test here."""
    return {study.name: study for study in load_studies()}


def test_every_folder_is_a_study() -> None:
    assert [folder.name for folder in FOLDERS] == study_names()
    assert len(FOLDERS) >= 50


@every_folder
class TestFolder:
    def test_says_what_it_is_and_where_it_comes_from(self, folder: Path) -> None:
        text = (folder / "README.md").read_text(encoding="utf-8")
        assert re.match(r"# \S.+\n\n\S", text)
        assert re.search(r"https?://[\w.-]+\.\w+/\S", text)
        assert "## What is missing" in text or "\n- " in text, "what is missing or assumed"

    def test_says_how_much_it_holds(self, folder: Path, studies: dict[str, Study]) -> None:
        text = (folder / "README.md").read_text(encoding="utf-8")
        study = studies[folder.name]
        figures = sum(map(len, study.configurations))
        told = re.search(r"^(- )?Rows.*\n.*", text, re.MULTILINE)
        assert told
        assert {len(study.configurations), figures, len(study.skipped)} <= set(map(int, re.findall(r"\d+", told[0])))

    def test_every_case_is_cited(self, folder: Path, studies: dict[str, Study]) -> None:
        for rows in studies[folder.name].configurations:
            for row in rows:
                assert row.measurement.source, row.place
                assert "/" in row.measurement.address, row.place

    def test_a_configuration_is_of_one_split(self, folder: Path, studies: dict[str, Study]) -> None:
        """A constant fitted on one of its figures has seen the others."""
        for rows in studies[folder.name].configurations:
            assert {row.measurement.split for row in rows} in ({"calibration"}, {"test"}), rows[0].place

    def test_ids_bear_the_name_of_the_study(self, folder: Path, studies: dict[str, Study]) -> None:
        for rows in studies[folder.name].configurations:
            assert rows[0].measurement.configuration.startswith(folder.name), rows[0].place

    def test_what_no_row_can_say_has_a_reason(self, folder: Path, studies: dict[str, Study]) -> None:
        skipped = studies[folder.name].skipped
        assert all(name and reason.strip() for name, reason in skipped)
        cases = {row.measurement.configuration for rows in studies[folder.name].configurations for row in rows}
        assert cases.isdisjoint(name for name, _ in skipped)
        assert cases or skipped

    def test_nothing_lies_about(self, folder: Path) -> None:
        assert {path.name for path in folder.iterdir()} <= {"README.md", "cases.csv", "skipped.csv", "budget.yaml"}


def test_no_id_stands_in_two_studies(studies: dict[str, Study]) -> None:
    ids = [row.measurement.id for study in studies.values() for rows in study.configurations for row in rows]
    assert len(ids) == len(set(ids)) >= 10_000


def test_both_splits_and_metrics_of_every_kind_occur(studies: dict[str, Study]) -> None:
    found = [row.measurement for study in studies.values() for rows in study.configurations for row in rows]
    assert {m.split for m in found} == {"calibration", "test"}
    assert {m.metric for m in found} >= METRIC_UNIT.keys() - {"tokens_per_second"}
    assert sum(m.split == "test" for m in found) >= 1_000


def test_machines_of_tables_are_in_the_library() -> None:
    meant = {*machines().devices.values(), *machines().systems.values()}
    assert meant <= set(names("hardware"))


def test_an_installed_package_has_the_studies() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'validation = "perfmodel/library_data/validation"' in text


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    """All studies, predicted once: the longest test of the suite."""
    return validate(load_studies())


@pytest.mark.slow
class TestAll:
    def test_every_row_is_judged_and_thousands_count(self, judged: list[Judged], studies: dict[str, Study]) -> None:
        outcomes = [o for one in judged for o in one.outcomes]
        rows = [row.measurement.id for study in studies.values() for group in study.configurations for row in group]
        assert sorted(o.id for o in outcomes) == sorted(rows)
        counted = [o for o in outcomes if o.counts]
        assert len(counted) >= LEAST_COUNTED
        assert len({o.study for o in counted}) >= 40
        assert all(o.reason for o in outcomes if not o.counts)

    def test_predictions_are_positive_and_within_their_interval(self, judged: list[Judged]) -> None:
        for one in judged:
            for o in one.outcomes:
                assert o.predicted is None or 0 < o.predicted < float("inf"), o
                assert o.low is None or o.high is None or o.predicted is None or o.low <= o.predicted <= o.high, o

    def test_the_interval_holds_as_many_measurements_as_it_says(self, judged: list[Judged]) -> None:
        times = [o for one in judged for o in one.outcomes if o.counts and o.low is not None and o.high is not None]
        for split in ("calibration", "test"):
            inside = [o.low <= o.measured <= o.high for o in times if o.split == split]  # type: ignore[operator]
            assert sum(inside) / len(inside) == pytest.approx(0.8, abs=0.08), split

    def test_every_budget_is_kept(self, judged: list[Judged]) -> None:
        failed = {
            one.study.name: one.errors(one.study.budget.rows) for one in judged if one.study.budget and not one.passed
        }
        assert failed == {}

    def test_the_page_is_that_of_this_run(self, judged: list[Judged]) -> None:
        if not TOOL.PAGE.is_file():
            pytest.skip("docs/validation.md is not written yet: python tools/validation_page.py")
        assert TOOL.PAGE.read_text(encoding="utf-8") == TOOL.page(judged), (
            "python tools/validation_page.py writes it again"
        )

    def test_the_readme_has_the_errors_of_this_run(self, judged: list[Judged]) -> None:
        assert TOOL.README.read_text(encoding="utf-8") == TOOL.readme(judged), (
            "python tools/validation_page.py writes it again"
        )
