"""`perfmodel calibrate jitter`: delays of ranks out of traces whose delays are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from events import GEMM, kernel, step, written

import perfmodel
from perfmodel.cli import main
from perfmodel.specs.variation import Variation
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

MEAN = 100_000.0
"""Microseconds of a step."""


def traced(folder: Path, times: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[Path]:
    """A trace for each row of step times."""
    paths = []
    for rank, steps in enumerate(times):
        starts = np.concatenate([[0.0], np.cumsum(steps + 10)])
        events = [
            event
            for number, (start, time) in enumerate(zip(starts, steps, strict=False))
            for event in (
                step(number, float(start), float(time) + 5),
                kernel(GEMM, float(start) + 1, float(time), correlation=number),
            )
        ]
        paths.append(written(folder, events, f"rank{rank}.json", distributedInfo={"rank": rank}))
    return paths


@pytest.mark.parametrize(("kind", "parameter"), [("normal", "deviation"), ("exponential", "mean")])
def test_the_distribution_that_delays_come_from_is_found(tmp_path: Path, kind: str, parameter: str) -> None:
    draw = np.random.default_rng(3)
    ratios = 1 + (draw.normal(0, 0.05, (8, 40)) if kind == "normal" else draw.exponential(0.1, (8, 40)))
    new = tmp_path / "new.yaml"
    record = perfmodel.calibrate_jitter(traced(tmp_path, MEAN * ratios), yaml=new).record
    best = record["forms"][0]
    assert (best["kind"], best["parameter"]) == (kind, parameter)
    assert best["value"] == pytest.approx(0.05 if kind == "normal" else 0.1, rel=0.15)
    assert record["error"] < 0.01
    assert record["slowest"] == pytest.approx(float(np.mean(ratios.max(0) / ratios.mean(0))), rel=1e-3)
    [part] = load(new, Variation).stragglers.compute[:1]  # type: ignore[union-attr]
    assert part.kind == kind
    assert getattr(part, parameter) == pytest.approx(best["value"], rel=0.01)


def test_steps_that_vary_on_all_ranks_are_told_from_slow_ranks(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    ratios = np.exp(draw.normal(0, 0.1, (1, 60)) + draw.normal(0, 0.02, (4, 60)))
    record = perfmodel.calibrate_jitter(traced(tmp_path, MEAN * ratios)).record
    assert record["between_steps"] == pytest.approx(0.1, rel=0.25)
    assert record["deviation"] == pytest.approx(0.02, rel=0.15)


@pytest.mark.parametrize(
    ("times", "message"),
    [(np.full((2, 2), MEAN), "4 times; 8 are needed"), (np.full((2, 5), MEAN), "there is no jitter to fit")],
)
def test_traces_that_tell_nothing_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    times: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    message: str,
) -> None:
    files = [str(path) for path in traced(tmp_path, times)]
    assert main(["calibrate", "jitter", *files, "-o", str(tmp_path / "new.yaml")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new.yaml").exists()
