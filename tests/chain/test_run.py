"""How long a whole training takes, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from perfmodel import api
from perfmodel.errors import InputError

GPT = ("gpt2-124m", "dgx-h100")
JOB: dict[str, Any] = {"devices": 8, "batch": 512}


def test_the_length_in_tokens_is_that_many_steps_of_the_predicted_time() -> None:
    made = api.predict(*GPT, tokens=10e9, **JOB)
    assert made.run is not None
    assert made.run.steps == pytest.approx(10e9 / (512 * 1024))
    assert made.run.time == pytest.approx(made.run.steps * made.step_time)
    assert made.hardware.price is not None
    assert made.run.cost == pytest.approx(made.run.time * 8 * float(made.hardware.price.per_device))
    assert made.run.energy == pytest.approx(made.run.steps * (made.energy or 0))


def test_samples_and_tokens_of_one_length_say_the_same() -> None:
    of_tokens, of_samples = api.predict(*GPT, **JOB, tokens=1024e6).run, api.predict(*GPT, **JOB, samples=1e6).run
    assert of_tokens is not None
    assert of_samples is not None
    assert of_tokens.time == pytest.approx(of_samples.time)


def test_images_have_samples_and_a_machine_without_a_price_no_cost() -> None:
    made = api.predict("resnet-50", "dgx-2", samples=90 * 1.28e6, dp=16, microbatch=16)
    assert made.run is not None
    assert made.run.cost is None
    assert made.run.time == pytest.approx(90 * 1.28e6 / made.samples_per_second)


def test_options_alone_may_give_a_price() -> None:
    made = api.predict("resnet-50", "dgx-2", samples=1e6, dp=16, sets={"hardware.price.per_device": "3.6 USD/h"})
    assert made.run is not None
    assert made.run.cost == pytest.approx(16 * 1e-3 * made.run.time)
    assert made.hardware.price is not None
    assert (made.hardware.price.source, made.hardware.price.status) == ("command line", "assumed")


def test_without_a_length_there_is_no_training() -> None:
    made = api.predict(*GPT)
    assert made.run is None
    assert "training" not in api.report(made).record


def test_it_stands_in_the_report() -> None:
    report = api.report(api.predict(*GPT, tokens=10e9, **JOB))
    assert report.record["training"].keys() == {"steps", "time", "cost", "energy"}
    assert report.rows[0]["training.time"] == report.record["training"]["time"]
    assert "device hours" in report.render("table")


def test_failures_take_the_length_of_the_workload() -> None:
    made: Any = api.predict(*GPT, tokens=300e9, failures="failures-opt-175b", **JOB)
    assert made.run is not None
    assert made.reliability.work == pytest.approx(made.run.time)
    assert made.reliability.time > made.run.time


@pytest.mark.parametrize(
    ("job", "length", "message"),
    [
        (GPT, {"tokens": 1e9, "samples": 1e6}, "--tokens: stands beside samples; the length of the training is given once"),
        (("resnet-50", "dgx-2"), {"tokens": 1e9}, "--tokens: this model has no tokens; give samples"),
        (GPT, {"tokens": 0}, "--tokens: must be greater than 0"),
        (GPT, {"tokens": "300B"}, "--tokens: must be a number, not '300B'"),
    ],
)  # fmt: skip
def test_a_length_that_means_nothing_is_refused(job: tuple[str, str], length: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        api.predict(*job, **length)
    assert str(caught.value) == message
