"""Collectives against a ring that is walked step by step, and in their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.collectives import (
    chain_broadcast,
    direct_all_gather,
    direct_all_reduce,
    doubling_all_gather,
    halving_doubling_all_reduce,
    pairwise_all_to_all,
    ring_all_gather,
    ring_all_reduce,
    send,
    tree_all_reduce,
    tree_broadcast,
)
from perfmodel.formulas.collectives_layered import (
    chained_tree_all_reduce,
    hierarchical_all_reduce,
    in_network_all_reduce,
)

LINK = {"bandwidth": 10e9, "latency": 2e-6}
REDUCING = (ring_all_reduce, tree_all_reduce, halving_doubling_all_reduce, direct_all_reduce, in_network_all_reduce)
GATHERING = (ring_all_gather, doubling_all_gather, direct_all_gather, pairwise_all_to_all)
FLAT = (*REDUCING, *GATHERING, chain_broadcast, tree_broadcast, send)
LEVELS = {f"{level}_{of}": LINK[of] for level in ("near", "middle", "far") for of in LINK}
HOSTS = {"inner_bandwidth": 300e9, "inner_latency": 1e-6, "outer_bandwidth": 100e9, "outer_latency": 5e-6}
RANKS = st.integers(1, 24)
SIZES = st.floats(1.0, 1e12)


def walk_reduce_scatter(chunks: np.ndarray[Any, Any]) -> int:
    """Each rank adds what its left neighbour sends; returns the steps."""
    ranks = len(chunks)
    for step in range(ranks - 1):
        sent = [(rank, (rank - step) % ranks) for rank in range(ranks)]
        values = [chunks[rank, chunk] for rank, chunk in sent]
        for (rank, chunk), value in zip(sent, values, strict=True):
            chunks[(rank + 1) % ranks, chunk] += value
    return ranks - 1


def walk_all_gather(chunks: np.ndarray[Any, Any]) -> int:
    """Each rank passes on the chunk that it got last, first its own (rank + 1); returns the steps."""
    ranks = len(chunks)
    for step in range(ranks - 1):
        sent = [(rank, (rank + 1 - step) % ranks) for rank in range(ranks)]
        values = [chunks[rank, chunk] for rank, chunk in sent]
        for (rank, chunk), value in zip(sent, values, strict=True):
            chunks[(rank + 1) % ranks, chunk] = value
    return ranks - 1


def step_time(size: float, ranks: int) -> float:
    return LINK["latency"] + size / ranks / LINK["bandwidth"]


@given(ranks=RANKS, size=SIZES)
def test_ring_all_reduce_walked(ranks: int, size: float) -> None:
    chunks = np.arange(ranks * ranks, dtype=float).reshape(ranks, ranks)
    total = chunks.sum(axis=0)
    steps = walk_reduce_scatter(chunks) + walk_all_gather(chunks)
    np.testing.assert_array_equal(chunks, np.broadcast_to(total, chunks.shape))
    assert ring_all_reduce(size=size, ranks=ranks, **LINK) == pytest.approx(steps * step_time(size, ranks), rel=1e-12)


@given(ranks=RANKS, size=SIZES)
def test_ring_all_gather_walked(ranks: int, size: float) -> None:
    chunks = np.full((ranks, ranks), np.nan)
    for rank in range(ranks):
        chunks[rank, (rank + 1) % ranks] = rank
    steps = walk_all_gather(chunks)
    assert not np.isnan(chunks).any()
    assert ring_all_gather(size=size, ranks=ranks, **LINK) == pytest.approx(steps * step_time(size, ranks), rel=1e-12)


@given(size=SIZES)
def test_one_rank_is_free(size: float) -> None:
    assert [float(call(size=size, ranks=1, **LINK)) for call in FLAT] == [0] * len(FLAT)
    assert float(hierarchical_all_reduce(size=size, near=1, middle=1, far=1, **LEVELS)) == 0
    assert float(chained_tree_all_reduce(size=size, ranks=1, hosts=1, **HOSTS)) == 0


@given(ranks=st.integers(2, 100_000))
def test_large_messages_reach_the_bandwidth_bound(ranks: int) -> None:
    """No rank can send and receive less than 2 (p - 1)/p of the message where no switch adds for it."""
    bound = 2 * (ranks - 1) / ranks * 1e18 / LINK["bandwidth"]
    for reduce in (ring_all_reduce, halving_doubling_all_reduce, direct_all_reduce):
        assert float(reduce(size=1e18, ranks=ranks, **LINK)) == pytest.approx(bound, rel=1e-6)
    for gather in GATHERING:
        assert float(gather(size=1e18, ranks=ranks, **LINK)) == pytest.approx(bound / 2, rel=1e-6)
    for rooted in (chain_broadcast, tree_broadcast, in_network_all_reduce):
        assert float(rooted(size=1e18, ranks=ranks, **LINK)) == pytest.approx(1e18 / LINK["bandwidth"], rel=1e-6)


def test_small_messages_take_as_many_steps_as_the_algorithm_says() -> None:
    many = {"ranks": 1024, "size": 0.0}
    steps = {
        ring_all_reduce: 2046, tree_all_reduce: 20, halving_doubling_all_reduce: 20, direct_all_reduce: 2,
        ring_all_gather: 1023, doubling_all_gather: 10, direct_all_gather: 1, pairwise_all_to_all: 1023,
        chain_broadcast: 1023, tree_broadcast: 10, in_network_all_reduce: 1,
    }  # fmt: skip
    assert {call: round(float(call(**many, **LINK)) / LINK["latency"]) for call in steps} == steps


@given(size=SIZES, near=st.integers(1, 16), middle=st.integers(1, 16), far=st.integers(1, 16))
def test_levels_of_equal_links_are_a_ring_with_fewer_steps(size: float, near: int, middle: int, far: int) -> None:
    """Each level leaves the next one message, so that the bytes on the wire are those of one ring."""
    levels = float(hierarchical_all_reduce(size=size, near=near, middle=middle, far=far, **LEVELS))
    ring = float(ring_all_reduce(size=size, ranks=near * middle * far, **LINK))
    saved = 2 * LINK["latency"] * (near * middle * far - near - middle - far + 2)
    assert levels == pytest.approx(ring - saved, rel=1e-9, abs=1e-12)


def test_two_hosts_send_the_message_once_each_way_and_more_send_it_twice() -> None:
    large = {"size": 1e15, **HOSTS, "inner_bandwidth": 1e15}
    two, four = (float(chained_tree_all_reduce(ranks=8 * hosts, hosts=hosts, **large)) for hosts in (2, 4))
    assert two == pytest.approx(1e15 / 100e9, rel=1e-3)
    assert four == pytest.approx(2 * two, rel=1e-3)


def test_a_message_to_the_neighbour() -> None:
    assert float(send(size=20e9, ranks=2, **LINK)) == pytest.approx(2.0, rel=1e-5)
    assert send(size=20e9, ranks=2, **LINK) == send(size=20e9, ranks=64, **LINK)
