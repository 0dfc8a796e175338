"""How sure a prediction is."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perfmodel.cost.interval import ALL_SOFTWARE, NO_SOFTWARE, interval
from perfmodel.library import find
from perfmodel.specs.strategy import Framework

MACHINE = find("hardware", "dgx-a100-80gb")


def width(framework: Framework | None = None, machine: Any = MACHINE, **exposed: float) -> float:
    """Half of the interval of a step of one second, as a logarithm."""
    low, high = interval(1.0, exposed or {"matmul": 1.0}, machine, framework)
    assert low * high == pytest.approx(1.0)
    return math.log(high)


def framework(error: float | None, points: int | None) -> Framework:
    return Framework(name="it", source="here", status="fitted", error_80=error, points=points)


def test_software_without_a_record_errs_like_all_and_none_errs_more() -> None:
    assert width(framework(None, None)) == pytest.approx(ALL_SOFTWARE)
    assert width() == pytest.approx(NO_SOFTWARE)
    assert NO_SOFTWARE > ALL_SOFTWARE


def test_a_long_record_stands_for_itself_and_a_short_one_leans_on_all() -> None:
    long, short = (width(framework(0.1, points)) for points in (100_000, 2))
    assert long == pytest.approx(0.1, rel=1e-3)
    assert long < short < ALL_SOFTWARE


def test_constants_that_are_assumed_widen_it_by_their_share() -> None:
    sure = framework(0.1, 1000)
    efficiency = MACHINE.device.efficiency.model_copy(
        update={"matmul": MACHINE.device.efficiency.matmul.model_copy(update={"status": "assumed", "error": None})}
    )
    unsure = MACHINE.model_copy(update={"device": MACHINE.device.model_copy(update={"efficiency": efficiency})})
    half = width(sure, unsure, matmul=0.5, convolution=0.5)
    assert width(sure, matmul=1.0) < half < width(sure, unsure, matmul=1.0)


def test_waiting_for_the_host_widens_it() -> None:
    sure = framework(0.1, 1000)
    assert width(sure, matmul=0.7, host=0.3) > width(sure, matmul=1.0)
