"""The planner of burst parallel training against all plans tried one by one, and at its limits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.variation.bursts import Layer, burst

DEVICES = [1, 2, 4]
times = st.floats(0.1, 10)
layer = st.builds(
    lambda a, b, c, s, h: Layer((a, b, c), (0.0, s, 2 * s), h), times, times, times, st.floats(0, 1), st.floats(0, 1)
)


def total(layers: list[Layer], path: tuple[int, ...]) -> float:
    own = sum(one.times[at] + one.syncs[at] for one, at in zip(layers, path, strict=True))
    moves = sum(one.handover for one, at, before in zip(layers[1:], path[1:], path, strict=False) if at != before)
    return own + moves


@given(layers=st.lists(layer, min_size=1, max_size=5))
def test_no_plan_is_faster(layers: list[Layer]) -> None:
    best = min(total(layers, path) for path in product(range(len(DEVICES)), repeat=len(layers)))
    found = burst(layers, DEVICES)
    assert found.time == pytest.approx(best)
    assert total(layers, tuple(DEVICES.index(n) for n in found.devices)) == pytest.approx(best)


@given(layers=st.lists(layer, min_size=1, max_size=5), limits=st.tuples(st.floats(1, 4), st.floats(1, 4)))
def test_a_tighter_limit_is_never_faster(layers: list[Layer], limits: tuple[float, float]) -> None:
    tight, loose = (burst(layers, DEVICES, amplification=limit).time for limit in sorted(limits))
    assert tight >= loose * (1 - 1e-12)


@given(layers=st.lists(layer, min_size=1, max_size=5))
def test_devices_are_held_no_longer_than_the_iteration(layers: list[Layer]) -> None:
    found = burst(layers, DEVICES)
    assert found.device_seconds <= max(DEVICES) * found.time * (1 + 1e-12)


def test_one_device_each_where_no_amplification_is_allowed() -> None:
    layers = [Layer((8.0, 4.1, 2.2), (0.0, 0.1, 0.1), 0.1)] * 3
    found = burst(layers, DEVICES, amplification=1.0)
    assert (found.devices, found.time, found.device_seconds) == ((1, 1, 1), 24.0, 24.0)
