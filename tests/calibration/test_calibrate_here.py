"""`perfmodel calibrate here`: constants out of timings that a known machine would give, and a short run on this one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import perfmodel
from perfmodel.calibration import here as module
from perfmodel.calibration.here import calibrate_here, fitted_link, fitted_slowdown
from perfmodel.cli import main
from perfmodel.cost.compute import Processor
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.measuring.cases import Case, cases
from perfmodel.measuring.machine import Level, Machine
from perfmodel.measuring.session import Found, has_torch
from perfmodel.specs import Hardware
from perfmodel.timeline import duration
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = Machine("Some CPU", 8, 64e9, (Level("L1", 2.0**18), Level("L3", 2.0**25)))
LATENCY, BANDWIDTH = 30e-6, 5e9


def told(*, processes: int = 1, torch: bool = True) -> Found:
    """What the model says of a CPU of the library, as if it had been measured."""
    device = find("hardware", "cloud-cpu-8core").device
    processor = Processor(device, "fp32", sustained=False)
    found = Found(MACHINE, processes, 8 // processes, "made up")
    for case in cases(MACHINE.caches, MACHINE.memory, torch=torch):
        measured = module._measured(case)
        if measured:
            found.times[case] = float(sum(duration(processor.time(kernel)) for kernel in measured.kernels))
        else:
            found.times[case] = case.sizes[0] / (
                40e9 if case.kind == "level" else 1e9 if case.kind != "launch" else 1e5
            )
    if processes > 1:
        sizes = [float(4**power) for power in range(2, 13)]
        steps = 2 * (processes - 1)
        found.messages = [(n, steps * (LATENCY + n / (processes * BANDWIDTH))) for n in sizes]
        found.beside = (0.01, 0.02, 0.025)
    return found


class TestFits:
    def test_predict_the_machine_that_the_timings_come_from(self, tmp_path: Path) -> None:
        here = calibrate_here(told(), "cpu")
        path = tmp_path / "cpu.yaml"
        path.write_text(here.text, encoding="utf-8")
        assert {fit.op for fit in here.calibration.fits} == {"gemm", "convolution", "attention", "stream", "reduction"}
        assert all(
            fit.errors is not None and fit.errors.median < 0.05
            for fit in here.calibration.fits
            if fit.op != "attention"
        )
        ours, theirs = (
            perfmodel.predict("resnet-18-cifar", name, batch=32, microbatch=32).step_time
            for name in (path, "cloud-cpu-8core")
        )
        assert ours == pytest.approx(theirs, rel=0.15)

    def test_state_where_each_value_comes_from(self, tmp_path: Path) -> None:
        path = tmp_path / "cpu.yaml"
        path.write_text(calibrate_here(told(torch=False), "cpu").text, encoding="utf-8")
        groups = dict(load(path, Hardware).groups())
        assert groups["device.compute"].status == "measured"
        assert groups["device.efficiency.matmul"].status == "fitted"
        assert groups["device.efficiency.matmul"].points is not None
        assert groups["device.efficiency.convolution"].status == "assumed"
        assert groups["device.efficiency.pace"].status == "measured"

    def test_what_was_not_timed_is_assumed_or_refused(self) -> None:
        found = told(torch=False)
        few = {case: time for case, time in found.times.items() if case.kind in {"level", "product"}}
        found.times = few
        assert "pace" not in calibrate_here(found, "cpu").text
        found.times = {case: time for case, time in few.items() if case.kind == "level"}
        with pytest.raises(InputError, match="--budget: too short to time a product; give more seconds"):
            calibrate_here(found, "cpu")


class TestNetwork:
    @pytest.mark.parametrize("processes", [2, 4, 8])
    def test_latency_and_bandwidth_of_a_ring(self, processes: int) -> None:
        link = fitted_link(told(processes=processes))
        assert link is not None
        assert (link.latency, link.bandwidth) == pytest.approx((LATENCY, BANDWIDTH))

    def test_one_process_has_none(self) -> None:
        assert fitted_link(told()) is None
        assert fitted_slowdown(told()) is None

    @pytest.mark.parametrize(("both", "factor"), [(0.02, 1.0), (0.025, 1.5), (0.03, 1.99), (0.01, 1.0), (9.0, 1.99)])
    def test_slowdown_of_what_runs_at_once(self, both: float, factor: float) -> None:
        found = told(processes=2)
        found.beside = (0.01, 0.02, both)
        assert fitted_slowdown(found) == pytest.approx(factor)

    def test_stands_in_the_file_and_joins_the_processes(self, tmp_path: Path) -> None:
        path = tmp_path / "cpu.yaml"
        path.write_text(calibrate_here(told(processes=4), "cpu").text, encoding="utf-8")
        machine = load(path, Hardware)
        assert (machine.reach, machine.device.compute.cores) == (4, 2)
        assert machine.device.efficiency.contention is not None
        assert perfmodel.predict("resnet-18-cifar", path, dp=4, batch=32, microbatch=8).step_time > 0


class TestCommand:
    def test_a_short_run_writes_what_predict_accepts(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "mine.yaml"
        (tmp_path / "json.py").write_text(
            "raise ImportError  # a script of the user's that a measuring process must not take"
        )
        monkeypatch.chdir(tmp_path)
        assert (
            main(["calibrate", "here", "--budget", "1", "--library", "numpy", "-o", str(path), "--format", "json"]) == 0
        )
        record = json.loads(capsys.readouterr().out)
        assert record["peak"] > 1e8
        assert record["engine"].startswith("numpy")
        assert [level["level"] for level in record["levels"]][-1] == "memory"
        assert main(["check", str(path)]) == 0
        assert main(["predict", "mlp-mnist", str(path)]) == 0

    @pytest.mark.skipif(not has_torch(), reason="needs torch")
    def test_two_processes_have_a_network(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        assert main(["calibrate", "here", "--budget", "4", "--processes", "2", "-o", str(path)]) == 0
        assert load(path, Hardware).reach == 2

    @pytest.mark.parametrize(("load", "busy"), [(0.1, False), (7.5, True)])
    def test_a_loaded_machine_is_told_and_kept_in_the_file(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        load: float,
        *,
        busy: bool,
    ) -> None:
        found = told()
        found.load = load
        monkeypatch.setattr("perfmodel.measuring.session.measure", lambda *_: found)
        path = tmp_path / "mine.yaml"
        assert main(["calibrate", "here", "-o", str(path)]) == 0
        said = capsys.readouterr().err
        assert ("load average 7.50 on 8 cores" in said and "others ran beside it" in said) == busy
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        assert first.startswith(f"# load average {load:.2f} on 8 cores")
        assert ("others ran beside it" in first) == busy

    def test_faults(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["calibrate", "here", "--processes", "100000"]) == 2
        assert "--processes: 100000: must be at most the " in capsys.readouterr().err
        if not has_torch():
            assert main(["calibrate", "here", "--library", "torch"]) == 2
            assert "is not installed; pip install 'perfmodel[torch]'" in capsys.readouterr().err

    def test_progress_counts_to_the_end(self) -> None:
        seen: list[tuple[int, int]] = []
        perfmodel.calibrate_here(budget=0.5, library="numpy", progress=lambda done, total: seen.append((done, total)))
        assert seen[-1][0] == seen[-1][1]


def test_a_case_has_words_or_is_a_rate() -> None:
    kinds = {case.kind for case in cases(MACHINE.caches, MACHINE.memory, torch=True) if module._measured(case) is None}
    assert kinds == {"launch", "level", "strided", "rows", "gather"}
    assert module._measured(Case("product", (2, 3, 4))) is not None
