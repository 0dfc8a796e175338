"""`predict --stragglers --failures --simulate --bubbles` and `explain --stragglers`: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfmodel
from perfmodel import api
from perfmodel.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINE = str(Path(__file__).parents[1] / "fixtures" / "machine.yaml")
GPT = ["predict", "gpt2-355m", MACHINE, "--devices", "32", "--batch", "128"]

Run = "Callable[..., dict[str, Any]]"


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """What a command prints as JSON."""

    def run(*words: str) -> dict[str, Any]:
        assert main([*words, "--format", "json"]) == 0
        made: dict[str, Any] = json.loads(capsys.readouterr().out)
        return made

    return run


class TestStragglers:
    def test_the_delay_is_a_part_of_the_step(self, told: Callable[..., dict[str, Any]]) -> None:
        plain, late = told(*GPT), told(*GPT, "--stragglers", "jitter-assumed")
        stragglers = late["stragglers"]
        assert late["step_time"] == pytest.approx(plain["step_time"] + stragglers["delay"])
        listed = sum(part["exposed"] for part in late["breakdown"] if part["kind"] == "stragglers")
        assert listed == pytest.approx(stragglers["delay"])
        assert late["mfu"] < plain["mfu"]
        assert "stragglers" not in plain

    def test_left_out_replicas_do_not_count(self, told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
        file = tmp_path / "backups.yaml"
        file.write_text(
            "schema: 1\nname: backups\nsources: {none: invented}\nstragglers:\n  source: none\n  status: assumed\n"
            "  compute: [{kind: exponential, mean: 0.5}]\n  mitigation: {kind: backup-workers, backup: 8}\n",
            encoding="utf-8",
        )
        made = told(*GPT, "--stragglers", str(file))
        assert made["stragglers"]["counted"] == pytest.approx(24 / 32)
        samples = made["throughput"]["samples_per_second"]
        assert samples * made["step_time"] == pytest.approx(128 * 24 / 32)

    def test_explain_shows_the_equation(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["explain", *GPT[1:], "waiting for slow devices", "--stragglers", "slow-device"]
        assert main(words) == 0
        text = capsys.readouterr().out
        assert "t (f - 1)" in text
        assert "expected ratio of the slowest" in text


class TestFailures:
    def test_goodput_and_time_of_the_training(self, told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
        file = tmp_path / "failures.yaml"
        file.write_text(
            "schema: 1\nname: often\nsources: {none: invented}\nfailures:\n  source: none\n  status: assumed\n"
            "  device_mtbf: 100 h\n  storage_bandwidth: 1 GB/s\n  restart: 5 min\n  steps: 1000000\n",
            encoding="utf-8",
        )
        failures = told(*GPT, "--failures", str(file))["failures"]
        assert failures["mtbf"] == pytest.approx(100 * 3600 / 32)
        assert failures["time"] == pytest.approx(failures["work"] / failures["goodput"])
        assert failures["low"] < failures["time"] < failures["high"]
        assert failures["interval"] == failures["best_interval"]
        assert 0.8 < failures["goodput"] < 0.99

    def test_simulation_beside_the_closed_forms(self, told: Callable[..., dict[str, Any]]) -> None:
        words = ["--stragglers", "slow-node", "--failures", "failures-opt-175b", "--simulate", "3000", "--seed", "3"]
        made = told(*GPT, *words)
        simulated = made["simulation"]
        assert simulated["steps"] == 3000
        step, stretch = simulated["step_time"], simulated["stretch"]
        assert abs(step["mean"] - made["step_time"]) < 3 * step["error"]
        assert abs(stretch["mean"] - 1 / made["failures"]["goodput"]) < 3 * stretch["error"]

    @pytest.mark.parametrize(
        "name", [n for n in api.list_items("variations").rows if n["name"].startswith("failures")], ids=str
    )
    def test_each_preset_runs(self, name: dict[str, Any], told: Callable[..., dict[str, Any]]) -> None:
        made = told(*GPT, "--failures", name["name"])
        assert 0 < made["failures"]["goodput"] <= 1


class TestBubbles:
    def test_four_stages_and_microbatches(self, told: Callable[..., dict[str, Any]]) -> None:
        """FreeRide's setting: 42.9 % of the pipeline's time, of which equal stages have the same."""
        equal = ["--set", "workload.model.vocabulary=64"]  # no head to speak of on the last stage
        made = told("predict", "gpt2-355m", MACHINE, "--pp", "4", "--batch", "4", "--bubbles", *equal)
        stages = made["bubbles"]
        assert [stage["stage"] for stage in stages] == [0, 1, 2, 3]
        pipeline = sum(p["exposed"] for p in made["breakdown"] if p["kind"] not in {"optimizer", "data parallel"})
        for stage in stages:
            parts = sum(stage[kind] for kind in ("fill", "first_backward", "steady", "drain"))
            assert parts == pytest.approx(stage["time"], rel=1e-6)
            assert stage["time"] / pipeline == pytest.approx(3 / 7, rel=0.02)
        assert stages[0]["free_memory"] < stages[-1]["free_memory"]

    def test_one_stage_is_never_idle(self) -> None:
        made = api.bubbles(perfmodel.predict("gpt2-355m", MACHINE, batch=4))
        assert [row["time"] for row in made.rows] == [0.0]


REFUSED = [
    (["--simulate", "10"], ["--simulate: draws what --stragglers, --failures or --lengths say; give one"]),
    (["--simulate", "-1"], ["perfmodel: Invalid value for '--simulate': Input should be greater than or equal to 0; see perfmodel predict --help"]),
    (
        ["--stragglers", "jitter-asumed"],
        ["jitter-asumed: no variation of this name in the library, and no such YAML file; did you mean 'jitter-assumed' or 'jitter-passes'?"],
    ),
    (["--stragglers", "failures-llama-3"], ["--stragglers: Failures of Llama 3: has no section 'stragglers'"]),
    (["--failures", "slow-node"], ["--failures: One node in a hundred is slow: has no section 'failures'"]),
    (["--stragglers", "dgx-2"], ["dgx-2: no variation of this name in the library, and no such YAML file, but a hardware"]),
]  # fmt: skip
MISFITS = [
    ("{kind: backup-workers, backup: 32}", "32", "backup", "32 backup workers leave none of 32 replicas to wait for"),
    ("{kind: fastest-k, waited: 40}", "40", "waited", "the fastest 40 of 32 replicas cannot be; at most 32"),
    ("{kind: gradient-coding, stragglers: 32}", "32", "stragglers", "32 for 32 replicas cannot be; at most 31"),
    ("{kind: replication, copies: 5}", "5", "copies", "5 does not divide 32 replicas"),
]


@pytest.mark.parametrize(("words", "lines"), REFUSED, ids=" ".join)
def test_what_is_refused(words: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GPT, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", lines)


@pytest.mark.parametrize(("mitigation", "value", "name", "message"), MISFITS)
def test_mitigations_that_so_many_replicas_cannot_do(
    mitigation: str, value: str, name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    line = f"  mitigation: {mitigation}"
    Path("bad.yaml").write_text(
        "schema: 1\nname: bad\nsources: {none: invented}\nstragglers:\n  source: none\n  status: assumed\n"
        f"  compute: [{{kind: exponential, mean: 0.5}}]\n{line}\n",
        encoding="utf-8",
    )
    assert main([*GPT, "--stragglers", "bad.yaml"]) == 2
    column = line.rindex(f"{name}: {value}") + 1
    told = capsys.readouterr().err
    assert told.startswith("bad.yaml:8:")
    assert told.endswith(f"stragglers.mitigation.{name}: {message}\n")
    assert int(told.split(":")[2]) in {column, column + len(name) + 2}
