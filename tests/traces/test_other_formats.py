"""Execution traces, Nsight Systems, XLA profiles, memory timelines: built here byte by byte."""

from __future__ import annotations

import json
import sqlite3
import struct
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from perfmodel.errors import InputError
from perfmodel.traces.reading import read_traces
from perfmodel.traces.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def fault_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_traces([path])
    return str(caught.value).removeprefix(f"{path}: ")


class TestExecutionTraces:
    OLD: ClassVar[dict[str, Any]] = {"name": "aten::mm", "id": 3, "inputs": [[1], [2], 5], "input_shapes": [[4, 8], [8, 2], []],
                           "input_types": ["Tensor(float)", "Tensor(float)", "Int"]}  # fmt: skip
    NEW: ClassVar[dict[str, Any]] = {"name": "aten::mm", "id": 3, "inputs": {"values": [[1], [2], 5], "shapes": [[4, 8], [8, 2], []],
                           "types": ["Tensor(float)", "Tensor(float)", "Int"]}, "attrs": []}  # fmt: skip

    @pytest.mark.parametrize("node", [OLD, NEW], ids=["1.0.1", "1.1.0"])
    def test_of_pytorch_hold_operators_with_shapes(self, tmp_path: Path, node: dict[str, Any]) -> None:
        path = tmp_path / "et.json"
        path.write_text(
            json.dumps({"schema": "1.1.0-chakra.0.0.4", "nodes": [{"name": "[thread]", "id": 1}, node, node]})
        )
        [trace] = read_traces([path])
        [signature] = trace.signatures
        assert (signature.op, signature.dims, signature.types) == (
            "aten::mm",
            ((4, 8), (8, 2), ()),
            ("float", "float", "Int"),
        )
        assert signature.concrete == ("", "", "5")
        assert (len(trace.calls), len(trace.kernels), len(trace.notes)) == (2, 0, 1)

    def test_of_chakra_hold_times_of_nodes(self, tmp_path: Path) -> None:
        nodes = [{"Id": 1, "Name": "aten::mm", "runtime": 90, "is_cpu_op": True}, {"Id": 2, "Name": "sgemm", "runtime": 5, "is_cpu_op": False},
                 {"Id": 3, "Name": "ncclKernel_AllReduce", "runtime": 7, "is_cpu_op": False}]  # fmt: skip
        path = tmp_path / "chakra.json"
        path.write_text(json.dumps({"workload_graph": nodes}))
        summary = Summary(read_traces([path])[0])
        assert {name: one.total for name, one in summary.classes.items()} == pytest.approx(
            {"GEMM": 5e-6, "collective": 7e-6}
        )

    def test_of_chakra_as_messages_hold_the_same(self, tmp_path: Path) -> None:
        host = field(10, field(1, b"is_cpu_op") + field(26, 1))
        nodes = [
            field(1, 1) + field(2, b"aten::mm") + field(7, 90) + host,
            field(1, 2) + field(2, b"sgemm") + field(7, 5),
        ]
        path = tmp_path / "chakra.0.et"
        path.write_bytes(b"".join(varint(len(m)) + m for m in (field(2, b"schema"), *nodes)))
        [trace] = read_traces([path])
        assert (trace.names, trace.kernels.duration.tolist()) == (("sgemm",), pytest.approx([5e-6]))

    @pytest.mark.parametrize(
        ("record", "fault"),
        [
            ({"nodes": [5]}, "node 1: must be an object, not int"),
            ({"workload_graph": [{"Name": "a", "runtime": -1}]}, "node 1: runtime must not be negative, but is -1"),
            (
                {"workload_graph": [{"Name": "a", "runtime": "1"}]},
                "node 1: runtime must be a number within 1e+12 s, not '1'",
            ),
            ({"layers": [], "b": 1}, "is no trace: it has none of traceEvents, nodes, workload_graph, but layers, b"),
        ],
    )
    def test_say_what_is_wrong(self, tmp_path: Path, record: Any, fault: str) -> None:
        path = tmp_path / "et.json"
        path.write_text(json.dumps(record))
        assert fault_of(path) == fault

    def test_as_messages_that_are_cut_off_are_one_line(self, tmp_path: Path) -> None:
        path = tmp_path / "chakra.0.et"
        path.write_bytes(varint(50) + b"short")
        assert fault_of(path) == "is no Chakra execution trace, or is cut off"


def varint(value: int) -> bytes:
    raw = b""
    while True:
        value, low = value >> 7, value & 0x7F
        raw += bytes([low | (0x80 if value else 0)])
        if not value:
            return raw


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    return varint(number << 3 | 2) + varint(len(value)) + value


def xplane(name: str, lines: Sequence[tuple[str, int, Sequence[tuple[int, int, int]]]], names: dict[int, str]) -> bytes:
    """A plane: lines of (name, nanoseconds, events of (kind, offset, duration) in picoseconds)."""
    made = field(2, name.encode())
    for title, began, events in lines:
        inner = b"".join(
            field(4, field(1, kind) + field(2, offset) + field(3, lasted)) for kind, offset, lasted in events
        )
        made += field(3, field(2, title.encode()) + field(3, began) + inner)
    for number, text in names.items():
        made += field(4, field(1, number) + field(2, field(1, number) + field(2, text.encode())))
    return field(1, made)


class TestXplane:
    NAMES: ClassVar = {1: "gemm_fusion_dot_3", 2: "all-reduce.1", 3: "7"}

    def test_streams_of_a_gpu_hold_kernels(self, tmp_path: Path) -> None:
        lines = [
            ("Stream #13", 1000, [(1, 0, 5_000_000)]),
            ("Stream #14", 3000, [(2, 500_000, 7_000_000)]),
            ("XLA Modules", 1000, [(1, 0, 9)]),
        ]
        path = tmp_path / "run.xplane.pb"
        path.write_bytes(xplane("/host:CPU", [], {}) + xplane("/device:GPU:0", lines, self.NAMES))
        [trace] = read_traces([path])
        assert trace.kernels.start.tolist() == pytest.approx([0, 2.5e-6])
        assert trace.kernels.duration.tolist() == pytest.approx([5e-6, 7e-6])
        assert Summary(trace).exposed == pytest.approx(4.5e-6)

    def test_the_operations_of_a_tpu_and_its_steps(self, tmp_path: Path) -> None:
        lines = [
            ("XLA Ops", 0, [(1, 0, 5_000_000)]),
            ("Async XLA Ops", 0, [(2, 0, 2_000_000)]),
            ("Steps", 0, [(3, 0, 9_000_000)]),
        ]
        path = tmp_path / "run.xplane.pb"
        path.write_bytes(xplane("/device:TPU:0", lines, self.NAMES) + xplane("/device:TPU:1", lines, self.NAMES))
        traces = read_traces([path])
        assert [(trace.rank, trace.ranks, len(trace.kernels), len(trace.steps)) for trace in traces] == [
            (0, 2, 2, 1),
            (1, 2, 2, 1),
        ]

    @pytest.mark.parametrize(
        ("raw", "fault"),
        [
            (b"\x7fELF and so on", "is neither JSON, SQLite nor an XLA profile (xplane.pb), or is cut off"),
            (
                xplane("/device:GPU:0", [("Stream", 0, [(1, 0, 5)])], {1: "a"})[:-3],
                "is neither JSON, SQLite nor an XLA profile (xplane.pb), or is cut off",
            ),
            (xplane("/host:CPU", [], {}), "holds no plane of a GPU or TPU that ran anything, but /host:CPU"),
            (
                xplane("/device:GPU:0", [("Stream", 0, [(1, 0, -5)])], {1: "a"}),
                "/device:GPU:0: duration_ps must not be negative, but is of a",
            ),
        ],
    )
    def test_says_what_is_wrong(self, tmp_path: Path, raw: bytes, fault: str) -> None:
        path = tmp_path / "run.xplane.pb"
        path.write_bytes(raw)
        assert fault_of(path) == fault


def nsight(path: Path, kernels: Sequence[tuple[Any, ...]], ranges: Sequence[tuple[Any, ...]] = ()) -> Path:
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (1, 'volta_sgemm_128x64_nn'), (2, 'ncclKernel_AllReduce'), (3, 'iteration 1');
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA X'), (1, 'NVIDIA X');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, demangledName, shortName);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId, correlationId, bytes);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (9000, 9500, 0, 7, 9, 4096);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, correlationId);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 600, 1);
        CREATE TABLE NVTX_EVENTS (start, end, text, textId);
    """)
    base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?)", kernels)
    base.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?)", ranges)
    base.commit()
    base.close()
    return path


class TestNsight:
    KERNELS: ClassVar = [(1000, 6000, 0, 7, 1, 1, 1), (4000, 8000, 0, 8, 2, 2, 2)]

    def test_reads_kernels_copies_launches_and_ranges(self, tmp_path: Path) -> None:
        path = nsight(
            tmp_path / "run.sqlite",
            self.KERNELS,
            [(400, 9900, None, 3), (400, 700, "forward", None), (1, None, "step 9", None)],
        )
        [trace] = read_traces([path])
        summary = Summary(trace)
        assert (trace.device, [s.name for s in trace.steps]) == ("NVIDIA X", ["iteration 1"])
        assert {name: one.total for name, one in summary.classes.items()} == pytest.approx(
            {"GEMM": 5e-6, "collective": 4e-6, "memcpy": 0.5e-6}
        )
        assert summary.exposed == pytest.approx(2e-6)
        assert summary.step_of.tolist() == [0, 0, 0]

    def test_each_device_is_a_rank(self, tmp_path: Path) -> None:
        traces = read_traces([nsight(tmp_path / "run.sqlite", [*self.KERNELS, (1000, 2000, 1, 7, 3, 1, 1)])])
        assert [(trace.rank, trace.ranks, len(trace.kernels)) for trace in traces] == [(0, 2, 3), (1, 2, 1)]

    @pytest.mark.parametrize(
        ("kernel", "fault"),
        [
            (
                (6000, 1000, 0, 7, 1, 1, 1),
                "CUPTI_ACTIVITY_KIND_KERNEL: a row ends before it starts: volta_sgemm_128x64_nn",
            ),
            (("soon", 9, 0, 7, 1, 1, 1), "row: start must be a number within 1e+12 s, not 'soon'"),
            ((1, None, 0, 7, 1, 1, 1), "row: end must be a number within 1e+12 s, not None"),
        ],
    )
    def test_says_what_is_wrong(self, tmp_path: Path, kernel: tuple[Any, ...], fault: str) -> None:
        assert fault_of(nsight(tmp_path / "run.sqlite", [kernel])) == fault

    def test_another_data_base_is_no_export(self, tmp_path: Path) -> None:
        base = sqlite3.connect(tmp_path / "other.sqlite")
        base.executescript("CREATE TABLE t (a)")
        base.close()
        assert fault_of(tmp_path / "other.sqlite").startswith("holds no kernels: it is no export of Nsight Systems")

    def test_a_view_is_not_run(self, tmp_path: Path) -> None:
        base = sqlite3.connect(tmp_path / "view.sqlite")
        base.executescript(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        )
        base.close()
        assert fault_of(tmp_path / "view.sqlite").startswith("holds no kernels")

    def test_a_damaged_file_is_one_line(self, tmp_path: Path) -> None:
        path = nsight(tmp_path / "run.sqlite", self.KERNELS)
        raw = bytearray(path.read_bytes())
        raw[100:2000] = b"\xff" * 1900
        path.write_bytes(raw)
        assert "is no SQLite export of Nsight Systems, or is damaged" in fault_of(path)


class TestMemoryTimeline:
    def test_adds_up_what_is_allocated_and_freed(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.raw.json"
        path.write_text(json.dumps([[-1, 1, 100, 7], [2_000_000_000, 2, 50, 0], [2_000_001_000, 4, -50, 0]]))
        [trace] = read_traces([path])
        assert trace.memory is not None
        assert trace.memory.allocated.tolist() == [100, 150, 100]
        assert trace.memory.time.tolist() == pytest.approx([0, 0, 1e-6])

    @pytest.mark.parametrize("row", [[1, 2, 3], [1, 2, 3, "x"], [1, 2, 3.5, 4]])
    def test_says_what_is_wrong(self, tmp_path: Path, row: list[Any]) -> None:
        path = tmp_path / "memory.raw.json"
        path.write_text(json.dumps([row]))
        assert fault_of(path) == "row 1: must be four whole numbers: nanoseconds, action, bytes, category"


def test_fixed_width_fields_of_messages_are_passed_over(tmp_path: Path) -> None:
    extra = varint(99 << 3 | 1) + struct.pack("<d", 1.5) + varint(98 << 3 | 5) + struct.pack("<f", 2.5)
    path = tmp_path / "run.xplane.pb"
    path.write_bytes(xplane("/device:GPU:0", [("Stream", 0, [(1, 0, 5)])], {1: "a"}) + extra)
    assert len(read_traces([path])) == 1
