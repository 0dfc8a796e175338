"""A microbatch that nobody stated is told of where a larger one is much faster."""

from __future__ import annotations

from typing import Any

import pytest

import perfmodel
from perfmodel.planner.microbatch import faster_microbatch
from perfmodel.reporting.prediction import warnings

TOLD = "each replica takes its samples one at a time"


def told(*job: str, **settings: Any) -> list[str]:
    return [text for text in warnings(perfmodel.predict(*job, **settings)) if text.startswith(TOLD)]


def test_the_largest_that_fits_is_named() -> None:
    made = perfmodel.predict("resnet-50", "dgx-2", batch=4096)
    larger = faster_microbatch(made)
    assert larger is not None
    assert larger.fits
    assert larger.step_time < made.step_time / 4
    size = int(larger.layout.microbatch)
    assert not perfmodel.predict("resnet-50", "dgx-2", batch=4096, microbatch=2 * size).fits
    assert told("resnet-50", "dgx-2", batch=4096)[0].startswith(f"{TOLD}; give --microbatch {size}, ")


@pytest.mark.parametrize(
    ("job", "settings"),
    [
        (("resnet-50", "dgx-2"), {"microbatch": 1}),
        (("resnet-50", "dgx-2"), {"batch": 16, "devices": 16}),
        (("gpt2-1.5b", "dgx-a100-80gb"), {"devices": 8, "pp": 4}),
        (("gpt3-175b", "dgx-a100-80gb"), {"devices": 8}),
    ],
    ids=["stated", "one sample", "a pipeline", "too large in any case"],
)
def test_nothing_is_said(job: tuple[str, str], settings: dict[str, Any]) -> None:
    assert told(*job, **settings) == []
