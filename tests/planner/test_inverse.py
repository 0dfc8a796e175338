"""`solve`: the value that it finds is the edge between keeping the bounds and breaking them, by `predict` itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel import api
from perfmodel.cli import main
from perfmodel.errors import InputError

MACHINE = str(Path(__file__).parents[1] / "fixtures" / "machine.yaml")
GPT = ("gpt2-355m", MACHINE)
JOB: dict[str, Any] = {"devices": 64, "strategy": "data-parallel", "microbatch": 4, "batch": 256}
BANDWIDTH, LATENCY = "hardware.network.1.bandwidth", "hardware.network.1.latency"


def solved(path: str, *wanted: str, **job: Any) -> dict[str, Any]:
    record: dict[str, Any] = api.solve(*GPT, path, wanted=wanted, **(JOB | job)).record
    return record


def mfu(path: str, value: float, unit: str) -> float:
    return api.predict(*GPT, sets={path: f"{value:.9g} {unit}"}, **JOB).mfu()


@pytest.fixture(scope="module")
def between() -> float:
    """An MFU that hangs on the network: half way from a slow one to the machine's."""
    return (mfu(BANDWIDTH, 2e8, "B/s") + mfu(BANDWIDTH, 1e11, "B/s")) / 2


@pytest.fixture(scope="module")
def record(between: float) -> dict[str, Any]:
    return solved(BANDWIDTH, f"mfu>={between}")


def test_the_answer_is_the_edge(record: dict[str, Any], between: float) -> None:
    assert (record["sense"], record["unit"]) == ("at least", "B/s")
    value = record["value"]
    assert mfu(BANDWIDTH, value, "B/s") >= between > mfu(BANDWIDTH, value * 0.998, "B/s")


def test_the_values_around_bracket_the_answer(record: dict[str, Any]) -> None:
    around = record["around"]
    assert [point["keeps_all"] for point in around] == [False, False, True, True, True]
    assert [point["mfu"] for point in around] == sorted(point["mfu"] for point in around)


def test_a_latency_may_be_at_most_so_much() -> None:
    slow, fast = mfu(LATENCY, 1e-3, "s"), mfu(LATENCY, 1e-8, "s")
    wanted = (slow + fast) / 2
    record = solved(LATENCY, f"mfu>={wanted}")
    assert record["sense"] == "at most"
    assert mfu(LATENCY, record["value"], "s") >= wanted > mfu(LATENCY, record["value"] * 1.002, "s")


def test_of_several_bounds_all_are_kept(record: dict[str, Any], between: float) -> None:
    stricter = record["nearest"]["step_time"] * 0.9
    both = solved(BANDWIDTH, f"mfu>={between}", f"step_time<={stricter} s")
    assert both["value"] > record["value"]
    assert both["nearest"]["step_time"] <= stricter


def test_what_every_value_gives_and_what_none_gives() -> None:
    everything = solved("hardware.device.compute.peak.bf16", "step_time<=1000 s", devices=1, batch=4)
    assert (everything["sense"], everything["unit"]) == ("any", "FLOP/s")
    none = solved(BANDWIDTH, "mfu>=0.9999", sets={BANDWIDTH: "1 GB/s"})
    assert (none["sense"], none["value"]) == ("none", None)
    assert none["nearest"][BANDWIDTH] > none["stated"][BANDWIDTH]


def test_a_number_without_effect_is_left_as_it_is() -> None:
    """One host sends nothing over the network between hosts."""
    none = solved(BANDWIDTH, "mfu>=0.9999", devices=1, batch=4)
    assert none["sense"] == "none"
    assert none["nearest"][BANDWIDTH] == none["stated"][BANDWIDTH]


def test_a_share_stays_a_share() -> None:
    record = solved("hardware.network.1.efficiency", "mfu>=0.9999")
    assert record["unit"] == "1"
    assert max(point["hardware.network.1.efficiency"] for point in record["around"]) <= 1


def test_the_command_is_the_function(
    record: dict[str, Any], between: float, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for name, value in JOB.items() for word in (f"--{name}", str(value))]
    assert main(["solve", *GPT, BANDWIDTH, "--for", f"mfu>={between}", *words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(record["value"])


def test_that_no_value_suffices_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", *GPT, BANDWIDTH, "--for", "mfu>=0.9999"]) == 1
    assert "no value in reach keeps the bounds" in capsys.readouterr().out


def test_a_figure_that_the_job_has_not_is_refused() -> None:
    with pytest.raises(InputError, match="cost_per_step: ResNet-50 on dgx-2 has no such figure"):
        api.solve("resnet-50", "dgx-2", BANDWIDTH, wanted=["cost_per_step<=1 USD"])


@pytest.mark.parametrize(
    ("path", "wanted", "line"),
    [
        ("network.1.bandwith", "mfu>=0.4", "PATH: network.1.bandwith: is no number of the machine that can be solved for; did you mean 'hardware.network.1.bandwidth' or 'hardware.network.0.bandwidth'?"),
        (BANDWIDTH, "speed>=1", "--for: speed>=1: 'speed' is no figure of a plan; they are step_time, memory.peak, memory.host.used, memory.nvme.used, mfu, throughput.samples_per_second, throughput.tokens_per_second, cost_per_step, energy_per_step, devices, tp, cp, pp, dp, ep, etp, vpp, microbatch, microbatches"),
        (BANDWIDTH, "mfu=0.4", "--for: mfu=0.4: must be a figure, <= or >=, and a value, as in 'memory.peak<=72 GiB'"),
    ],
)  # fmt: skip
def test_a_question_that_means_nothing_is_refused(path: str, wanted: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        api.solve(*GPT, path, wanted=[wanted])
    assert str(caught.value) == line
