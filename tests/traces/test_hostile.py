"""Files that are broken, or made to harm: read, or refused in one line for each, never a crash."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from events import FIXTURES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.reporting.trace import trace_report
from perfmodel.traces.job import job
from perfmodel.traces.operators import traced_operators
from perfmodel.traces.reading import read_traces

if TYPE_CHECKING:
    from pathlib import Path

RAW = gzip.decompress((FIXTURES / "synthetic-rank0.json.gz").read_bytes())
FEW = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([10**400, -1, "kernel", "aten::mm", "X"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=6,
)  # fmt: skip
ARGUMENTS = st.fixed_dictionaries({}, optional=dict.fromkeys(("stream", "device", "correlation", "External id", "Input Dims", "Input dims", "Input type", "Concrete Inputs", "Collective name", "Group size", "In msg nelems", "Device Type", "Bytes", "Total Allocated", "Total Reserved"), ODD))  # fmt: skip
TIMES = st.integers(0, 1000) | st.floats(0, 1000)
EVENTS = st.lists(st.fixed_dictionaries(
    {"ts": TIMES, "name": st.sampled_from(["[memory]", "ProfilerStep#1", "aten::mm", "sgemm", "ncclDevKernel"]) | st.text()},
    optional={"cat": st.sampled_from(["kernel", "cpu_op", "Operator", "cuda_runtime", "gpu_memcpy", "user_annotation", "x"]) | ODD,
              "dur": TIMES, "ph": st.sampled_from(["X", "i"]) | ODD, "pid": ODD, "tid": ODD, "args": ARGUMENTS | ODD},
) | ODD, max_size=8)  # fmt: skip


def assert_one_line_each(error: InputError) -> None:
    assert len(str(error).splitlines()) == len(error.problems)


def survives(path: Path) -> None:
    """Reading and everything that is said of it."""
    try:
        traces = read_traces([path])
    except InputError as error:
        assert_one_line_each(error)
        return
    made = trace_report(job(traces))
    for form in ("table", "json", "csv", "markdown"):
        made.render(form)
    traced_operators(traces)


@FEW
@given(EVENTS, st.dictionaries(st.sampled_from(["deviceProperties", "distributedInfo", "schemaVersion"]), ODD))
def test_any_events(tmp_path: Path, events: list[Any], header: dict[str, Any]) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(header | {"traceEvents": events}), encoding="utf-8", errors="replace")
    survives(path)


@FEW
@given(st.lists(st.tuples(st.integers(0, len(RAW) - 1), st.binary(min_size=0, max_size=6)), min_size=1, max_size=4))
def test_a_trace_with_other_bytes_here_and_there(tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    raw = bytearray(RAW)
    for place, piece in changes:
        raw[place : place + len(piece)] = piece
    path = tmp_path / "changed.json"
    path.write_bytes(raw)
    survives(path)


@FEW
@given(st.integers(0, len(RAW)))
def test_a_trace_that_is_cut_off(tmp_path: Path, end: int) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(RAW[:end])
    survives(path)


@FEW
@given(st.binary(max_size=300), st.sampled_from(["a.json", "a.json.gz", "a.et", "a.pb", "a.sqlite"]),
       st.sampled_from([b"", b"\x1f\x8b\x08\x00", b"SQLite format 3\x00", b"{", b"[[", b'{"nodes": [', b"\x0a"]))  # fmt: skip
def test_any_bytes_under_any_name(tmp_path: Path, raw: bytes, name: str, begins: bytes) -> None:
    (tmp_path / name).write_bytes(begins + raw)
    survives(tmp_path / name)


@FEW
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "inputs", "input_shapes", "input_types", "Name", "runtime"), ODD)) | ODD,
                max_size=5), st.sampled_from(["nodes", "workload_graph"]))  # fmt: skip
def test_any_nodes(tmp_path: Path, nodes: list[Any], key: str) -> None:
    path = tmp_path / "et.json"
    path.write_text(json.dumps({key: nodes}), encoding="utf-8", errors="replace")
    survives(path)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", "is empty"),
        (RAW[:5000], "is cut off: its JSON ends in the middle, after 4,"),
        (b'{"traceEvents": ' + b"[" * 200_000, "is nested too deeply"),
        (
            b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -4}]}',
            "event 1: dur must not be negative, but is -4",
        ),
    ],
)
def test_the_command_ends_in_one_line_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raw: bytes, fault: str
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    assert main(["trace", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: {fault}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("events", [[{"ph": "M", "name": "process_name", "pid": 1, "args": {}}]])
def test_a_trace_of_nothing_is_one_line(tmp_path: Path, events: list[Any]) -> None:
    path = tmp_path / "none.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    with pytest.raises(InputError, match=r"none\.json: holds no kernels, operators or memory; was it saved after"):
        read_traces([path])
