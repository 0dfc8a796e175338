"""The layer of a mixture of experts: what its products compute, which weights they read, and columns of sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfmodel
from perfmodel.cost.compute import Processor
from perfmodel.graph.experts import Experts
from perfmodel.graph.kernels import Gemm, Stream
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from perfmodel.graph.kernels import Kernel
    from perfmodel.specs import Hardware

TOKENS, HIDDEN, INNER, HELD = 4096, 1024, 512, 8
LAYER = Experts("experts", TOKENS, HIDDEN, INNER, HELD, 2)


def flops(kernels: tuple[Kernel, ...]) -> float:
    return float(sum(kernel.flops for kernel in kernels))


def products(layer: Experts) -> list[Gemm]:
    return [kernel for kernel in (*layer.forward(), *layer.backward()) if isinstance(kernel, Gemm)]


def time(layer: Experts, machine: Hardware) -> Any:
    processor = Processor(machine.device, "fp16")
    return sum(duration(processor.time(kernel)) for kernel in (*layer.forward(), *layer.backward()))


@pytest.mark.parametrize(("gated", "matrices"), [(True, 3), (False, 2)])
def test_flops_and_weights(gated: bool, matrices: int) -> None:
    layer = replace(LAYER, gated=gated)
    assert flops(layer.forward()) == 2 * matrices * TOKENS * HIDDEN * INNER
    assert flops(layer.backward()) == 2 * flops(layer.forward())
    assert layer.parameters == matrices * HELD * HIDDEN * INNER


def test_flops_do_not_hang_on_the_number_of_experts() -> None:
    assert {flops(replace(LAYER, experts=held).forward()) for held in (1, 8, 64)} == {flops(LAYER.forward())}


def test_each_product_is_one_launch_over_all_experts() -> None:
    assert {kernel.count for kernel in products(LAYER)} == {HELD}
    assert [kernel.rows for kernel in products(LAYER)[:2]] == [TOKENS / HELD] * 2


def test_forward_reads_each_weight_and_each_token_once() -> None:
    up, down = products(LAYER)[:2]
    weights = 2 * LAYER.parameters
    maps = 2 * TOKENS * (HIDDEN + 2 * INNER + INNER + HIDDEN)
    assert up.traffic + down.traffic == weights + maps


def test_narrow_operands_are_read_and_wide_outputs_written() -> None:
    up, down = products(replace(LAYER, operand=1))[:2]
    assert up.traffic + down.traffic == LAYER.parameters + TOKENS * (HIDDEN + INNER) + 2 * TOKENS * (2 * INNER + HIDDEN)


def test_experts_without_tokens_are_not_read() -> None:
    few, more = (products(replace(LAYER, tokens=3, experts=held)) for held in (8, 64))
    assert [(k.count, k.traffic) for k in few] == [(k.count, k.traffic) for k in more]
    assert {kernel.count for kernel in few} == {3}
    assert {kernel.rows for kernel in few[:2]} == {1}
    assert replace(LAYER, tokens=3).parameters == LAYER.parameters


def test_tokens_spread_over_more_experts_take_longer(machine: Hardware) -> None:
    times = [float(time(replace(LAYER, experts=held), machine)) for held in (1, 16, 256)]
    assert times == sorted(times)
    assert times[2] > 1.5 * times[0]


def test_saved_are_the_inputs_of_products_and_activation() -> None:
    assert LAYER.saved == 2 * TOKENS * (HIDDEN + 3 * INNER)


def test_columns_are_scalars_row_by_row(machine: Hardware) -> None:
    tokens, held = np.array([3.0, 60.0, 4096.0, 500.0]), np.array([8.0, 64.0, 8.0, 1.0])
    column = time(replace(LAYER, tokens=tokens, experts=held), machine)
    single = [float(time(replace(LAYER, tokens=t, experts=e), machine)) for t, e in zip(tokens, held, strict=True)]
    np.testing.assert_allclose(column, single, rtol=1e-12)


def test_general_kernels_sort_one_element_at_a_time_and_weigh_apart() -> None:
    """To fp32, product and back: 20 bytes an element forward; backward 16 more for the gradient of the scores."""
    fused, indexed = LAYER, replace(LAYER, permutation="indexed")
    assert flops(indexed.forward()) == flops(fused.forward())
    added = [sum(k.traffic for k in layer.forward()) for layer in (fused, indexed)]
    assert added[1] - added[0] == 20 * TOKENS * HIDDEN
    added = [sum(k.traffic for k in layer.backward()) for layer in (fused, indexed)]
    assert added[1] - added[0] == 36 * TOKENS * HIDDEN
    sorts = [k for k in (*indexed.forward(), *indexed.backward()) if isinstance(k, Stream) and k.pace == "gather"]
    assert [k.elements for k in sorts] == 4 * [TOKENS * HIDDEN]


class TestMasks:
    """Products with one-hot masks in the place of sorting."""

    MASKED = replace(LAYER, permutation="one-hot", top_k=2, sequence=TOKENS // 4, load=1.25)

    def test_cost_is_quadratic_in_the_sequence(self) -> None:
        """Two products forward and three backward, each of the tokens with the slots of a sequence."""
        plain = replace(self.MASKED, permutation="fused")
        slots = TOKENS // 4 * 2 * 1.25
        one = 2 * (TOKENS / 2) * slots * HIDDEN
        assert flops(self.MASKED.forward()) - flops(plain.forward()) == pytest.approx(2 * one)
        assert flops(self.MASKED.backward()) - flops(plain.backward()) == pytest.approx(3 * one)
        twice = replace(self.MASKED, sequence=TOKENS // 2)
        assert flops(twice.forward()) - flops(plain.forward()) == pytest.approx(4 * one)

    def test_nothing_is_sorted(self) -> None:
        names = [kernel.name for kernel in (*self.MASKED.forward(), *self.MASKED.backward())]
        assert not [name for name in names if "sort" in name]
        assert len([name for name in names if "dispatch" in name or "combine" in name]) == 4


def test_masks_are_no_model_flops() -> None:
    """A strategy says how tokens travel; what a model needs does not hang on it."""
    plain, masked = (
        perfmodel.predict(
            "mixtral-8x7b", "tpu-v5p-pod", strategy="maxtext-fsdp", devices=32, microbatch=4, batch=128, seq=4096, recompute="full",
            sets={"strategy.permutation": name, "workload.model.experts.capacity": 1.25},
        )
        for name in ("fused", "one-hot")
    )  # fmt: skip
    assert masked.flops() == plain.flops()
    assert 1.1 < masked.step_time / plain.step_time < 1.3
