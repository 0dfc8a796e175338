"""Habits of a study reach its cases, and only those that they are for."""

from __future__ import annotations

import pytest

from perfmodel.validation.study import load_studies
from validation.tools.habits import HABITS, Habit, habits


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: f"{habit.study} {habit.run}")
def test_a_habit_stands_in_some_cases_of_its_study(habit: Habit) -> None:
    (study,) = load_studies([habit.study])
    wanted = {(path, str(value).lower()) for path, value in habit.overrides.items()}
    told = [
        {(path, str(value).lower()) for path, value in dict(rows[0].measurement.sets).items()}
        for rows in study.configurations
    ]
    assert any(wanted <= sets for sets in told)


def test_habits_of_one_study_are_not_those_of_another() -> None:
    assert habits("nanotron", "llama3_8b", "Megatron-LM", "H100-SXM5-80GB") == {}
    assert "strategy.attention" in habits("flagperf", "llama3_8b", "Megatron-LM", "H100-SXM5-80GB")
