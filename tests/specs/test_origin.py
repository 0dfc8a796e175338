"""A number remembers the line that it was read from, all the way into the inputs of a formula."""

from __future__ import annotations

import copy
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from perfmodel import api
from perfmodel.errors import InputError, Place, Problem
from perfmodel.origin import Origin, origin_of, place_of, traced
from perfmodel.specs import Hardware, Strategy
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.prediction import Prediction

ORIGIN = Origin(Place("gpu.yaml", 3, 5), "sheet", "datasheet")


@pytest.fixture(scope="module")
def prediction(fixtures: Path) -> Prediction:
    sets = {"hardware.network.0.latency": "7 us", "hardware.device.compute.cores": 99}
    return api.predict("gpt2-124m", fixtures / "machine.yaml", tp=2, dp=2, microbatch=8, sets=sets)


def inputs_of(prediction: Prediction, name: str) -> dict[str, Any]:
    return next(dict(leaf.inputs) for leaf, _, _ in prediction.terms if leaf.name == name)


class TestTraced:
    @pytest.mark.parametrize("value", [80e9, 80, "fp16"])
    def test_is_the_value_with_an_origin(self, value: Any) -> None:
        kept = traced(value, ORIGIN)
        assert kept == value
        assert hash(kept) == hash(value)
        assert isinstance(kept, type(value))
        assert origin_of(kept) == ORIGIN
        assert place_of(kept, Place("elsewhere")) == ORIGIN.place

    @pytest.mark.parametrize("value", [80e9, 80, "fp16"])
    @pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))])  # noqa: S301 - our own
    def test_survives_a_copy(self, value: Any, again: Any) -> None:
        assert origin_of(again(traced(value, ORIGIN))) == ORIGIN

    @pytest.mark.parametrize("value", [True, None, [1], {"a": 1}])
    def test_leaves_the_rest_alone(self, value: Any) -> None:
        assert traced(value, ORIGIN) is value

    def test_arithmetic_forgets(self) -> None:
        assert origin_of(traced(2.0, ORIGIN) * 2) is None
        assert place_of(traced(2, ORIGIN) + 1, Place("elsewhere")) == Place("elsewhere")


class TestThroughTheChain:
    def test_inputs_of_a_term_name_their_line(self, prediction: Prediction, fixtures: Path) -> None:
        lines = (fixtures / "machine.yaml").read_text().splitlines()
        inputs = inputs_of(prediction, "optimizer step")
        expected = {"bandwidth": "bandwidth: 2 TB/s", "fraction": "fraction: 0.8", "launch": "time: 5 us"}
        for name, text in expected.items():
            origin = origin_of(inputs[name])
            assert origin
            assert lines[origin.place.line - 1][origin.place.column - 1 :].startswith(text), name
        statuses = {name: getattr(origin_of(inputs[name]), "status", "") for name in expected}
        assert statuses == {"bandwidth": "datasheet", "fraction": "measured", "launch": "assumed"}
        assert {getattr(origin_of(inputs[name]), "source", "") for name in expected} == {"none"}

    def test_computed_inputs_have_none(self, prediction: Prediction) -> None:
        assert origin_of(inputs_of(prediction, "optimizer step")["traffic"]) is None

    def test_an_override_is_known_by_its_option(self, prediction: Prediction) -> None:
        cores = origin_of(inputs_of(prediction, "mlp up")["cores"])
        assert cores == Origin(Place("--set hardware.device.compute.cores"), status="option")
        latency = origin_of(prediction.hardware.network[0].latency)
        assert latency
        assert str(latency.place) == "--set hardware.network.0.latency"

    def test_a_setting_is_known_by_its_option(self, prediction: Prediction) -> None:
        assert str(place_of(prediction.strategy.microbatch, Place("?"))) == "--microbatch"

    def test_so_is_a_word(self, fixtures: Path) -> None:
        made = api.predict("gpt2-124m", fixtures / "machine.yaml", precision="bf16")
        assert str(place_of(made.workload.training.precision, Place("?"))) == "--precision"

    @pytest.mark.parametrize("name", ["recompute", "schedule", "attention"])
    def test_so_is_a_choice_of_the_strategy(self, fixtures: Path, name: str) -> None:
        choices: dict[str, Any] = {"recompute": "full", "schedule": "gpipe", "attention": "unfused"}
        made = api.predict("gpt2-124m", fixtures / "machine.yaml", **{name: choices[name]})
        assert str(place_of(getattr(made.strategy, name), Place("?"))) == f"--{name}"

    def test_explain_shows_it(self, prediction: Prediction) -> None:
        (shown,) = api.explain(prediction, "optimizer step").record
        origins = {each["name"]: each["origin"] for each in shown["inputs"]}
        assert ":" not in origins["traffic"]
        assert re.fullmatch(r".*machine\.yaml:\d+:\d+", origins["bandwidth"])

    def test_every_number_of_a_hardware_file_is_traced(self, machine: Hardware) -> None:
        tier, device = machine.network[1], machine.device
        numbers: list[object] = [
            device.compute.cores, *device.compute.peak.values(), device.memory.capacity, device.memory.bandwidth,
            device.efficiency.matmul.fraction, device.efficiency.matmul.tile_balance, device.efficiency.launch.time,
            tier.devices, tier.bandwidth, tier.latency, tier.efficiency,
        ]  # fmt: skip
        assert all(origin_of(number) for number in numbers)


class TestPlacesOfFaults:
    def test_a_merged_key_stands_where_it_is_merged(self, tmp_path: Path) -> None:
        file = tmp_path / "strategy.yaml"
        file.write_text("schema: 1\nsources: &more\n  tpp: text\nname: x\n<<: *more\n")
        with pytest.raises(InputError, match="tpp: unknown key; did you mean 'tp'"):
            load(file, Strategy)

    def test_a_specs_own_constructor_knows_no_file(self) -> None:
        with pytest.raises(ValidationError):
            Strategy(tp=0)

    def test_problems_survive_pickling(self) -> None:
        """A search in several processes hands its faults back."""
        error = InputError([Problem(Place("a.yaml", 2, 3), "tp", "must be 1"), Problem(Place("--pp"), "pp", "no")])
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
        assert again.problems == error.problems
        assert str(again) == "a.yaml:2:3: tp: must be 1\n--pp: no"
