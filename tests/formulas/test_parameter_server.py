"""Servers and peers against a count of the bytes at every port, and in their limits."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.collectives import ring_all_reduce
from perfmodel.formulas.parameter_server import (
    both_directions,
    full_exchange,
    pipeline_fill,
    server_sum,
    server_transfer,
    servers_to_hide,
    servers_to_match_ring,
)

WORKERS = st.integers(2, 12)
SIZES = st.floats(1.0, 1e12)
RATES = st.floats(1e6, 1e12)


def transfer(size: float, workers: int, servers: float, rate: float, on: int) -> float:
    """One direction over ports that are all alike, without latency."""
    rates = {"worker_bandwidth": rate, "server_bandwidth": rate, "latency": 0.0}
    return float(server_transfer(size=size, workers=workers, servers=servers, on=on, **rates))


def exchange(size: float, workers: int, servers: float, rate: float, on: int, duplex: float) -> float:
    """Push and pull."""
    one = transfer(size, workers, servers, rate, on)
    return one * float(2 - both_directions(duplex=duplex, workers=workers, servers=servers, on=on))


def machine_of(server: int, workers: int, *, on: int) -> int:
    """Machines are numbered workers first; a server on a worker is that machine."""
    return server if on else workers + server


def pushed(workers: int, servers: int, size: float, *, on: int) -> tuple[Counter[int], Counter[int]]:
    """Bytes that leave and that reach each machine when every worker sends each server its keys."""
    leaving: Counter[int] = Counter()
    arriving: Counter[int] = Counter()
    for worker, server in product(range(workers), range(servers)):
        target = machine_of(server, workers, on=on)
        if target != worker:
            leaving[worker] += size / servers  # type: ignore[assignment]
            arriving[target] += size / servers  # type: ignore[assignment]
    return leaving, arriving


@given(workers=WORKERS, data=st.data(), size=SIZES, rate=RATES, faster=st.floats(0.1, 10.0))
def test_push_counted_at_every_port(workers: int, data: st.DataObject, size: float, rate: float, faster: float) -> None:
    on = data.draw(st.integers(0, 1))
    servers = data.draw(st.integers(1, workers if on else 3 * workers))
    leaving, arriving = pushed(workers, servers, size, on=on)
    server_rate = rate if on else rate * faster
    busiest = max(
        *(sent / rate for sent in leaving.values()),
        *(got / (rate if machine < workers else server_rate) for machine, got in arriving.items()),
    )
    rates = {"worker_bandwidth": rate, "server_bandwidth": server_rate, "latency": 0.0}
    time = server_transfer(size=size, workers=workers, servers=servers, on=on, **rates)
    assert time == pytest.approx(busiest, rel=1e-9)


@given(workers=WORKERS, data=st.data(), size=SIZES, rate=RATES)
def test_both_directions_at_once_counted_at_every_port(
    workers: int, data: st.DataObject, size: float, rate: float
) -> None:
    """Pulls are pushes the other way: a port carries in each direction what it sends of both."""
    on = data.draw(st.integers(0, 1))
    servers = data.draw(st.integers(1, workers))
    leaving, arriving = pushed(workers, servers, size, on=on)
    machines = {*leaving, *arriving}
    busiest = max((leaving[m] + arriving[m]) / rate for m in machines)
    assert exchange(size, workers, servers, rate, on, 1.0) == pytest.approx(busiest, rel=1e-9)
    one = transfer(size, workers, servers, rate, on)
    assert exchange(size, workers, servers, rate, on, 0.0) == pytest.approx(2 * one, rel=1e-12)


@given(size=SIZES, servers=st.integers(1, 16), on=st.integers(0, 1))
def test_one_worker_is_free(size: float, servers: int, on: int) -> None:
    rates = {"worker_bandwidth": 1e9, "server_bandwidth": 1e9, "latency": 1.0}
    assert server_transfer(size=size, workers=1, servers=servers, on=on, **rates) == 0
    assert server_sum(size=size, workers=1, servers=servers, passes=5, memory_bandwidth=1e9) == 0
    assert full_exchange(size=size, workers=1, bandwidth=1e9, latency=1.0) == 0


@given(workers=WORKERS, size=SIZES, rate=RATES)
def test_servers_on_all_workers_are_a_ring(workers: int, size: float, rate: float) -> None:
    """The end of BytePS's optimum without extra machines is that of all-reduce: 2 (w - 1) n / (w B)."""
    ring = ring_all_reduce(size=size, ranks=workers, bandwidth=rate, latency=0.0)
    assert exchange(size, workers, workers, rate, 1, 1.0) == pytest.approx(ring, rel=1e-9)


@given(workers=st.integers(3, 64), size=SIZES, rate=RATES, duplex=st.sampled_from([0.0, 1.0]))
def test_one_server_then_peers_then_a_ring(workers: int, size: float, rate: float, duplex: float) -> None:
    """The order that Alqahtani and Demirbas (arXiv:1909.02061) measured, where bandwidth binds."""
    server = exchange(size, workers, 1, rate, 0, duplex)
    peers = full_exchange(size=size, workers=workers, bandwidth=rate, latency=0.0)
    ring = ring_all_reduce(size=size, ranks=workers, bandwidth=rate, latency=0.0)
    assert server > peers > ring


@given(workers=st.integers(2, 64), size=SIZES, rate=RATES, duplex=st.floats(0.0, 1.0))
def test_servers_that_match_a_ring(workers: int, size: float, rate: float, duplex: float) -> None:
    servers = float(servers_to_match_ring(workers=workers, duplex=duplex))
    ring = ring_all_reduce(size=size, ranks=workers, bandwidth=rate, latency=0.0)
    if np.isinf(servers):
        assert exchange(size, workers, 100 * workers, rate, 0, duplex) >= ring * (1 - 1e-9)
    else:
        assert exchange(size, workers, servers, rate, 0, duplex) == pytest.approx(ring, rel=1e-9)


@given(workers=st.integers(2, 64), size=SIZES, rate=RATES, batches=st.floats(1e-3, 1e3))
def test_servers_that_hide_the_exchange(workers: int, size: float, rate: float, batches: float) -> None:
    servers = servers_to_hide(size=size, workers=workers, bandwidth=rate, rate=batches)
    rates = {"worker_bandwidth": 1e30, "server_bandwidth": rate, "latency": 0.0}
    one = server_transfer(size=size, workers=workers, servers=servers, on=0, **rates)
    assert 2 * one == pytest.approx(1 / batches, rel=1e-9)


@given(stages=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=5), chunks=st.integers(1, 50))
def test_chunks_walked_through_the_stages(stages: list[float], chunks: int) -> None:
    free = [0.0] * len(stages)
    for _ in range(chunks):
        ready = 0.0
        for stage, whole in enumerate(stages):
            ready = free[stage] = max(ready, free[stage]) + whole / chunks
    closed = max(stages) + pipeline_fill(others=sum(stages) - max(stages), chunks=chunks)
    assert closed == pytest.approx(free[-1], rel=1e-9)
