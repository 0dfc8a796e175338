"""Candidates per second of the planner, beside a loop of scalar predictions over the same ones.

    pytest benchmarks/test_plan.py --benchmark-enable

The question is the one that Calculon's authors asked: GPT-3 175B on 4,096 A100 of 80 GB.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfmodel.library import find
from perfmodel.planner.axes import axes_of
from perfmodel.planner.refusals import Refusals
from perfmodel.planner.search import Outcome, Question, search
from perfmodel.planner.space import allowed, choices, space_of, strategy_of
from perfmodel.prediction import predict
from perfmodel.specs import Strategy

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

DEVICES, BATCH = 4096, 3072
LOOP = 40
"""Candidates of the loop, a random sample: each takes some milliseconds."""


def question(devices: int = DEVICES, batch: int = BATCH) -> Question:
    workload = find("workloads", "gpt3-175b")
    training = workload.training.model_copy(update={"batch": batch})
    asked = workload.model_copy(update={"training": training})
    return Question(asked, find("hardware", "dgx-a100-80gb"), Strategy(), devices, axes_of(Strategy(), {}))


def sample(count: int) -> list[Strategy]:
    """Random candidates, as strategies."""
    q, rng, found = question(), np.random.default_rng(1), []
    refusals, picked = Refusals(q.workload, q.hardware, q.strategy, q.devices), choices(q.axes)
    space = space_of(q.workload, q.axes, refusals)
    for choice in (picked[index] for index in rng.integers(0, len(picked), count)):
        rows = allowed(space, choice, q.axes, refusals)
        row = int(rng.choice(rows))
        found.append(strategy_of(q.strategy, choice, {k: int(v[row]) for k, v in space.columns.items()}, None))
    return found


def test_loop_of_predictions(benchmark: BenchmarkFixture) -> None:
    q, strategies = question(), sample(LOOP)

    def loop() -> float:
        made = [predict(q.workload, q.hardware, strategy) for strategy in strategies]
        return min(p.step_time for p in made if p.memory_peak > 0)

    benchmark.extra_info["candidates"] = LOOP
    assert benchmark.pedantic(loop, rounds=1) > 0


@pytest.mark.parametrize(("devices", "batch"), [(4096, 3072), (512, 1536), (5040, 5040)])
def test_whole_space(benchmark: BenchmarkFixture, devices: int, batch: int) -> None:
    asked = question(devices, batch)
    made: Outcome = benchmark.pedantic(search, (asked, "time", 10), rounds=3)
    benchmark.extra_info["candidates"] = made.evaluated
    assert made.evaluated > 100_000
    assert made.best


def test_peak_memory() -> None:
    """Of what numpy and Python allocate for 1.6 million candidates."""
    tracemalloc.start()
    search(question(), "time", 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300e6


def test_columns_beat_the_loop() -> None:
    """By far more than a search could that prices its rows one by one."""
    q, strategies = question(), sample(10)
    begun = time.process_time()
    for strategy in strategies:
        predict(q.workload, q.hardware, strategy)
    alone = (time.process_time() - begun) / len(strategies)
    begun = time.process_time()
    made = search(q, "time", 10)
    together = (time.process_time() - begun) / made.evaluated
    assert alone / together > 100
