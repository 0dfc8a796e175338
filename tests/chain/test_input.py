"""Samples that hosts prepare beside the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel
from perfmodel.errors import InputError

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

MACHINE = "dgx-1-v100"


def step(dp: int = 8, machine: str = MACHINE, **pipeline: Any) -> Prediction:
    sets = {f"strategy.input.{name}": value for name, value in pipeline.items()}
    return perfmodel.predict("resnet-50", machine, sets=sets, dp=dp, microbatch=8, batch=8 * dp)


def waiting(made: Prediction) -> float:
    return float(made.losses.get("input", 0.0))


def test_a_fast_pipeline_hides_under_the_step() -> None:
    made = step(sample="1 us", cores=40)
    assert made.step_time == pytest.approx(step().step_time, rel=1e-12)
    assert waiting(made) == 0


def test_a_slow_one_sets_the_pace() -> None:
    """64 pictures of a second each on 40 cores."""
    made = step(sample="1 s", cores=40)
    assert made.step_time == pytest.approx(64 / 40, rel=1e-12)
    assert waiting(made) == pytest.approx(64 / 40 - step().step_time, rel=1e-9)
    assert made.bounds[0] == pytest.approx(64 / 40, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(exponent=st.floats(-6, 1), cores=st.integers(1, 256))
def test_the_step_is_the_longer_of_both(exponent: float, cores: int) -> None:
    sample, ready = 10.0**exponent, step().step_time
    made = step(sample=f"{sample!r} s", cores=cores)
    assert made.step_time == pytest.approx(max(ready, 64 * sample / cores), rel=1e-9)
    assert sum(made.losses.values()) == pytest.approx(made.step_time, rel=1e-9)
    assert sum(seen for _, _, seen in made.terms) == pytest.approx(made.step_time, rel=1e-9)


@pytest.mark.parametrize(("dp", "hosts"), [(1, 1), (4, 1), (8, 1), (16, 2), (64, 8)])
def test_every_host_prepares_its_part(dp: int, hosts: int) -> None:
    """Also one that leaves devices idle has all its cores."""
    [term] = [leaf for leaf, _, _ in step(dp, sample="1 s", cores=40).terms if leaf.name == "input"]
    assert float(np.asarray(term.time)) == pytest.approx(8 * dp / hosts / 40)


def test_cores_are_those_of_the_machine() -> None:
    machine = "dgx-a100-80gb"
    cores = perfmodel.library.find("hardware", machine).host.cores
    assert cores
    assert step(machine=machine, sample="1 s").step_time == pytest.approx(64 / cores, rel=1e-12)


def test_a_machine_without_cores_asks_for_them() -> None:
    with pytest.raises(InputError) as caught:
        step(machine="exxact-2080ti", sample="1 s")
    [problem] = caught.value.problems
    assert problem.path == "input.cores"
    assert "strategy.input.cores=16" in problem.message


@settings(max_examples=10, deadline=None)
@given(exponent=st.floats(-6, 0), dp=st.sampled_from([1, 4, 8, 16]))
def test_ranks_without_workers_prepare_before_their_step(exponent: float, dp: int) -> None:
    """Each its 8 samples on one core, however many devices a host has; nothing hides it."""
    sample = 10.0**exponent
    made = step(dp, sample=f"{sample!r} s", when="before")
    assert made.step_time == pytest.approx(step(dp).step_time + 8 * sample, rel=1e-9)
    assert waiting(made) == pytest.approx(8 * sample, rel=1e-9)


def test_cores_are_not_asked_for_where_one_is_used() -> None:
    assert waiting(step(machine="exxact-2080ti", sample="1 s", when="before")) == pytest.approx(8.0)
