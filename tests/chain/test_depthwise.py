"""A depthwise convolution has no product: each channel has filters of its own, and moving the maps binds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfmodel.cost.compute import Processor
from perfmodel.graph.kernels import Convolution, Fused
from perfmodel.graph.ops import Conv2d
from perfmodel.library import find
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from perfmodel.specs import Hardware


@pytest.fixture(scope="module")
def a100() -> Hardware:
    machine: Hardware = find("hardware", "dgx-a100-80gb")
    return machine


def conv(groups: int) -> Conv2d:
    return Conv2d("conv", 64, 128, 128, 28, 28, 28 * 28, 9, 2.0, groups)


def test_it_counts_the_same_flop_as_a_grouped_product() -> None:
    (kernel,) = conv(groups=128).forward()
    assert isinstance(kernel, Fused)
    assert kernel.flops == 2 * 64 * 28 * 28 * 128 * 9


def test_it_takes_as_long_as_moving_its_maps(a100: Hardware) -> None:
    (kernel,) = conv(groups=128).forward()
    efficiency = a100.device.efficiency
    maps = 2 * (2 * 64 * 128 * 28 * 28 + 128 * 9)
    moving = maps / (a100.device.memory.bandwidth * efficiency.streaming.fraction) + efficiency.launch.time
    assert float(duration(Processor(a100.device, "fp16").time(kernel))) == pytest.approx(moving)


def test_other_groups_stay_products() -> None:
    assert all(isinstance(kernel, Convolution) for kernel in (*conv(groups=1).forward(), *conv(groups=4).forward()))
