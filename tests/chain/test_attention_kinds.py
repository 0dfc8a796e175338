"""Which kernel of fused attention a framework has, where a device knows more than one."""

from __future__ import annotations

from itertools import pairwise

import pytest

import perfmodel
from perfmodel.errors import InputError
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


def test_the_first_in_triton_is_nearer_to_the_second_forward_than_backward() -> None:
    efficiency = find("hardware", "dgx-a100-80gb").device.efficiency
    triton, second = (efficiency.fused_attention(kind) for kind in ("flash-triton", "flash-2"))
    assert triton.fraction == pytest.approx(second.fraction / 1.4)
    assert triton.fraction * triton.backward == pytest.approx(second.fraction * second.backward / 2)


class TestPackedSamples:
    def test_see_themselves_alone(self) -> None:
        """8 samples of 512 tokens have an eighth of the pairs of one of 4,096, and blocks too short to be as fast."""
        whole, packed = (
            perfmodel.predict("llama-3.1-8b", "dgx-h100", batch=8, seq=4096, sets={"workload.training.packed": tokens})
            for tokens in (4096, 512)
        )
        cores = [
            sum(t for leaf, t, _ in made.terms if leaf.name.startswith("attention core")) for made in (whole, packed)
        ]
        assert 1 / 8 < cores[1] / cores[0] < 1 / 4
        others = [made.step_time - core for made, core in zip((whole, packed), cores, strict=True)]
        assert others[0] == pytest.approx(others[1], rel=1e-9)

    def test_one_sample_is_no_packing(self) -> None:
        plain = perfmodel.predict("llama-3.1-8b", "dgx-h100", batch=8, seq=4096)
        packed = perfmodel.predict(
            "llama-3.1-8b", "dgx-h100", batch=8, seq=4096, sets={"workload.training.packed": 4096}
        )
        assert packed.step_time == plain.step_time

    def test_does_not_shorten_what_is_written_to_memory(self) -> None:
        """Unfused attention computes all scores and masks them."""
        plain, packed = (
            perfmodel.predict("llama-3.1-8b", "dgx-h100", batch=8, seq=4096, attention="unfused", sets=sets)
            for sets in ({}, {"workload.training.packed": 512})
        )
        assert packed.step_time == plain.step_time

    def test_must_fit_into_the_sequence(self) -> None:
        with pytest.raises(InputError, match="are more tokens than the sequence of 4096 has room for"):
            perfmodel.predict("llama-3.1-8b", "dgx-h100", batch=8, seq=4096, sets={"workload.training.packed": 5000})
