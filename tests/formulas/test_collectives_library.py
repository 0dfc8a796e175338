"""What a library adds: its start, its ramp, and the choice of the fastest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.collectives import ring_all_reduce
from perfmodel.formulas.collectives_library import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    fixed_algorithm,
    send_receive,
    startup,
)

RING = {"bandwidth": 300e9, "latency": 1e-6}
START = {"setup": 5e-6, "ramp": 30e-6, "ramp_size": 5e6}
PAIR = {"setup": 5e-6, "handshake": 6e-6, "eager": 3e4}
HOST: dict[str, Any] = {
    "hosts": 1, "inner_bandwidth": 300e9, "inner_latency": 1e-6, "outer_bandwidth": 1.0, "outer_latency": 0.0,
    "switch_bandwidth": 0.0, "between_two": 1,
}  # fmt: skip
CLUSTER = HOST | {"outer_bandwidth": 300e9, "outer_latency": 8e-6}
SIZES = st.floats(1.0, 1e12)


def reduced(size: float, ranks: int, **changed: Any) -> float:
    return float(all_reduce(size=size, ranks=ranks, **{**RING, **START, **HOST, **changed}))


@given(size=SIZES)
def test_one_rank_is_free(size: float) -> None:
    one: dict[str, Any] = {"size": size, "ranks": 1}
    assert reduced(size, 1) == reduced(size, 1, switch_bandwidth=200e9) == 0
    assert float(all_gather(**one, hosts=1, **RING, **START)) == 0
    assert float(broadcast(**one, hosts=1, **RING, **START)) == 0
    sides = {"near_bandwidth": 300e9, "far_bandwidth": 1.0, "latency": 1e-6, "post": 1e-6}
    assert float(all_to_all(**one, near=1, imbalance=2, **sides, **PAIR)) == 0
    assert float(send_receive(**one, **RING, **PAIR)) == 0
    assert (
        float(startup(wire=0.0, fills=1, **START)) == float(fixed_algorithm(bare=1.0, wire=0.0, fills=1, **START)) == 0
    )


@given(ranks=st.integers(2, 4096))
def test_large_messages_reach_the_bandwidth_bound(ranks: int) -> None:
    assert reduced(1e18, ranks) == pytest.approx(2 * (ranks - 1) / ranks * 1e18 / 300e9, rel=1e-6)


@given(size=SIZES, ranks=st.integers(2, 512))
def test_a_library_of_no_cost_is_the_bare_ring(size: float, ranks: int) -> None:
    free = dict.fromkeys(START, 0.0)
    assert reduced(size, ranks, **free) == pytest.approx(
        float(ring_all_reduce(size=size, ranks=ranks, **RING)), rel=1e-12
    )


def test_the_ramp_is_lost_by_large_messages_alone() -> None:
    assert float(startup(wire=1.0, fills=1, **START)) == pytest.approx(5e-6, rel=1e-3)
    assert float(startup(wire=5e6, fills=1, **START)) == pytest.approx(20e-6)
    assert float(startup(wire=1e15, fills=3, **START)) == pytest.approx(95e-6, rel=1e-3)


@given(size=SIZES, ranks=st.integers(2, 512), hosts=st.integers(2, 64))
def test_more_ways_are_never_slower(size: float, ranks: int, hosts: int) -> None:
    """The tree of hosts, which follows the levels, is never slower than the flat ring where it is chosen."""
    spread = CLUSTER | {"hosts": hosts}
    ring = reduced(size, ranks * hosts, **(spread | {"outer_latency": 1e9}))
    assert reduced(size, ranks * hosts, **spread) <= ring
    assert reduced(size, ranks, switch_bandwidth=200e9) <= reduced(size, ranks)


def test_small_messages_of_many_hosts_take_the_tree_and_each_level_fills_its_buffers() -> None:
    few, many = (reduced(8.0, 8 * hosts, **(CLUSTER | {"hosts": hosts})) for hosts in (2, 256))
    assert many - few == pytest.approx(2 * 7 * 8e-6, rel=1e-3)
    quick = {
        "latency": 1e-3,
        "outer_bandwidth": 1e18,
        "inner_bandwidth": 1e18,
        "outer_latency": 0.0,
        "inner_latency": 0.0,
    }
    two, sixteen = (reduced(1e9, 8 * hosts, **(CLUSTER | quick | {"hosts": hosts})) for hosts in (2, 16))
    assert sixteen - two == pytest.approx(3 * 30e-6, rel=0.05)


@pytest.mark.parametrize(("hosts", "ratio"), [(2, 2.0), (3, 1.0), (16, 1.0)])
def test_only_between_two_hosts_can_a_tree_pass_the_network_twice(hosts: int, ratio: float) -> None:
    slow = CLUSTER | {"hosts": hosts, "bandwidth": 1.0, "outer_bandwidth": 10e9}
    once, twice = (reduced(1e13, 8 * hosts, **(slow | {"between_two": often})) for often in (1, 2))
    assert twice / once == pytest.approx(ratio, rel=1e-3)


def test_a_switch_that_reduces_passes_the_message_once() -> None:
    assert reduced(1e12, 8, switch_bandwidth=270e9) == pytest.approx(1e12 / 270e9 + 35e-6)
    assert reduced(8.0, 8, switch_bandwidth=270e9) == reduced(8.0, 8)


def test_the_busiest_rank_sets_the_time_of_an_all_to_all() -> None:
    sides = {
        "near_bandwidth": 300e9,
        "far_bandwidth": 30e9,
        "latency": 0.0,
        "post": 0.0,
        "setup": 0.0,
        "handshake": 0.0,
        "eager": 0.0,
    }
    even, skewed = (float(all_to_all(size=16e9, ranks=16, near=8, imbalance=by, **sides)) for by in (1.0, 1.5))
    assert even == pytest.approx(8e9 / 30e9)
    assert skewed == pytest.approx(1.5 * even)
    assert float(all_to_all(size=16e9, ranks=8, near=8, imbalance=1.0, **sides)) == pytest.approx(14e9 / 300e9)
