"""Choices among measured layouts: the arithmetic of regret, and that the planner's picks stay good where layouts matter most."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.validation.study import load_studies

TOOL: Any = importlib.import_module("tools.regret")


def group(*runs: tuple[float, float, bool]) -> Any:
    """Measured, predicted, fits."""
    return TOOL.Group("study", "job", 8, tuple(TOOL.Run(f"run-{i}", *run, layout=(i,)) for i, run in enumerate(runs)))


def test_without_scatter_the_model_is_right_and_more_of_it_costs_more() -> None:
    runs = tuple(TOOL.Run(str(tp), 1.0, 1.0 + tp / 50, fits=True, layout=(tp,), shape=(tp,)) for tp in range(1, 9))
    none, some, more = (TOOL.scattered([TOOL.Group("study", "job", 8, runs)], spread) for spread in (0.0, 0.05, 0.5))
    assert none[1:] == ("0.0%", "0% (0 to 0)", "1.00")
    assert 0 < float(some[1].rstrip("%")) < float(more[1].rstrip("%"))
    assert 1 > float(some[3]) > float(more[3])


class TestGroup:
    def test_regret_of_the_fastest_predicted(self) -> None:
        assert group((2.0, 1.0, True), (1.0, 1.5, True), (4.0, 3.0, True)).regret == 1.0

    def test_what_does_not_fit_is_not_picked(self) -> None:
        made = group((1.0, 1.0, False), (1.5, 2.0, True))
        assert made.pick.id == "run-1"
        assert made.regret == 0.5

    def test_nothing_fits(self) -> None:
        assert group((1.0, 2.0, False), (3.0, 1.0, False)).pick.id == "run-1"

    def test_chance_is_the_mean(self) -> None:
        assert group((1.0, 1.0, True), (3.0, 1.0, True)).chance == 1.0

    def test_rank(self) -> None:
        assert group((1.0, 5.0, True), (2.0, 6.0, True), (3.0, 7.0, True)).rank == pytest.approx(1.0)
        assert group((3.0, 5.0, True), (2.0, 6.0, True), (1.0, 7.0, True)).rank == pytest.approx(-1.0)
        assert group((1.0, 5.0, True), (2.0, 6.0, True)).rank is None

    def test_ratio_error_is_of_those_that_are_close(self) -> None:
        close = [(1.0, 1.0, True), (1.1, 1.2, True)]
        assert group(*close).ratio_error == pytest.approx(np.log(1.2 / 1.1))
        assert group(*close, (9.0, 2.0, True)).ratio_error == pytest.approx(np.log(1.2 / 1.1))
        assert group((1.0, 1.0, True), (9.0, 2.0, True)).ratio_error is None

    def test_one_layout_measured_twice_is_one(self) -> None:
        measured = {"a": (1.0, 2.0, 1), "b": (3.0, 2.0, 1), "c": (5.0, 4.0, 2)}
        runs = [TOOL.Run(name, m, p, fits=True, layout=(n,)) for name, (m, p, n) in measured.items()]
        assert [(run.id, run.measured) for run in TOOL.merged(runs)] == [("a", 2.0), ("c", 5.0)]


@pytest.fixture(scope="module")
def large() -> list[Any]:
    """Groups of vTrain on more than one host."""
    (study,) = load_studies(["vtrain"])
    several = tuple(rows for rows in study.configurations if (rows[0].measurement.devices or 0) > 8)
    return list(TOOL.groups_of(replace(study, configurations=several)))


class TestQuality:
    def test_picks_on_several_hosts(self, large: list[Any]) -> None:
        regrets = [one.regret for one in large]
        assert len(regrets) == 8
        assert np.median(regrets) <= 0.03
        assert np.mean(regrets) <= 0.03
        assert max(regrets) <= 0.10

    def test_ranks_on_several_hosts(self, large: list[Any]) -> None:
        assert np.mean([one.rank for one in large if one.rank is not None]) > 0.8

    def test_table(self, large: list[Any]) -> None:
        header, rule, line = TOOL.table(large).splitlines()
        assert header.count("|") == rule.count("|") == line.count("|")
        assert line.startswith("| vtrain | 8 | ")
