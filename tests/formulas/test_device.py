"""Rooflines, memory and energy in their limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.energy import step_energy
from perfmodel.formulas.memory import sharded
from perfmodel.formulas.roofline import fused, roofline, streaming

RATES = {"compute_rate": 100e12, "memory_bandwidth": 1e12}
FUSED = {"compute_rate": 100e12, "fraction": 0.5, "bandwidth": 1e12, "streaming_fraction": 0.8, "launch": 5e-6}


class TestRoofline:
    @given(intensity=st.floats(1e-3, 1e6))
    def test_the_ridge_parts_the_two_bounds(self, intensity: float) -> None:
        """Below peak / bandwidth FLOP per byte the memory binds, above it the arithmetic."""
        traffic = 1e9
        expected = traffic / 1e12 if intensity < 100 else intensity * traffic / 100e12
        assert roofline(work=intensity * traffic, traffic=traffic, **RATES) == pytest.approx(expected)

    def test_an_empty_kernel_costs_its_launch(self) -> None:
        assert streaming(traffic=0.0, bandwidth=1e12, fraction=0.8, launch=5e-6) == 5e-6
        assert fused(work=0.0, traffic=0.0, **FUSED) == 5e-6

    def test_a_large_kernel_streams_at_its_share_of_the_bandwidth(self) -> None:
        assert streaming(traffic=1e15, bandwidth=1e12, fraction=0.8, launch=5e-6) == pytest.approx(1250, rel=1e-6)

    @given(work=st.floats(0, 1e15), traffic=st.floats(0, 1e12))
    def test_fused_is_the_roofline_of_what_is_reached(self, work: float, traffic: float) -> None:
        bound = roofline(work=work, traffic=traffic, compute_rate=50e12, memory_bandwidth=0.8e12)
        assert fused(work=work, traffic=traffic, **FUSED) == pytest.approx(5e-6 + bound)


class TestMemory:
    def test_sharding(self) -> None:
        assert sharded(size=12e9, ranks=4, on=1) == 3e9
        assert sharded(size=12e9, ranks=4, on=0) == 12e9
        assert sharded(size=12e9, ranks=1, on=1) == 12e9


class TestEnergy:
    POWER = {"idle": 100.0, "active": 400.0, "devices": 8}  # noqa: RUF012 - never changed

    @given(time=st.floats(0.1, 100), share=st.floats(0, 1))
    def test_second_by_second(self, time: float, share: float) -> None:
        ticks, busy = 1000, share * time
        watts = [400.0 if (tick + 0.5) / ticks * time < busy else 100.0 for tick in range(ticks)]
        walked = 8 * sum(watts) * time / ticks
        assert step_energy(time=time, busy=busy, **self.POWER) == pytest.approx(walked, rel=4e-3)

    def test_busy_longer_than_the_step_is_the_step(self) -> None:
        assert step_energy(time=2.0, busy=3.0, **self.POWER) == step_energy(time=2.0, busy=2.0, **self.POWER) == 6400
