"""Logs of nccl-tests as they stand: old and new headers, several runs, hosts, and what is wrong with a broken one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfmodel.calibration.nccl_tests import is_log, read_log
from perfmodel.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validate: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   101 on  node-a device  0 [0x0f] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   102 on  node-b device  0 [0x10] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROW = "        1024           256     float     sum      -1    15.10    0.07    0.07      0    14.80    0.07    0.07    N/A\n"
OLD = """\
# Using devices
#   Rank  0 Pid  9 on  here device  0 [0x07] Tesla V100
#   Rank  3 Pid  9 on  here device  3 [0x0b] Tesla V100
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
         128            32   float    20.00    0.01    0.00  0e+00    21.00    0.01    0.00  0e+00
"""


def log(folder: Path, text: str, name: str = "run.log") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_both_times_of_a_size_are_rows(tmp_path: Path) -> None:
    rows, problems = read_log(log(tmp_path, "./build/all_reduce_perf -b 8\n" + HEAD + ROW))
    assert problems == []
    assert [row["time_us"] for _, row in rows] == ["15.10", "14.80"]
    first = rows[0][1]
    assert [first[key] for key in ("collective", "devices", "nodes", "bytes")] == ["all_reduce", "2", "2", "1024"]
    assert rows[0][0].line == 11


def test_an_old_log_whose_name_says_what_it_is(tmp_path: Path) -> None:
    rows, problems = read_log(log(tmp_path, OLD, "reduce_scatter_perf.txt"))
    assert problems == []
    assert [(r["collective"], r["devices"], r["nodes"], r["time_us"]) for _, r in rows] == [
        ("reduce_scatter", "4", "1", "20.00"),
        ("reduce_scatter", "4", "1", "21.00"),
    ]


def test_several_runs_in_one_log_have_ranks_of_their_own(tmp_path: Path) -> None:
    text = "# Collective test starting: all_gather_perf\n" + HEAD + ROW + "alltoall_perf\n" + OLD
    rows, problems = read_log(log(tmp_path, text))
    assert problems == []
    assert [(r["collective"], r["devices"]) for _, r in rows[::2]] == [("all_gather", "2"), ("alltoall", "4")]


def test_ranks_that_a_log_counts(tmp_path: Path) -> None:
    text = "sendrecv_perf\n# nranks 16\n" + "".join(HEAD.splitlines(keepends=True)[6:]) + ROW
    rows, _ = read_log(log(tmp_path, text))
    assert rows[0][1]["devices"] == "16"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEAD + ROW, 10, "does not say which collective it is; name it with --collective"),
        ("all_reduce_perf\n" + HEAD[HEAD.index("#       size") :] + ROW, 4, "comes before any line '#  Rank  0"),
        ("all_reduce_perf\n" + HEAD + ROW.replace("15.10", "fast"), 11, "time: must be a number above 0, not 'fast'"),
        ("all_reduce_perf\n" + HEAD + ROW.replace("15.10", "-1"), 11, "must be a number above 0, not '-1'"),
        ("all_reduce_perf\n" + HEAD + ROW.replace("sum", ""), 11, "has 12 columns, but the header above it 13"),
        ("all_reduce_perf\n" + HEAD, 0, "holds no line of times"),
    ],
)
def test_a_broken_log_is_named_by_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = log(tmp_path, text)
    _, problems = read_log(path)
    assert message in str(problems[0])
    assert str(problems[0]).startswith(f"{path}:{line}:1: " if line else f"{path}: ")


def test_the_command_line_prints_the_faults_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path, HEAD + ROW + ROW)
    assert main(["calibrate", "collectives", str(path), "--hardware", "dgx-h100"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [text.partition(": ")[0] for text in err.splitlines()] == [f"{path}:10:1", f"{path}:11:1"]


def test_a_table_is_no_log() -> None:
    assert not is_log("collective,devices,nodes,bytes,time_us\nall_reduce,8,1,1024,5\n")
    assert is_log(HEAD)
