"""The speed of a host's threads, beside the dispatch time of a framework."""

import re

import pytest

from perfmodel import api
from perfmodel.library import find, names
from perfmodel.prediction import Prediction


def run(speed: float, microbatch: int = 1, strategy: str = "megatron-core") -> Prediction:
    """GPT-2, which one sample at a time leaves to the host."""
    return api.predict(
        "gpt2-124m", "dgx-a100-80gb", devices=8, batch=64, microbatch=microbatch, seq=1024, strategy=strategy,
        sets={"hardware.host.thread.speed": str(speed)},
    )  # fmt: skip


def test_a_faster_host_launches_in_less_time_and_no_more_than_that() -> None:
    slow, fast = run(1.0), run(2.0)
    assert fast.kinds["host"][0] == pytest.approx(slow.kinds["host"][0] / 2)
    saved = slow.step_time - fast.step_time
    assert 0 < saved <= slow.kinds["host"][0] / 2 * (1 + 1e-12)
    others = {kind: times[0] for kind, times in slow.kinds.items() if kind != "host"}
    assert others == pytest.approx({kind: fast.kinds[kind][0] for kind in others})


def test_a_host_that_does_not_bind_may_have_any_speed() -> None:
    times = {run(speed, microbatch=8, strategy="nemo").step_time for speed in (0.5, 1.0, 4.0)}
    assert len(times) == 1


def test_speeds_that_are_assumed_are_those_of_the_machine_that_the_note_names() -> None:
    """Those of Sapphire Rapids and Grace are fitted; that of EPYC 7742 is the unit."""
    threads = {name: find("hardware", name).host.launcher for name in names("hardware")}
    assert threads["dgx-a100-80gb"].speed == 1.0 < threads["gb200-nvl72"].speed < threads["dgx-h100"].speed
    assumed = {name: thread for name, thread in threads.items() if thread.source and thread.status == "assumed"}
    assert len(assumed) > 10
    for name, thread in assumed.items():
        other = re.match(r"that of ([a-z0-9-]+)", thread.note)
        assert other, name
        assert thread.speed == threads[other[1]].speed, name
