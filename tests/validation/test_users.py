"""The study of users' questions: its files are those of its table, and its figures come out in the measured order."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from scipy.stats import spearmanr

from perfmodel.validation.run import validate
from perfmodel.validation.study import load_studies
from validation.tools import users
from validation.tools.cases import Case, Skipped, write

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.validation.cases import Outcome


def test_the_files_are_those_of_the_table(tmp_path: Path) -> None:
    made = tmp_path / "cases.csv"
    write(users.numbered(), made)
    for name in ("cases.csv", "skipped.csv"):
        assert made.with_name(name).read_bytes() == (users.STUDY / name).read_bytes(), (
            "python -m validation.tools.users"
        )


def test_all_rows_are_tests_and_none_is_both() -> None:
    found = list(users.numbered())
    assert all(row.split == "test" for row in found if isinstance(row, Case))
    assert {row.id.partition("#")[0] for row in found if isinstance(row, Case)}.isdisjoint(
        row.id for row in found if isinstance(row, Skipped)
    )


GIST = "users-a800"
"""Ten runs with and without offload; those whose optimiser steps on the host are predicted too fast (the study's README)."""


def counted() -> dict[str, list[Outcome]]:
    """Figures that count, by thread."""
    (judged,) = validate(load_studies(["users"]))
    found = [outcome for outcome in judged.outcomes if outcome.counts]
    assert len(found) == 24
    return {thread: list(group) for thread, group in groupby(found, key=lambda outcome: outcome.id.rpartition("-")[0])}


def test_each_thread_comes_out_in_the_measured_order() -> None:
    """Also where the level does not: a question is mostly which of two is better."""
    for thread, outcomes in counted().items():
        if thread != GIST:
            by_measured = sorted(outcomes, key=lambda o: o.measured)
            assert by_measured == sorted(outcomes, key=lambda o: o.predicted or 0)


def test_offload_is_slow_in_the_order_of_the_gist_as_a_whole() -> None:
    outcomes = counted()[GIST]
    order = spearmanr([o.measured for o in outcomes], [o.predicted or 0.0 for o in outcomes])
    assert order.statistic > 0.8
