"""Pictures and tables of docs/sharding.md show what the model computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.specs.sharding import SCOPES, sharding_of

ROOT = Path(__file__).parents[2]


def script() -> Any:
    spec = importlib.util.spec_from_file_location("sharding_pictures", ROOT / "tools" / "sharding.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("letters", script().SHOWN)
def test_all_devices_of_a_scope_have_the_whole_between_them(letters: str) -> None:
    made = script()
    spread = {"N": 1, "I": made.GROUP, "G": made.DEVICES}
    for state, scope in enumerate(sharding_of(letters)):
        assert scope in SCOPES
        parts = sorted(made.held(letters, device)[state] for device in range(spread[scope]))
        ends = np.cumsum([size for _, size in parts])
        np.testing.assert_allclose([start for start, _ in parts], ends - ends[0])
        assert ends[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_each_step_of_the_ring_costs_every_rank_the_same(ranks: int) -> None:
    """Blocks on the diagonal count half: that is why pieces from the front and the back go together."""
    table = script().turns(ranks)
    pieces = 2 * ranks
    for rank in range(ranks):
        rows = [rank, pieces - 1 - rank]
        for step in range(ranks):
            blocks = [0.5 if q == k else 1.0 for q in rows for k in range(pieces) if table[q, k] == step]
            assert sum(blocks) == 2.0


def test_both_pictures_stand_in_the_page() -> None:
    page = (ROOT / "docs" / "sharding.md").read_text(encoding="utf-8")
    for picture in (ROOT / "docs" / "images" / "sharding").iterdir():
        assert f"images/sharding/{picture.name}" in page


def test_tables_are_those_of_now() -> None:
    """`python tools/sharding.py` writes them."""
    made = script()
    page = made.PAGE.read_text(encoding="utf-8")
    assert made.with_tables(page) == page
    assert page.count("<!-- begin") == len(made.TABLES)
