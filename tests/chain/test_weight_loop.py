"""What a script does for each weight tensor, and how many of these a model has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel
from perfmodel.graph import expand
from perfmodel.graph.ops import Experts
from perfmodel.graph.tensors import weight_tensors
from perfmodel.library import find

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction


def step(workload: str = "resnet-50", dp: int = 8, strategy: str | None = None, **loop: Any) -> Prediction:
    sets = {f"strategy.weight_loop.{name}": value for name, value in loop.items()}
    job: dict[str, Any] = {"dp": dp, "microbatch": 8, "batch": 8 * dp}
    return perfmodel.predict(workload, "dgx-1-v100", strategy=strategy, sets=sets, **job)


def totals(made: Prediction) -> dict[str, float]:
    return {leaf.name: float(np.asarray(total)) for leaf, total, _ in made.terms}


def counted(workload: str) -> float:
    graph = expand(find("workloads", workload), microbatch=1, fused=True)
    return float(sum(block.repeat * sum(map(weight_tensors, block.ops)) for block in graph.blocks()))


@pytest.mark.parametrize(
    ("workload", "tensors"),
    [
        ("resnet-50", 53 * 3 + 2),  # a convolution, scale and shift of each batch norm; the head
        ("vgg-16", 16 * 2),
        ("gpt2-124m", 2 + 12 * 12 + 2),  # as its authors count: two tables, twelve to a layer, the last norm
    ],
)
def test_tensors_are_those_that_frameworks_have(workload: str, tensors: int) -> None:
    assert counted(workload) == tensors


def test_experts_are_tensors_one_by_one() -> None:
    graph = expand(find("workloads", "mixtral-8x7b"), microbatch=1, fused=True)
    [experts] = {op for block in graph.body for op in block.ops if isinstance(op, Experts)}
    assert weight_tensors(experts) == 8 * 3


@settings(max_examples=15, deadline=None)
@given(operations=st.integers(0, 50), reads=st.integers(0, 8), once=st.integers(0, 5000))
def test_a_loop_adds_what_its_parts_take(operations: int, reads: int, once: int) -> None:
    """Launches beside what they launch; what the host waits for after it."""
    loop: dict[str, Any] = {
        "operations": operations,
        "operation": "10 us",
        "numbers": 13,
        "reads": reads,
        "read": "20 us",
    }
    made = step(**loop, once=f"{once} us")
    spent, tensors = totals(made), counted("resnet-50")
    launched, read = operations * tensors * 1e-5, reads * tensors * 2e-5
    assert spent.get("weight loop dispatch", 0.0) == pytest.approx(launched)
    added = max(spent["weight loop"], launched) + read + once * 1e-6
    assert made.step_time == pytest.approx(step().step_time + added, rel=1e-9)
    assert sum(made.losses.values()) == pytest.approx(made.step_time, rel=1e-9)


def test_numbers_are_moved_in_fp32() -> None:
    made = step(operations=0, operation="0 s", numbers=13)
    [moved] = [leaf for leaf, _, _ in made.terms if leaf.name == "weight loop"]
    assert moved.inputs["traffic"] == pytest.approx(13 * 4 * float(made.graph.parameters), rel=1e-6)


@pytest.mark.parametrize("sync", ["all-reduce", "parameter-server", "peer-to-peer"])
def test_every_protocol_has_the_loop(sync: str) -> None:
    sets = {"strategy.sync": sync}
    loop = {"strategy.weight_loop.operations": 19, "strategy.weight_loop.operation": "1 ms"}
    job: dict[str, Any] = {"dp": 8, "microbatch": 8, "batch": 64}
    plain, looped = (perfmodel.predict("resnet-50", "dgx-1-v100", sets=found, **job) for found in (sets, sets | loop))
    assert looped.step_time == pytest.approx(plain.step_time + 19 * 161 * 1e-3, rel=1e-3)


def test_frozen_weights_have_no_loop() -> None:
    """Of a model with adapters only these have: two narrow products beside each of four."""
    loop = {"strategy.weight_loop.operations": 1, "strategy.weight_loop.operation": "1 ms"}
    adapters = {"workload.training.adapters.rank": 8, "workload.training.adapters.modules": "qkv"}
    whole, narrow = (
        perfmodel.predict("llama-3.1-8b", "dgx-a100-80gb", sets=sets, devices=8, batch=32, seq=4096)
        for sets in (loop, loop | adapters)
    )
    launched = [totals(made)["weight loop dispatch"] for made in (whole, narrow)]
    assert launched == pytest.approx([counted("llama-3.1-8b") * 1e-3, 2 * 32 * 1e-3])


def test_the_preset_of_adaptdl_is_slower_by_its_statistics() -> None:
    with_loop, without = step(strategy="adaptdl"), step(strategy="data-parallel")
    assert with_loop.step_time > without.step_time
    assert {"weight loop dispatch", "weight loop reads", "records of a step"} <= totals(with_loop).keys()
