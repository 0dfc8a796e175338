"""What several test modules share: the test machine, the golden files, one profile of Hypothesis."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from perfmodel.specs import Hardware
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Callable

# The same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Tables are as wide as a terminal, which the tests have none of, in whatever process they run.
os.environ["COLUMNS"] = "130"

FIXTURES = Path(__file__).parent / "fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files of tests/golden")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of files that only tests read."""
    return FIXTURES


@pytest.fixture(scope="session")
def machine() -> Hardware:
    """16 hosts of 8 devices with round numbers: what is tested here does not hang on the library's data."""
    return load(FIXTURES / "machine.yaml", Hardware)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Any], Any]:
    """``golden(name, record)`` is the committed record; --update-golden writes ``record`` there first."""

    def committed(name: str, record: Any) -> Any:
        path = Path(__file__).parent / "golden" / f"{name}.json"
        if request.config.getoption("--update-golden"):
            path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    return committed
