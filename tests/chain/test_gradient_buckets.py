"""Gradients that travel in buckets, as PyTorch's DistributedDataParallel packs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfmodel
from perfmodel.formulas.buckets import last_bucket

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction


def step(dp: int = 8, **sets: object) -> Prediction:
    named = {f"strategy.{name}": value for name, value in sets.items()}
    return perfmodel.predict("resnet-50", "dgx-1-v100", sets=named, dp=dp, microbatch=8, batch=8 * dp)


@given(size=st.integers(1, 500), first=st.integers(1, 20), bucket=st.integers(1, 100))
def test_the_last_bucket_is_what_packing_leaves(size: int, first: int, bucket: int) -> None:
    """Packed one by one: the first, then full ones, then the rest."""
    left = size
    last = min(left, first)
    left -= last
    while left:
        last = min(left, bucket)
        left -= last
    assert float(last_bucket(size=float(size), first=float(first), bucket=float(bucket))) == last


def test_copies_into_buckets_move_each_gradient_four_times() -> None:
    """Read and written on the way in and on the way out."""
    copied, kept = step(gradient_buckets="copies"), step()
    [term] = [leaf for leaf, _, _ in copied.terms if leaf.name == "bucket copies"]
    assert term.inputs["traffic"] == pytest.approx(4 * float(kept.graph.parameters) * kept.state.gradient, rel=1e-6)
    assert copied.step_time == pytest.approx(kept.step_time + float(term.time), rel=1e-9)


def test_one_replica_copies_nothing() -> None:
    plain = step(dp=1)
    bucketed = step(dp=1, gradient_buckets="copies", gradient_bucket="25 MiB")
    kernels = {leaf.name: total for leaf, total, _ in bucketed.terms}
    assert kernels.get("bucket copies", 0.0) == pytest.approx(bucketed.step_time - plain.step_time, rel=1e-6, abs=1e-9)
    assert "last gradient all-reduce" not in kernels


def test_what_is_ready_last_is_exposed() -> None:
    """The larger the buckets, the more of the gradients no pass hides; all messages together carry as much as before."""
    times = [step(gradient_bucket=size).step_time for size in ("1 MiB", "25 MiB", "1 GiB")]
    assert times == sorted(times)
    bucketed = step(gradient_bucket="25 MiB")
    sizes = [leaf.inputs["size"] for leaf, _, _ in bucketed.terms if "gradient all-reduce" in leaf.name]
    whole = [leaf.inputs["size"] for leaf, _, _ in step().terms if "gradient all-reduce" in leaf.name]
    assert sum(map(float, sizes)) == pytest.approx(sum(map(float, whole)))
