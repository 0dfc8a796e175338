"""Every schedule has its picture and its section in the documentation."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfmodel.schedule import SCHEDULES

if TYPE_CHECKING:
    from typing import Any

ROOT = Path(__file__).parents[2]
TOOL: Any = importlib.import_module("tools.pipelines")
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("picture", TOOL.pictures())
def test_each_picture_is_there_and_shown(picture: str) -> None:
    assert f"(images/pipelines/{picture}.png)" in PAGE
    assert (ROOT / "docs" / "images" / "pipelines" / f"{picture}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_schedule_stands_in_the_table(schedule: str) -> None:
    assert f"\n| `{schedule}` |" in PAGE


def test_a_picture_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TOOL, "FOLDER", tmp_path)
    TOOL.draw("zero-bubble-v")
    assert (tmp_path / "zero-bubble-v.png").read_bytes().startswith(b"\x89PNG")
