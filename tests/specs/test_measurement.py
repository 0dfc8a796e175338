"""Measurement CSVs: bad ones, each with the exact lines that its author gets to read, and what good ones mean."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, get_args

import pytest

from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.specs.measurement import DIRECTNESS, HEADER, METRIC_UNIT, Metric, Row, read_measurements, unit_size
from perfmodel.validation.study import load_studies

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "id,workload,hardware,metric,value,unit\n"
GOOD = "a,gpt2-124m,dgx-h100,step_time,1,s\n"
METRICS = ", ".join(map(repr, METRIC_UNIT)).replace(", 'peak_memory'", " or 'peak_memory'")
BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "unknown column": (
        "id,workload,hardware,metric,value,unti,colour\n",
        ["1:1: unti: unknown column; did you mean 'unit'?", "1:1: colour: unknown column"],
    ),
    "missing columns": (
        "id,workload\na,gpt2-124m\n",
        ["1:1: hardware: this column is required", "1:1: metric: this column is required", "1:1: value: this column is required"],
    ),
    "column twice": ("id,workload,hardware,metric,value,id\n", ["1:1: id: this column stands twice"]),
    "column without a name": ("id,workload,hardware,metric,value,\n", ["1:1: csv: column 6 has no name"]),
    "semicolons": (
        "id;metrics\n",
        ["1:1: id;metrics: unknown column; did you mean 'metric'?", *(f"1:1: {name}: this column is required" for name in ("id", "workload", "hardware", "metric", "value"))],
    ),
    "wrong number of cells": (
        HEAD + "a,b\n" + GOOD + "a,b,c,d,e,f,g\n  \n",
        [
            "2:1: csv: has 2 cells, but the header has 6",
            "4:1: csv: has 7 cells, but the header has 6",
            "5:1: csv: has 1 cell, but the header has 6",
        ],
    ),
    "values of the wrong kind": (
        "tp,zero,sequence_parallel,precision,split," + HEAD + "two,4,maybe,fp17,training," + GOOD + "0,,,,," + GOOD.replace("a", "b", 1),
        [
            "2:1: tp: must be a whole number, not 'two'",
            "2:1: sequence_parallel: must be true or false, not 'maybe'",
            "2:1: zero: must be less than or equal to 3",
            "2:1: precision: must be 'fp64', 'fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'fp4' or 'int8'; did you mean 'fp16'?",
            "2:1: split: must be 'calibration' or 'test'",
            "3:1: tp: must be greater than or equal to 1",
        ],
    ),
    "unknown metric": (
        HEAD + GOOD.replace("step_time", "step_tim"),
        [f"2:1: metric: must be {METRICS}; did you mean 'step_time'?"],
    ),
    "a convention without FLOP": (
        "convention," + HEAD + "causal," + GOOD,
        ["2:1: convention: belongs to rates and shares of FLOP alone; leave it empty"],
    ),
    "wrong unit": (
        HEAD + GOOD.replace("1,s", "-1,GB") + "b,gpt2-124m,dgx-h100,mfu,40,percent\n",
        [
            "2:1: value: must be greater than 0",
            "2:1: unit: 'GB' is no unit of step_time, which is in s",
            "3:1: unit: 'percent' is no unit of mfu, which is a fraction or in %",
        ],
    ),
    "empty required cells": (
        HEAD + ",gpt2-124m, ,step_time,1,s\n",
        ["2:1: id: is empty; a value is required", "2:1: hardware: is empty; a value is required"],
    ),
    "duplicate id": (
        HEAD + 3 * GOOD,
        ["3:1: id: 'a' stands in line 2 already", "4:1: id: 'a' stands in line 2 already"],
    ),
    "bad overrides": (
        "overrides," + HEAD + "workload.model.layers 3; hardware.price=1," + GOOD,
        ["2:1: overrides: 'workload.model.layers 3' must be path=value"],
    ),
    "values that are no measurement": (
        HEAD + "".join(f"r{value},gpt2-124m,dgx-h100,step_time,{value},s\n" for value in ("-3", "0", "nan", "inf", "fast", '"1,5"')).replace('r"1,5"', "r"),
        [
            "2:1: value: must be greater than 0",
            "3:1: value: must be greater than 0",
            "4:1: value: must be a finite number",
            "5:1: value: must be a finite number",
            "6:1: value: must be a number, not 'fast'",
            "7:1: value: must be a number, not '1,5'",
        ],
    ),
    "a quoted newline: the row stands where it begins": (
        HEAD + '"a\nb",gpt2-124m,dgx-h100,step_time,x,s\n\n' + GOOD.replace("1", "y").replace("gpt2-y24m", "gpt2-124m").replace("h y00", "h100"),
        ["2:1: value: must be a number, not 'x'", "5:1: value: must be a number, not 'y'"],
    ),
    "a quote that never ends": (HEAD + GOOD + '"b,gpt2-124m\n', ["3:1: csv: a quote is opened and never closed"]),
    "text after a quote": (HEAD + '"a"b,gpt2-124m,dgx-h100,step_time,1,s\n', ["2:1: csv: ',' expected after '\"'"]),
    "no UTF-8": (HEAD.encode() + b"caf\xe9," + GOOD.encode(), [" is no UTF-8 text (byte 42)"]),
    "empty": ("", [" is empty"]),
    "blank": ("\n\n", [" is empty"]),
    "header only": (HEAD, [" holds a header, but no rows"]),
    "all at once, in the order of the lines": (
        HEAD + "a,b\n" + GOOD.replace(",1,", ",-1,") + GOOD + GOOD + "c,d\n",
        [
            "2:1: csv: has 2 cells, but the header has 6",
            "3:1: value: must be greater than 0",
            "5:1: id: 'a' stands in line 4 already",
            "6:1: csv: has 2 cells, but the header has 6",
        ],
    ),
    "names": (
        "strategy," + HEAD + "zero-33,a,gpt2-124,dgx--2h,step_time,1,s\n,b,gpt2-124m,dgx-2h,step_time,1,s\n,c,nowhere.yaml,dgx-2h,step_time,1,s\n",
        [
            "2:1: workload: 'gpt2-124': no workload of this name in the library, and no such YAML file; did you mean 'gpt2-124m'?",
            "2:1: hardware: 'dgx--2h': no hardware of this name in the library, and no such YAML file; did you mean 'dgx-2h' or 'dgx-2' or 'dgx-h200'?",
            "2:1: strategy: 'zero-33': no strategy of this name in the library, and no such YAML file; did you mean 'zero-2' or 'zero-1'?",
            "4:1: workload: 'nowhere.yaml': cannot be read: No such file or directory",
        ],
    ),
    "one configuration that is two": (
        "tp,split," + HEAD + "2,test,a#1,gpt2-124m,dgx-h100,step_time,1,s\n4,,a#2,gpt2-124m,dgx-h100,mfu,1,%\n",
        ["3:1: tp: differs from line 2, which is of the same configuration 'a'; give it another id"],
    ),
}  # fmt: skip


def read(folder: Path, text: str) -> list[Row]:
    file = folder / "cases.csv"
    file.write_text(text, encoding="utf-8")
    return read_measurements(file)


@pytest.mark.parametrize(("content", "lines"), BAD.values(), ids=BAD)
def test_every_fault_at_once_and_nothing_on_standard_output(
    content: str | bytes,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code = main(["validate", "bad.csv"])
    out, err = capsys.readouterr()
    assert err.splitlines() == [f"bad.csv:{line}" for line in lines]
    assert (code, out) == (2, "")


def test_faults_of_all_files_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(HEAD + "a\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_studies(["one.csv", "megatron-recomput", "two.csv", "one.csv"])
    assert str(caught.value).splitlines() == [
        "one.csv:2:1: csv: has 1 cell, but the header has 6",
        "megatron-recomput: no study of this name, and no such CSV file; did you mean 'megatron-recompute'?",
        "two.csv:2:1: csv: has 1 cell, but the header has 6",
    ]


def test_what_is_no_file(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "is a directory, not a CSV file"),
        (tmp_path / "none.csv", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(InputError) as caught:
            read_measurements(path)
        assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    "dress",
    [
        str,
        lambda t: "\ufeff" + t,
        lambda t: t.replace("\n", os.linesep + "\n"),
        lambda t: t.rstrip(),
        lambda t: t.replace("\n", "\r\n"),
    ],
)
def test_a_byte_order_mark_blank_lines_and_other_line_ends_are_no_fault(dress: type[str], tmp_path: Path) -> None:
    (row,) = read(tmp_path, dress(HEAD + GOOD))
    assert (row.measurement.id, row.measurement.value) == ("a", 1.0)


def test_columns_may_stand_in_any_order_and_cells_in_spaces(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "value,metric,id,hardware,tp,workload\n 2 ,step_time , a,dgx-2, 4,gpt2-124m\n")
    assert row.measurement.measured == 2.0
    assert row.measurement.settings == {"tp": 4}
    assert (row.place.line, row.measurement.split) == (2, "test")


@pytest.mark.parametrize(
    ("metric", "unit", "size"),
    [
        ("step_time", "", 1.0), ("step_time", "ms", 1e-3), ("step_time", "us", 1e-6), ("step_time", "min", 60.0),
        ("mfu", "", 1.0), ("mfu", "%", 0.01), ("hfu", "fraction", 1.0),
        ("peak_memory", "GiB", 2.0**30), ("peak_memory", "GB", 1e9), ("peak_memory", "B", 1.0),
        ("model_flops_per_device_per_second", "TFLOP/s", 1e12), ("hardware_flops_per_device_per_second", "PFLOP/s", 1e15),
        ("samples_per_second", "images/s", 1.0), ("samples_per_second", "sequences/s", 1.0), ("tokens_per_second", "tok/s", 1.0),
    ],
)  # fmt: skip
def test_units(metric: str, unit: str, size: float) -> None:
    assert unit_size(metric, unit) == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("step_time", "%"), ("step_time", "MS"), ("mfu", "s"), ("peak_memory", "GB/s"), ("peak_memory", "/s"), ("samples_per_second", "tokens/s"),
        ("tokens_per_second", "images/s"), ("model_flops_per_device_per_second", "TFLOP"), ("model_flops_per_device_per_second", "TB/s"),
        ("samples_per_second", "ms"),
    ],
)  # fmt: skip
def test_units_of_another_kind(metric: str, unit: str) -> None:
    with pytest.raises(ValueError, match=f"'{unit}' is no unit of {metric}"):
        unit_size(metric, unit)


def test_every_metric_has_a_unit_and_all_but_memory_a_rank() -> None:
    assert list(METRIC_UNIT) == list(get_args(Metric))
    assert {*DIRECTNESS, "peak_memory"} == set(METRIC_UNIT)


def test_overrides_are_paths_with_values_as_yaml_reads_them(tmp_path: Path) -> None:
    text = "workload.model.layers=3;  hardware.network.0.bandwidth = 75 GB/s ;strategy.sequence_parallel=true; a.b=x=y;"
    (row,) = read(tmp_path, f"overrides,{HEAD}{text},{GOOD}")
    assert row.measurement.sets == {
        "workload.model.layers": 3, "hardware.network.0.bandwidth": "75 GB/s", "strategy.sequence_parallel": True, "a.b": "x=y",
    }  # fmt: skip


def test_settings_are_what_cells_say_and_nothing_else(tmp_path: Path) -> None:
    (row,) = read(tmp_path, f"sequence_parallel,zero,global_batch,seq_len,dp,{HEAD}false,0,64,2048,,{GOOD}")
    assert row.measurement.settings == {"sequence_parallel": False, "zero": 0, "batch": 64, "seq": 2048}


def test_a_configuration_is_what_stands_before_the_hash(tmp_path: Path) -> None:
    rows = read(tmp_path, HEAD + "a#step_time,gpt2-124m,dgx-2,step_time,1,s\na#mfu,gpt2-124m,dgx-2,mfu,40,%\n")
    assert [row.measurement.configuration for row in rows] == ["a", "a"]


def test_the_header_is_the_one_that_is_promised() -> None:
    assert ",".join(HEADER) == (
        "id,source,address,table,date,workload,hardware,devices,strategy,tp,pp,vpp,dp,cp,ep,sequence_parallel,zero,shard_group,"
        "microbatch,global_batch,seq_len,precision,recompute,attention,schedule,sync,overrides,metric,value,unit,spread,split,notes,"
        "convention,memory_figure,memory_stage"
    )
