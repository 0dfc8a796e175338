"""Did a prediction change? Reports of a few jobs against committed files; whether they are right is another question.

    pytest tests/golden --update-golden

rewrites the files; their diff is to be read and explained before it is committed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfmodel import api

if TYPE_CHECKING:
    from collections.abc import Callable

JOBS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt3-175b": ("gpt3-175b", "dgx-a100-80gb", {"devices": 1024, "tp": 8, "pp": 16, "recompute": "full"}),
    "resnet-50": ("resnet-50", "dgx-2", {"dp": 16, "microbatch": 16}),
    "bert-large": ("bert-large", "dgx-2", {"dp": 16, "microbatch": 8, "attention": "unfused"}),
    "llama-3.1-70b": ("llama-3.1-70b", "dgx-h100", {"devices": 256, "tp": 8, "pp": 4, "zero": 1, "batch": 512}),
    "megatron-530b": (
        "megatron-530b", "dgx-a100-80gb",
        {"devices": 280, "tp": 8, "pp": 35, "vpp": 3, "strategy": "megatron-2022", "sequence_parallel": True, "recompute": "selective"},
    ),
    "vgg-16": ("vgg-16", "ac922-4gpu", {"dp": 4, "microbatch": 32, "batch": 128}),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_prediction_is_what_it_was(name: str, golden: Callable[[str, Any], Any]) -> None:
    workload, hardware, settings = JOBS[name]
    record = json.loads(api.report(api.predict(workload, hardware, **settings)).render("json"))
    assert differences(record, golden(name, record)) == []


def differences(new: Any, old: Any, path: str = "") -> list[str]:
    """Where two records differ; numbers may by a part in 10^9."""
    if isinstance(new, dict) and isinstance(old, dict):
        keys = list(dict.fromkeys([*old, *new]))
        return [line for key in keys for line in differences(new.get(key), old.get(key), f"{path}.{key}".lstrip("."))]
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [line for i, pair in enumerate(zip(new, old, strict=True)) for line in differences(*pair, f"{path}.{i}")]
    number = isinstance(new, int | float) and isinstance(old, int | float) and not isinstance(new, bool)
    if new == old or (number and new == pytest.approx(old, rel=1e-9, abs=0)):
        return []
    return [f"{path}: was {old!r}, is {new!r}"]


def test_differences_are_seen() -> None:
    old = {"a": 1.0, "b": [1, {"c": "x"}], "d": True, "e": None}
    assert differences(old, old) == []
    assert differences({**old, "a": 1.0 + 1e-12}, old) == []
    assert differences({**old, "a": 1.0 + 1e-8}, old) == ["a: was 1.0, is 1.00000001"]
    assert differences({**old, "b": [1, {"c": "y"}]}, old) == ["b.1.c: was 'x', is 'y'"]
    assert differences({**old, "b": [1]}, old) == ["b: was [1, {'c': 'x'}], is [1]"]
    assert differences({**old, "d": 1, "e": 0}, old) == ["e: was None, is 0"]
    assert differences({"a": 1.0}, {"a": 1.0, "f": 2}) == ["f: was 2, is None"]


def test_each_file_belongs_to_a_job() -> None:
    assert sorted(path.stem for path in Path(__file__).parent.glob("*.json")) == sorted(JOBS)
