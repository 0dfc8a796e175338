"""The PyTorch profiler's format of all ages, and what is no trace of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from events import CONV, FIXTURES, GEMM, RELU, event, kernel, op, read, step, written

from perfmodel.errors import InputError
from perfmodel.traces.reading import read_traces

if TYPE_CHECKING:
    from pathlib import Path


def test_times_are_seconds_from_the_first_event(tmp_path: Path) -> None:
    trace = read(tmp_path, [kernel(GEMM, 1_700_000_000_000_000, 5), kernel(RELU, 1_700_000_000_000_007, 2.5)])
    assert trace.kernels.start.tolist() == pytest.approx([0, 7e-6])
    assert trace.kernels.end.tolist() == pytest.approx([5e-6, 9.5e-6])
    assert [trace.names[i] for i in trace.kernels.name] == [GEMM, RELU]


def test_the_header_may_stand_behind_the_events(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}], '
        '"deviceProperties": [{"name": "NVIDIA X"}], "distributedInfo": {"rank": 3, "world_size": 8}}'
    )
    [trace] = read_traces([path])
    assert (trace.device, trace.rank, trace.ranks, trace.form) == ("NVIDIA X", 3, 8, "Kineto")


@pytest.mark.parametrize(
    ("category", "name", "found"),
    [
        ("gpu_memcpy", "Memcpy HtoD", "Memcpy HtoD"),
        ("Memset", "Memset (Device)", "Memset (Device)"),
        ("gpu_memset", "zero", "Memset zero"),
    ],
)
def test_copies_are_named_so(tmp_path: Path, category: str, name: str, found: str) -> None:
    assert read(tmp_path, [event(category, name, 0, 1)]).names == (found,)


class TestOperators:
    def test_are_found_by_their_external_id(self, tmp_path: Path) -> None:
        trace = read(tmp_path, [
            op("aten::mm", 0, 4, [[2, 3], [3, 4]], **{"External id": 11}),
            event("cuda_runtime", "cudaLaunchKernel", 1, 1, args={"correlation": 5, "External id": 11}),
            kernel(GEMM, 3, 9, correlation=5, **{"External id": 11}),
        ])  # fmt: skip
        assert trace.signatures[0].dims == ((2, 3), (3, 4))
        assert (trace.kernels.op.tolist(), trace.kernels.launched.tolist()) == ([0], [1e-6])

    def test_of_2021_are_found_by_their_launch_since_the_external_id_is_the_correlation(self, tmp_path: Path) -> None:
        trace = read(tmp_path, [
            event("Operator", "aten::mm", 0, 4, args={"External id": 11, "Input dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}),
            event("Operator", "aten::add", 5, 4, args={"External id": 77, "Input dims": [[2, 3]], "Input type": ["float"]}),
            event("Runtime", "cudaLaunchKernel", 1, 1, args={"correlation": 77, "External id": 11}),
            event("Kernel", GEMM, 3, 9, args={"correlation": 77, "External id": 77, "stream": 7}),
        ])  # fmt: skip
        assert trace.kernels.op.tolist() == [0]

    def test_are_found_by_thread_and_time_where_no_number_tells(self, tmp_path: Path) -> None:
        trace = read(tmp_path, [
            op("aten::linear", 0, 10), op("aten::addmm", 1, 8), op("aten::relu", 11, 3),
            event("cuda_runtime", "cudaLaunchKernel", 2, 1, args={"correlation": 1}),
            event("cuda_runtime", "cudaLaunchKernel", 12, 1, args={"correlation": 2}),
            event("cuda_runtime", "cudaLaunchKernel", 3, 1, tid=99, args={"correlation": 3}),
            kernel(GEMM, 5, 9, correlation=1), kernel(RELU, 15, 2, correlation=2), kernel(RELU, 18, 2, correlation=3),
        ])  # fmt: skip
        assert trace.kernels.op.tolist() == [1, 2, -1]
        assert trace.calls.caller.tolist() == [-1, 0, -1]

    def test_a_kernel_of_a_graph_has_none(self, tmp_path: Path) -> None:
        trace = read(
            tmp_path,
            [
                op("aten::mm", 0, 4, [[2, 3], [3, 4]], **{"External id": 11}),
                kernel(GEMM, 3, 9, correlation=5, **{"External id": 0}),
            ],
        )
        assert trace.kernels.op.tolist() == [-1]
        assert math.isnan(trace.kernels.launched[0])

    def test_of_a_cpu_are_the_kernels_where_there_is_no_device(self, tmp_path: Path) -> None:
        trace = read(tmp_path, [op("aten::linear", 0, 10), op("aten::addmm", 2, 5), step(1, 0, 12)])
        own = {name: float(trace.kernels.duration[trace.kernels.name == i].sum()) for i, name in enumerate(trace.names)}
        assert trace.on_host
        assert own == pytest.approx({"aten::linear": 5e-6, "aten::addmm": 5e-6})


class TestSteps:
    def test_are_marked_by_annotations_and_in_2021_by_operators(self, tmp_path: Path) -> None:
        old = event("Operator", "ProfilerStep#3", 20, 5)
        trace = read(
            tmp_path,
            [step(2, 10, 5), step(1, 0, 5), old, event("user_annotation", "zero_grad", 3, 1), kernel(GEMM, 1, 1)],
        )
        assert [s.name for s in trace.steps] == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]

    def test_must_not_overlap(self, tmp_path: Path) -> None:
        with pytest.raises(
            InputError, match=r"steps: ProfilerStep#2 begins before ProfilerStep#1 ends; steps must not overlap"
        ):
            read(tmp_path, [step(1, 0, 50), step(2, 10, 50)])


class TestMemory:
    def test_is_that_of_the_device(self, tmp_path: Path) -> None:
        def allocated(ts: int, kind: int, **args: Any) -> dict[str, Any]:
            return {
                "ph": "i",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "ts": ts,
                "args": {"Device Type": kind} | args,
            }

        trace = read(tmp_path, [
            allocated(5, 1, **{"Bytes": 10, "Total Allocated": 100, "Total Reserved": 500}), allocated(7, 0, Bytes=999),
            allocated(6, 1, **{"Bytes": 20, "Total Allocated": 120, "Total Reserved": 500}),
        ])  # fmt: skip
        assert trace.memory is not None
        assert trace.memory.allocated.tolist() == [100, 120]
        assert trace.memory.reserved.tolist() == [500, 500]

    def test_is_added_up_where_only_changes_are_told(self, tmp_path: Path) -> None:
        events = [
            {"ph": "i", "name": "[memory]", "ts": i, "args": {"Device Type": 1, "Bytes": size}}
            for i, size in enumerate((10, 20, -5))
        ]
        trace = read(tmp_path, events)
        assert trace.memory is not None
        assert trace.memory.allocated.tolist() == [10, 30, 25]
        assert np.isnan(trace.memory.reserved).all()


class TestFaults:
    @pytest.mark.parametrize(
        ("events", "fault"),
        [
            ([kernel(GEMM, 1, -5)], "event 1: dur must not be negative, but is -5"),
            (
                [kernel(GEMM, 1, 5), kernel(GEMM, 1, 2) | {"dur": "long"}],
                "event 2: dur must be a number of microseconds, not 'long'",
            ),
            ([kernel(GEMM, 1, 5) | {"ts": None}], "event 1: ts must be a number of microseconds, not None"),
            ([kernel(GEMM, 1, 5) | {"ts": True}], "event 1: ts must be a number of microseconds, not True"),
            ([kernel(GEMM, math.nan, 5)], "event 1: ts must be a number of microseconds, not nan"),
            ([kernel(GEMM, math.inf, 5)], "event 1: ts must be a number of microseconds, not inf"),
            ([kernel(GEMM, 10**40, 5)], "event 1: ts must be a number of microseconds, not 1" + "0" * 39),
            ([kernel(GEMM, 1, 1e30)], "event 1: dur must be a number of microseconds, not 1e+30"),
            ([kernel(GEMM, 1, 5) | {"name": 7}], "event 1: name must be a text"),
            ([[1, 2]], "event 1: must be an object, not list"),
            ([None], "event 1: must be an object, not NoneType"),
            (["text"], "event 1: must be an object, not str"),
            ([], "has no events"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_are_one_line(self, tmp_path: Path, events: list[Any], fault: str) -> None:
        path = written(tmp_path, events)
        with pytest.raises(InputError) as caught:
            read_traces([path])
        shown = str(caught.value).removeprefix(f"{path}: ")
        assert shown == (
            fault if events else "is no trace: it has none of traceEvents, nodes, workload_graph, but schemaVersion"
        )

    def test_of_all_files_are_told(self, tmp_path: Path) -> None:
        paths = [written(tmp_path, [kernel(GEMM, 1, -5)], f"{i}.json") for i in range(2)]
        with pytest.raises(InputError) as caught:
            read_traces([*paths, tmp_path / "none.json"])
        assert len(str(caught.value).splitlines()) == 3

    @pytest.mark.parametrize(
        "odd",
        [
            {"args": 5},
            {"args": {"stream": [1], "correlation": "x", "External id": -3}},
            {"cat": ["kernel"]},
            {"tid": None},
        ],
    )
    def test_odd_arguments_are_no_fault(self, tmp_path: Path, odd: dict[str, Any]) -> None:
        trace = read(tmp_path, [kernel(GEMM, 1, 5), kernel(CONV, 6, 5) | odd])
        assert 1 <= len(trace.kernels) <= 2


def test_the_fixture_is_marked_as_made_up() -> None:
    import gzip
    import json

    for rank in range(2):
        record = json.loads(gzip.decompress((FIXTURES / f"synthetic-rank{rank}.json.gz").read_bytes()))
        assert "nobody ran this" in record["synthetic"]
