"""What a trace spends its time on, on schedules whose answers are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from events import CONV, FIXTURES, GEMM, NCCL, RELU, event, kernel, op, read, step
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.traces.classes import CLASSES
from perfmodel.traces.hostops import own_times
from perfmodel.traces.job import by_kernel, job
from perfmodel.traces.reading import read_traces
from perfmodel.traces.summary import Summary
from perfmodel.traces.trace import Kernels, Trace

if TYPE_CHECKING:
    from pathlib import Path

MICRO = 1e-6
ROWS = st.lists(
    st.tuples(st.sampled_from(range(4)), st.integers(0, 40), st.integers(0, 9), st.integers(0, 2)), max_size=15
)


def micro(seconds: float) -> float:
    return round(seconds / MICRO, 6)


def test_a_message_half_hidden(tmp_path: Path) -> None:
    """A product from 0 to 10, a message from 6 to 16, a copy from 15 to 20, a product from 30 to 34."""
    s = Summary(read(tmp_path, [
        kernel(GEMM, 0, 10), kernel(NCCL, 6, 10, stream=8), event("gpu_memcpy", "Memcpy DtoH", 15, 5), kernel(GEMM, 30, 4),
    ]))  # fmt: skip
    assert [micro(t) for t in (s.span, s.busy, s.idle, s.computing)] == [34, 24, 10, 14]
    assert [micro(t) for t in (s.communicating, s.exposed, s.overlap)] == [10, 6, 4]
    assert {name: (one.count, micro(one.total), micro(one.exposed)) for name, one in s.classes.items()} == {
        "GEMM": (2, 14, 14), "collective": (1, 10, 6), "memcpy": (1, 5, 4),
    }  # fmt: skip
    assert (s.step_time, s.steps) == (None, ())
    assert micro(s.per_step[0]) == 34


def test_kernels_belong_to_the_step_that_launched_them(tmp_path: Path) -> None:
    """The second step's kernel is launched in it and runs after it; the host's marks end at 20, the device at 45."""
    launches = [event("cuda_runtime", "launch", ts, 1, args={"correlation": i}) for i, ts in enumerate((2, 12))]
    s = Summary(read(tmp_path, [
        step(1, 0, 10), step(2, 10, 10), *launches, kernel(GEMM, 5, 20, correlation=0), kernel(CONV, 25, 20, correlation=1),
        kernel(RELU, 60, 3),
    ]))  # fmt: skip
    assert s.step_of.tolist() == [0, 1, -1]
    assert [(one.name, micro(one.time), micro(one.computing)) for one in s.steps] == [
        ("ProfilerStep#1", 10, 20),
        ("ProfilerStep#2", 10, 20),
    ]
    time, classes = s.per_step
    assert micro(time) == 22.5
    assert {name: micro(one.total) for name, one in classes.items()} == {"GEMM": 10, "convolution": 10}


def test_products_that_a_convolution_launches_are_counted_to_it_in_a_step_but_not_by_class(tmp_path: Path) -> None:
    s = Summary(read(tmp_path, [
        op("aten::cudnn_convolution_backward", 0, 50), op("aten::cudnn_convolution_backward_weight", 1, 20, None, **{"External id": 5}),
        op("aten::mm", 60, 5, None, **{"External id": 6}),
        kernel(GEMM, 10, 7, correlation=1, **{"External id": 5}), kernel(GEMM, 70, 3, correlation=2, **{"External id": 6}),
    ]))  # fmt: skip
    assert micro(s.classes["GEMM"].total) == 10
    assert {name: micro(one.total) for name, one in s.per_step[1].items()} == {"GEMM": 3, "convolution": 7}


NAMES = (GEMM, RELU, NCCL, "Memcpy HtoD")


@given(ROWS)
def test_exposed_times_and_idle_add_up_to_the_span(rows: list[tuple[int, int, int, int]]) -> None:
    name, start, duration, stream = (np.array([row[i] for row in rows], dtype=np.int32) for i in range(4))
    none = np.full(len(rows), -1, np.int32)
    s = Summary(
        Trace(
            "f",
            "Kineto",
            NAMES,
            Kernels(start.astype(float), duration.astype(float), name, stream, np.full(len(rows), np.nan), none, none),
        )
    )
    assert s.busy + s.idle == pytest.approx(s.span)
    assert all(one.exposed <= one.total + 1e-9 for one in s.classes.values())
    assert s.exposed + s.overlap == pytest.approx(s.communicating)
    assert sum(one.count for one in s.classes.values()) == len(rows)
    assert set(s.classes) <= set(CLASSES)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 1)), max_size=12))
def test_operators_without_those_they_call_cover_what_the_operators_cover(spans: list[tuple[int, int, int]]) -> None:
    start, duration, thread = (np.array([s[i] for s in spans]) for i in range(3))
    none = np.zeros(len(spans), np.int32)
    own = own_times(start * 1.0, duration * 1.0, none, thread.astype(np.int32))
    for one in range(2):
        moments = {m for a, b, c in spans if c == one for m in range(a, a + b)}
        assert own.duration[own.stream == one].sum() == pytest.approx(len(moments))


class TestRanks:
    def test_the_least_of_a_collective_is_its_transfer_and_the_rest_is_waiting(self, tmp_path: Path) -> None:
        rank: dict[str, Any] = {"world_size": 2}
        early = read(
            tmp_path, [kernel(NCCL, 0, 9), kernel(NCCL, 20, 3), kernel(GEMM, 30, 6)], distributedInfo=rank | {"rank": 1}
        )
        late = read(
            tmp_path, [kernel(NCCL, 5, 4), kernel(NCCL, 20, 5), kernel(GEMM, 30, 2)], distributedInfo=rank | {"rank": 0}
        )
        ranks = job([early, late])
        assert [s.trace.rank for s in ranks.ranks] == [0, 1]
        assert ranks.waiting is not None
        assert [(micro(w.transfer), micro(w.waiting), w.matched) for w in ranks.waiting] == [(7, 2, 2), (7, 5, 2)]
        assert ranks.imbalance == pytest.approx(6 / 4)
        assert [micro(value) for value in ranks.spread["computing"]] == [2, 4, 6]

    def test_collectives_are_matched_by_name_and_group_as_far_as_all_ranks_have_them(self, tmp_path: Path) -> None:
        def sums(group: str, start: float, time: float) -> dict[str, object]:
            named: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": group}
            return kernel("ncclDevKernel_Generic", start, time, **named)

        one = read(tmp_path, [sums("a", 0, 4), sums("b", 10, 9)])
        other = read(tmp_path, [sums("b", 0, 6), sums("a", 10, 5), sums("a", 20, 7)])
        waiting = job([one, other]).waiting
        assert waiting is not None
        assert [(micro(w.transfer), micro(w.waiting), w.matched) for w in waiting] == [(10, 3, 2), (10, 1, 2)]

    def test_one_rank_alone_does_not_tell(self, tmp_path: Path) -> None:
        assert job([read(tmp_path, [kernel(NCCL, 0, 9)])]).waiting is None

    def test_kernels_of_all_ranks_are_added_up(self, tmp_path: Path) -> None:
        traces = [read(tmp_path, [kernel(GEMM, 0, 9), kernel(RELU, 9, 1)])] * 2
        assert [(kind, name, n, micro(t)) for kind, name, n, t in by_kernel(job(traces).ranks)] == [
            ("GEMM", GEMM, 2, 18), ("elementwise", RELU, 2, 2),
        ]  # fmt: skip


def test_of_the_fixture() -> None:
    ranks = job(read_traces([FIXTURES / f"synthetic-rank{rank}.json.gz" for rank in (1, 0)])).ranks
    assert [(s.trace.rank, len(s.steps), s.classes["collective"].count) for s in ranks] == [(0, 3, 6), (1, 3, 6)]
    assert all(s.peak_memory for s in ranks)
    assert all(s.exposed < s.communicating for s in ranks)
