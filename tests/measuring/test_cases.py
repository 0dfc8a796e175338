"""What is timed, and what a call of each case does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfmodel.measuring.cases import Case, cases
from perfmodel.measuring.clock import MOST, time_of
from perfmodel.measuring.engines import engine, in_turn
from perfmodel.measuring.machine import Level
from perfmodel.measuring.session import has_torch

CACHES = (Level("L1", 2**16), Level("L3", 2**25))


def test_only_pytorch_convolves_and_attends() -> None:
    kinds = [{case.kind for case in cases(CACHES, 2**35, torch=torch)} for torch in (False, True)]
    assert kinds[1] - kinds[0] == {"convolution", "attention"}


def test_streams_do_not_fit_into_the_cache_nor_fill_the_memory() -> None:
    for memory in (2**30, 2**35):
        traffic = [12 * case.sizes[0] for case in cases(CACHES, memory, torch=False) if case.kind == "stream"]
        assert max(traffic) <= memory / 8
    assert min(traffic) > 2 * 2**25


def test_where_the_caches_are_unknown_memory_is_one_level() -> None:
    assert [case.kind for case in cases((), 2**35, torch=True)].count("level") == 1


@pytest.mark.parametrize(
    "name", ["numpy", pytest.param("torch", marks=pytest.mark.skipif(not has_torch(), reason="needs torch"))]
)
def test_every_kind_runs(name: str) -> None:
    library = engine(name, 1)
    small = {"product": (3, 4, 5), "level": (1200,), "launch": (1,), "stream": (10,), "reduction": (2,), "convolution": (1, 2, 3, 4, 3),
             "attention": (1, 2, 3, 4), "strided": (4096,), "rows": (4096,), "gather": (640,)}  # fmt: skip
    for kind in {case.kind for case in cases(CACHES, 2**35, torch=name == "torch")}:
        library.run_of(Case(kind, small[kind]))()
    product: Any = library.run_of(Case("product", (3, 4, 5)))()
    assert tuple(product.shape) == (3, 4)
    assert name in library.version.lower().replace("pytorch", "torch")


def test_each_call_of_a_product_finds_other_operands_until_the_pool_is_used_up() -> None:
    pool = np.arange(100.0)
    calls = in_turn(pool, [(4, 5), (5, 2)])
    first, second, third, again = (next(calls) for _ in range(4))
    starts = [float(tensor.flat[0]) for call in (first, second, third, again) for tensor in call]
    assert starts == [0, 20, 30, 50, 60, 80, 0, 20]
    assert [tensor.shape for tensor in first] == [(4, 5), (5, 2)]
    assert np.shares_memory(first[0], pool)


def test_the_clock_warms_up_and_stays_within_its_budget_or_its_calls() -> None:
    calls: list[int] = []
    assert time_of(lambda: calls.append(1), 0.0) >= 0
    assert len(calls) == 2
    assert 0 <= time_of(lambda: calls.append(1), 10.0) < 0.01
    assert len(calls) <= MOST + 3
