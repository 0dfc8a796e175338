"""Reading 100 MB of a profiler trace, beside json.loads of a tenth of it.

pytest benchmarks/test_traces.py --benchmark-enable
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from synthetic import large

from perfmodel.traces.job import job
from perfmodel.traces.reading import read_traces

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

SIZE = 100_000_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A small one where nothing is timed."""
    timed = not request.config.getoption("--benchmark-disable") or request.config.getoption("--benchmark-enable")
    path: Path = tmp_path_factory.mktemp("traces") / "large.json"
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(large(SIZE if timed else SIZE // 100))
    return path


def test_reference_json(benchmark: BenchmarkFixture, trace: Path) -> None:
    """The events of a tenth of the file."""
    with trace.open(encoding="utf-8") as stream:
        text = stream.read(trace.stat().st_size // 10)
    whole = text[: text.rindex("},")] + "}]}"
    assert benchmark.pedantic(json.loads, (whole,), rounds=3)["traceEvents"]


def test_read_and_summarise(benchmark: BenchmarkFixture, trace: Path) -> None:
    def read() -> float:
        return job(read_traces([trace])).ranks[0].busy

    assert benchmark.pedantic(read, rounds=1) > 0
