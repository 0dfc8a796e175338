"""What the loss of a vocabulary moves, by the kernels of a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perfmodel
from perfmodel.graph.loss import Loss

if TYPE_CHECKING:
    from perfmodel.specs.strategy import LossKernels

KINDS: tuple[LossKernels, ...] = ("softmax", "separate", "fused", "in-place")


def loss(kernels: LossKernels, element: float = 2) -> Loss:
    return Loss("loss", 1000, 50_000, element, kernels=kernels)


@pytest.mark.parametrize(
    ("kernels", "forward", "backward"), [("softmax", 38, 14), ("separate", 38, 14), ("fused", 4, 4), ("in-place", 6, 4)]
)
def test_bytes_of_a_logit_in_16_bits(kernels: LossKernels, forward: float, backward: float) -> None:
    made = loss(kernels)
    assert sum(k.traffic for k in made.forward()) == forward * 50e6
    assert sum(k.traffic for k in made.backward()) == backward * 50e6


def test_steps_in_fp32_cast_nothing() -> None:
    made = loss("separate", 4)
    assert sum(k.traffic for k in made.forward()) == 32 * 50e6
    assert [k.name for k in made.backward()] == ["loss scale"]


def test_what_waits_for_the_backward_pass() -> None:
    assert [loss(kernels).saved / 50e6 for kernels in KINDS] == [4, 4, 2, 2]


def test_fewer_kernels_take_less_of_a_small_model() -> None:
    times = [
        perfmodel.predict("gpt2-124m", "dgx-h100", microbatch=8, sets={"strategy.loss": kernels}).step_time
        for kernels in ("separate", "softmax", "in-place", "fused")
    ]
    assert times == sorted(times, reverse=True)


def test_ranks_of_a_split_vocabulary_gather_what_they_found() -> None:
    """Three numbers of each row from each rank at once, in place of three sums over all ranks."""
    found = {}
    for kernels in ("separate", "in-place"):
        made = perfmodel.predict("llama-2-7b", "dgx-h100", devices=8, tp=8, sets={"strategy.loss": kernels})
        found[kernels] = [leaf.formula.__name__ for leaf, _, _ in made.terms if leaf.name == "tensor loss"]
    assert set(found["in-place"]) == {"all_gather"}
    assert "all_gather" not in found["separate"]
