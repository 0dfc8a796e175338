"""Collectives against a ring that is walked step by step, and in their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.collectives import all_reduce, ring_all_gather, ring_all_reduce, send, tree_all_reduce

LINK = {"bandwidth": 10e9, "latency": 2e-6}
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
    calls = (ring_all_reduce, tree_all_reduce, ring_all_gather, send)
    assert [float(call(size=size, ranks=1, **LINK)) for call in calls] == [0, 0, 0, 0]
    assert float(all_reduce(size=size, ranks=1, tree_latency=1.0, **LINK)) == 0


@given(ranks=st.integers(2, 100_000))
def test_large_messages_reach_the_bandwidth_bound(ranks: int) -> None:
    """No rank can send and receive less than 2 (p - 1)/p of the message."""
    bound = 2 * (ranks - 1) / ranks * 1e18 / LINK["bandwidth"]
    assert ring_all_reduce(size=1e18, ranks=ranks, **LINK) == pytest.approx(bound, rel=1e-6)
    assert ring_all_gather(size=1e18, ranks=ranks, **LINK) == pytest.approx(bound / 2, rel=1e-6)


def test_small_messages_take_the_tree() -> None:
    few, many = {"ranks": 2, "size": 8.0}, {"ranks": 1024, "size": 8.0}
    tree = float(tree_all_reduce(**many, **LINK))
    assert tree == pytest.approx(2 * 10 * LINK["latency"], rel=1e-3)
    assert float(all_reduce(**many, tree_latency=LINK["latency"], **LINK)) == tree < ring_all_reduce(**many, **LINK)
    assert float(all_reduce(**few, tree_latency=1.0, **LINK)) == ring_all_reduce(**few, **LINK)


def test_a_message_to_the_neighbour() -> None:
    assert float(send(size=20e9, ranks=2, **LINK)) == pytest.approx(2.0, rel=1e-5)
    assert send(size=20e9, ranks=2, **LINK) == send(size=20e9, ranks=64, **LINK)
