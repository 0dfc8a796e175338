"""Parts of a layer that run again by name, and what they need not keep."""

from __future__ import annotations

from typing import Any

import pytest

import perfmodel
from perfmodel.graph.recomputation import MODULES
from perfmodel.specs import strategy

QKV_KEPT = "norms+core+output+mlp+activations"


def predicted(modules: str = "", **settings: Any) -> Any:
    sets = {"strategy.recompute_modules": modules}
    return perfmodel.predict(
        "llama-2-70b", "dgx-h100", strategy="maxtext-fsdp", devices=64, microbatch=2, batch=128, seq=4096, sets=sets, **settings
    )  # fmt: skip


def test_the_strategy_knows_each_part() -> None:
    assert MODULES.keys() == strategy.MODULES


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {"latent", "heads"}))
def test_each_part_costs_time_and_saves_memory(module: str) -> None:
    kept, again = predicted(), predicted(module)
    assert again.step_time > kept.step_time
    assert again.memory_peak <= kept.memory_peak
    assert (again.memory_peak < kept.memory_peak) or module == "output"


def test_all_products_but_queries_keys_and_values() -> None:
    """The output projection, both products before the activation, and the core."""
    d, ffn, layers, rows, keys = 8192, 28672, 80, 8192, 4096
    again = predicted(QKV_KEPT)
    recomputed = again.hardware_flops - again.flops()
    expected = layers * (2 * rows * (d * d + 2 * d * ffn) + 4 * rows * keys * d)
    assert recomputed / 64 == pytest.approx(expected, rel=0.01)


def test_between_nothing_and_everything() -> None:
    none, some, full = predicted(), predicted(QKV_KEPT), predicted(recompute="full")
    assert none.step_time < some.step_time < full.step_time
    assert none.memory_peak > some.memory_peak > full.memory_peak
