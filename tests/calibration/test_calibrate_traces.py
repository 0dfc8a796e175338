"""Constants out of traces: found again where the trace was made with them, left where it does not tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from events import FIXTURES, GEMM, kernel, op, written

from perfmodel import api
from perfmodel.calibration.forms import with_constants
from perfmodel.cli import main
from perfmodel.cost.compute import Processor
from perfmodel.errors import InputError
from perfmodel.graph.kernels import Gemm
from perfmodel.specs import Hardware
from perfmodel.timeline import duration
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

SIZES = [(m, n, k) for m in (512, 1000, 4096, 9000) for n in (768, 2048, 5000) for k in (320, 1024, 4096)]


def products(folder: Path, machine: Hardware, fraction: float, count: int) -> Path:
    """A trace of products, as long as a device with this share of the peak would take."""
    device = with_constants(machine.device, "matmul", "fp16", {"fraction": fraction})
    processor, events, now = Processor(device, "fp16", sustained=False), list[dict[str, Any]](), 0.0
    for number, (m, n, k) in enumerate(SIZES[:count]):
        time = 1e6 * float(duration(processor.time(Gemm("gemm", m, n, k, 2.0))))
        call = op("aten::mm", now, 2, [[m, k], [k, n]], **{"External id": number + 1})
        call["args"]["Input type"] = ["c10::Half", "c10::Half"]
        events += [call, kernel(GEMM, now + 1, time, **{"External id": number + 1, "correlation": 1000 + number})]
        now += time + 10
    return written(folder, events, "products.json.gz", deviceProperties=[{"name": "Testium"}])


def test_finds_the_share_that_the_trace_was_made_with(tmp_path: Path, machine: Hardware, fixtures: Path) -> None:
    trace = products(tmp_path, machine, 0.55, len(SIZES))
    report = api.calibrate_trace([trace], fixtures / "machine.yaml", yaml=tmp_path / "new.yaml")
    [fit] = report.record["fits"]
    assert fit["constants"]["fraction"] == pytest.approx(0.55, rel=0.05)
    assert fit["median"] < 0.02
    group = load(tmp_path / "new.yaml", Hardware).device.efficiency.matmul
    assert (group.status, group.points) == ("fitted", fit["points"])
    assert group.fraction == pytest.approx(0.55, rel=0.05)
    assert "trace of Testium, products.json.gz" in (tmp_path / "new.yaml").read_text()


def test_says_what_is_kept_and_why(tmp_path: Path, machine: Hardware, fixtures: Path) -> None:
    report = api.calibrate_trace([products(tmp_path, machine, 0.55, 20)], fixtures / "machine.yaml")
    told = {row["op"]: row["constants"] for row in report.record["determined"]}
    assert told["gemm"].endswith("timings to fit, 8 for each constant")
    assert told["attention"] == "all kept: no such operator in the traces that could be used"


def test_few_timings_determine_nothing(tmp_path: Path, machine: Hardware, fixtures: Path) -> None:
    report = api.calibrate_trace(
        [products(tmp_path, machine, 0.55, 4)], fixtures / "machine.yaml", yaml=tmp_path / "new.yaml"
    )
    assert "5 are needed" in report.record["determined"][0]["constants"]
    assert load(tmp_path / "new.yaml", Hardware).device.efficiency == machine.device.efficiency


def test_constants_that_gain_nothing_are_not_taken(tmp_path: Path, machine: Hardware, fixtures: Path) -> None:
    """The trace is as the file predicts: new constants can at best be as good."""
    fraction = float(machine.device.efficiency.matmul.fraction)
    report = api.calibrate_trace(
        [products(tmp_path, machine, fraction, len(SIZES))], fixtures / "machine.yaml", yaml=tmp_path / "new.yaml"
    )
    told = {row["op"]: row["constants"] for row in report.record["determined"]}
    assert told["gemm"].startswith("all kept: the constants at hand err by 0% on the held-out timings")
    assert load(tmp_path / "new.yaml", Hardware).device.efficiency.matmul == machine.device.efficiency.matmul


def test_a_trace_without_shapes_is_one_line(tmp_path: Path, fixtures: Path) -> None:
    path = written(tmp_path, [kernel(GEMM, 0, 9)])
    with pytest.raises(
        InputError, match=r"no operator with shapes that can be used; .*; record with record_shapes=True"
    ):
        api.calibrate_trace([path], fixtures / "machine.yaml")


def test_the_command_writes_the_machine(
    tmp_path: Path, fixtures: Path, machine: Hardware, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = products(tmp_path, machine, 0.55, len(SIZES))
    command = [
        "calibrate",
        "trace",
        str(trace),
        "--hardware",
        str(fixtures / "machine.yaml"),
        "-o",
        str(tmp_path / "new.yaml"),
        "--format",
        "json",
    ]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["device"] == "Testium"
    assert main(["check", str(tmp_path / "new.yaml")]) == 0


def test_of_the_fixture_is_refused_for_a_machine_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "trace", str(FIXTURES / "synthetic-rank0.json.gz"), "--hardware", "dgx--2h"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
