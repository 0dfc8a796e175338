"""Which kernel of fused attention a framework has, where a device knows more than one."""

from __future__ import annotations

from itertools import pairwise

import pytest

import perfmodel
from perfmodel.library import find

FASTEST_FIRST = ("flash", "cudnn", "flash-2", "flash-1")


def steps(hardware: str) -> list[float]:
    return [perfmodel.predict("gpt2-355m", hardware, microbatch=4, attention=kind).step_time for kind in FASTEST_FIRST]


def test_a_device_with_kernels_of_its_own_orders_them() -> None:
    assert all(faster < slower for faster, slower in pairwise(steps("dgx-h100")))


@pytest.mark.parametrize("hardware", ["dgx-a100-80gb", "dgx-a100-40gb"])
def test_a_device_with_one_kernel_has_it_by_all_names_but_the_first_flash_attention(hardware: str) -> None:
    best, cudnn, second, first = steps(hardware)
    assert best == cudnn == second < first


def test_unfused_is_none_of_them() -> None:
    unfused = perfmodel.predict("gpt2-355m", "dgx-h100", microbatch=4, attention="unfused")
    assert unfused.step_time > max(steps("dgx-h100"))


def test_the_first_runs_at_half_the_rate_of_the_second() -> None:
    for hardware in ("dgx-h100", "dgx-a100-80gb"):
        efficiency = find("hardware", hardware).device.efficiency
        first, second = (efficiency.fused_attention(kind) for kind in ("flash-1", "flash-2"))
        assert first == second.model_copy(update={"fraction": second.fraction / 2})
