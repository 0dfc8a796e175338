"""Bad command lines, each with the exact lines on standard error: no traceback, nothing on standard output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perfmodel.cli import main

GPT = ["predict", "gpt2-124m", "machine.yaml"]
RESNET = ["predict", "resnet-50", "machine.yaml"]
FORMATS = "'table', 'json', 'csv', 'markdown'"
NOWHERE = "in the library, and no such YAML file"
CASES: list[tuple[list[str], list[str]]] = [
    # names
    (["predict", "gpt3-175", "machine.yaml"], [f"gpt3-175: no workload of this name {NOWHERE}; did you mean 'gpt3-175b'?"]),
    (
        ["predict", "gpt3-175", "dgx--2h", "--strategy", "zero-33"],
        [
            f"gpt3-175: no workload of this name {NOWHERE}; did you mean 'gpt3-175b'?",
            f"dgx--2h: no hardware of this name {NOWHERE}; did you mean 'dgx-2h' or 'dgx-2' or 'dgx-h200'?",
            f"zero-33: no strategy of this name {NOWHERE}; did you mean 'zero-2' or 'zero-1'?",
        ],
    ),
    (["predict", "gpt2-124m", "gpt2-124m"], [f"gpt2-124m: no hardware of this name {NOWHERE}, but a workload"]),
    (["show", "nothing-like-this"], [f"nothing-like-this: nothing of this name {NOWHERE}; `perfmodel list` shows all"]),
    (["check", "gpt3-17", "machine.yaml"], [f"gpt3-17: nothing of this name {NOWHERE}; did you mean 'gpt3-175b'?"]),
    (["check", "none.yaml", "machine.yaml"], ["none.yaml: cannot be read: No such file or directory"]),
    (["explain", "gpt2-124m", "machine.yaml", "mlp upp"], ["TERM: mlp upp: no term of this name; did you mean 'mlp up'?"]),
    (["predict", "GPT2-124M", "Machine.yaml"], [
        f"GPT2-124M: no workload of this name {NOWHERE}; did you mean 'gpt2-124m'?", "Machine.yaml: cannot be read: No such file or directory",
    ]),
    (["explain", "gpt2-124m", "machine.yaml", "zzz"], ["TERM: zzz: no term of this name; without a TERM all are shown"]),
    (["show"], ["perfmodel: Missing argument 'NAME'; see perfmodel show --help"]),
    (["calibrate", "ops", "nothing.csv"], ["--hardware: name the machine, or by --device a device of the tables"]),
    # degrees, devices, batch
    ([*GPT, "--devices", "6", "--tp", "4"], ["--devices: 6 is no multiple of tp x pp x cp = 4; nearest that are: 4 and 8"]),
    ([*GPT, "--devices", "8", "--tp", "4", "--dp", "4"], ["--devices: 8 is not tp x pp x cp x dp = 16; leave dp out, or give 16"]),
    ([*GPT, "--devices", "256"], ["--devices: 256 are more than the 128 that Test machine joins"]),
    ([*GPT, "--dp", "3", "--batch", "8"], ["--batch: 8 is not divisible by 3 data-parallel replicas; nearest that are: 6 and 9"]),
    (
        [*GPT, "--dp", "2", "--batch", "12", "--microbatch", "4"],
        ["--microbatch: 4 does not divide the 6 samples of a replica; nearest that do: 3 and 6"],
    ),
    ([*GPT, "--pp", "5"], ["--pp: 5 does not divide 12 layers; nearest that do: 4 and 6; or stages that differ: --set strategy.stage_layers=ends-fewer"]),
    ([*GPT, "--pp", "2", "--vpp", "5"], ["--vpp: 5 does not divide the 6 layers of a stage; nearest that do: 3 and 6"]),
    ([*GPT, "--vpp", "2"], ["--vpp: virtual stages need a pipeline; raise pp above 1 or leave vpp at 1"]),
    (
        [*GPT, "--pp", "4", "--vpp", "3", "--batch", "6"],
        ["--vpp: interleaving needs microbatches (6) in multiples of the 4 stages"],
    ),
    (
        [*GPT, "--pp", "2", "--vpp", "2", "--schedule", "gpipe"],
        ["--vpp: gpipe has no virtual stages; take schedule 1f1b or leave vpp at 1"],
    ),
    ([*GPT, "--shard-group", "3", "--dp", "4"], ["--shard-group: 3 does not divide 4 replicas; nearest that do: 2 and 4"]),
    ([*GPT, "--cp", "7"], ["--cp: 7 does not divide a sequence of 1024 tokens; nearest that do: 4 and 8"]),
    ([*GPT, "--ep", "2"], ["--ep: GPT-2 124M has no experts to spread; leave ep at 1"]),
    ([*RESNET, "--tp", "2"], ["--tp: is for transformers; ResNet-50 needs 1"]),
    ([*RESNET, "--pp", "2", "--cp", "2"], [
        "--pp: needs a chain of equal layers, which ResNet-50 is not; leave pp at 1",
        "--cp: is for transformers; ResNet-50 needs 1",
    ]),
    # values
    ([*GPT, "--precision", "fp8"], ["--precision: Testium has no peak for fp8; it has fp32, fp16, bf16"]),
    (
        [*GPT, "--precision", "fp17", "--tp", "two", "--zero", "4", "--microbatch", "2.5", "--dp", "0"],
        [
            "--precision: must be 'fp64', 'fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'fp4' or 'int8'; did you mean 'fp16'?",
            "--tp: must be a whole number, not 'two'",
            "--dp: must be greater than or equal to 1",
            "--zero: must be 0 to 3, or how far parameters, gradients and optimizer are spread, the last as far as the others: N whole, I over the shard group, G over all replicas; as IIG",
            "--microbatch: must be a whole number, not 2.5",
        ],
    ),
    ([*GPT, "--tp", ""], ["--tp: must be a whole number, not ''"]),
    ([*GPT, "--batch", "9" * 400, "--devices", "1e400"], ["--batch: must be at most 1e+18", "--devices: must be at most 1e+18"]),
    (
        [*GPT, "--set", "hardware.device.efficiency.matmul.tile_balance=.inf"],
        ["--set hardware.device.efficiency.matmul.tile_balance: device.efficiency.matmul.tile_balance: must be at most 1e+18"],
    ),
    ([*GPT, "--tp", "true"], ["--tp: must be a number, not true"]),
    ([*GPT, "--seq", "2001-99-99"], ["--seq: training.sequence: must be a whole number, not '2001-99-99'"]),
    ([*GPT, "--precision", "FP16"], ["--precision: must be 'fp64', 'fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'fp4' or 'int8'; did you mean 'fp16'?"]),
    ([*GPT, "--set", "workload.model.layers=1000000000"], ["--set workload.model.layers: model.layers: must be less than or equal to 100000"]),
    (
        [*GPT, "--set", "hardware.network.0.bandwidth=1e-300 B/s", "--set", "hardware.network.0.latency=1e300 s"],
        [
            "--set hardware.network.0.latency: network.0.latency: must be at most 1e+30 s",
            "--set hardware.network.0.bandwidth: network.0.bandwidth: must be at least 1e-30 B/s",
        ],
    ),
    ([*GPT, "--ops", "--losses"], ["--losses: stands beside --ops; give one of them"]),
    ([*GPT, "--ops", "--losses", "--bubbles"], ["--bubbles: stands beside --ops and --losses; give one of them"]),
    # --set
    ([*GPT, "--set", "hardware.network.0.latency"], ["--set: hardware.network.0.latency: must be path=value"]),
    (
        [*GPT, "--set", "model.layers=2"],
        ["--set: model.layers: must begin with workload., hardware. or strategy., as in hardware.device.memory.capacity=40 GB"],
    ),
    (
        [*GPT, "--set", "hardware.network.5.latency=1us", "--set", "hardware.network.²=1", "--set", "strategy.tpp=2"],
        [
            "--set hardware.network.5.latency: network.5.latency: there is no network.5",
            "--set hardware.network.²: network.²: there is no network.²",
            "--set strategy.tpp: tpp: unknown key; did you mean 'tp' or 'pp' or 'vpp'?",
        ],
    ),
    (
        [*GPT, "--set", "hardware.network.0.latency=3", "--set", "hardware.device.memory.bandwidth=2 TBps"],
        [
            "--set hardware.device.memory.bandwidth: device.memory.bandwidth: 'TBps' is no unit; write TB/s",
            "--set hardware.network.0.latency: network.0.latency: needs a unit of s, as in '5 us'",
        ],
    ),
    ([*GPT, "--set", "hardware.host={}"], [
        f"--set hardware.host: host.{key}: is missing; this key is required" for key in ("source", "status", "name", "devices")
    ]),
    # how the command line is made
    (["frobnicate"], ["perfmodel: No such command 'frobnicate'; see perfmodel --help"]),
    (["predict"], ["perfmodel: Missing argument 'WORKLOAD'; see perfmodel predict --help"]),
    (["check"], ["perfmodel: Missing argument 'FILE...'; see perfmodel check --help"]),
    ([*GPT, "--tpp", "3"], ["perfmodel: No such option: --tpp (Possible options: --pp, --tp, --vpp); see perfmodel predict --help"]),
    ([*GPT, "--tp"], ["perfmodel: Option '--tp' requires an argument"]),
    ([*GPT, "--format", "xml"], [f"perfmodel: Invalid value for '--format': 'xml' is not one of {FORMATS}; see perfmodel predict --help"]),
    (
        ["list", "machines"],
        ["perfmodel: Invalid value for 'KIND': 'machines' is not one of 'hardware', 'workloads', 'strategies', 'variations'; see perfmodel list --help"],
    ),
    (["predict", "resnet-50", "dgx-2", "--seq", "12"], ["--seq: training.sequence: this model has no sequences; leave it out"]),
    ([*GPT, "--output", "nowhere/report.json"], ["--output: nowhere/report.json: there is no folder nowhere"]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "lines"), CASES, ids=[" ".join(command) for command, _ in CASES])
def test_says_what_is_wrong(
    command: list[str],
    lines: list[str],
    fixtures: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(fixtures)
    code = main(command)
    out, err = capsys.readouterr()
    assert err.splitlines() == lines
    assert (code, out) == (2, "")


def test_without_a_command_the_help_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == ("", "Usage: perfmodel [OPTIONS] COMMAND [ARGS]...")


def test_help_has_a_short_name(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["-h"], ["predict", "-h"], ["calibrate", "ops", "-h"]):
        assert main(command) == 0
        assert capsys.readouterr().out.startswith("Usage: perfmodel")


def test_points_of_which_none_can_run_are_exit_code_1(
    fixtures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(fixtures)
    command = [
        "compare",
        "gpt2-124m",
        "machine.yaml",
        "--strategies",
        "data-parallel",
        "--batch-per-device",
        "1",
        "--format",
        "csv",
        "--devices",
    ]
    assert [main([*command, devices]) for devices in ("100000", "8,100000")] == [1, 0]
    assert "more than the 128" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["predict", "--plot"], ["plan", "--devices", "2", "--batch", "2", "--all-rows"],
     ["plan", "--devices", "2", "--batch", "2", "--resume"]],
    ids=lambda words: words[-1],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_one_line(
    words: list[str],
    tmp_path: Path,
    fixtures: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(fixtures)
    wanted = tmp_path / ("none/rows.csv" if words[-1] == "--all-rows" else "none/a.png")
    command, *options = words
    assert main([command, "gpt2-124m", "machine.yaml", *options, str(wanted)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith(f"{words[-1]}: {wanted}: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "perfmodel", "show", "dgx-2"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (2, "standard output: cannot be written: No space left on device\n")


def test_a_closed_standard_output_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["show", "dgx-2"]) == 2
    assert capsys.readouterr().err == "standard output: is closed; write to a file with --output\n"


def test_an_interruption_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from perfmodel import api

    def interrupted(_kind: str | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "list_items", interrupted)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "perfmodel: interrupted\n"


def test_debug_shows_the_traceback() -> None:
    from perfmodel.errors import InputError

    with pytest.raises(InputError):
        main(["--debug", "show", "nothing-like-this"])


def test_a_fault_of_our_own_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from perfmodel import api

    def broken(kind: str | None) -> None:
        raise ZeroDivisionError(kind)

    monkeypatch.setattr(api, "list_items", broken)
    assert main(["list"]) == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "perfmodel: internal error: ZeroDivisionError(None); --debug shows where\n"
    with pytest.raises(ZeroDivisionError):
        main(["list", "--debug"])
