"""Which state is spread how far: ZeRO 0 to 3, HSDP, MiCS, PaRO."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.specs import Strategy
from perfmodel.specs.sharding import SCOPES, STAGES, USEFUL, sharding_of
from perfmodel.timeline import Repeat, Term, duration

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

PARTS = {"N": 1, "I": 8, "G": 32}


def predicted(zero: int | str, group: int | None = 8, machine: str = "dgx-a100-80gb", **sets: Any) -> Prediction:
    named = {f"strategy.{name}": value for name, value in sets.items()}
    return api.predict("llama-2-7b", machine, dp=32, batch=128, zero=zero, shard_group=group, sets=named)


def names(made: Prediction) -> set[str]:
    return {leaf.name for leaf, *_ in made.terms if leaf.kind == "data parallel"}


def test_fourteen_of_twenty_seven_are_useful() -> None:
    assert len(USEFUL) == len(set(USEFUL)) == 14
    assert set(STAGES) < set(USEFUL)


def test_stages_are_written_in_one_way() -> None:
    for stage, letters in enumerate(STAGES):
        assert Strategy.model_validate({"zero": letters}).zero == stage
    assert Strategy.model_validate({"zero": "IIG"}).zero == "IIG"


@pytest.mark.parametrize("zero", [4, -1, True, "GNI", "NN", "XYZ", 1.5, None])
def test_what_is_no_sharding_is_refused(zero: Any) -> None:
    with pytest.raises(ValueError, match="N whole, I over the shard group, G over all replicas"):
        Strategy.model_validate({"zero": zero})


@pytest.mark.parametrize("letters", USEFUL)
def test_memory_follows_from_the_letters(letters: str) -> None:
    """Rajbhandari et al., 2020, section 5, for each state on its own."""
    made, whole = predicted(letters).footprint, predicted(0).footprint
    p, g, o = (PARTS[scope] for scope in sharding_of(letters))
    assert float(np.max(made.weights)) == pytest.approx(float(np.max(whole.weights)) / p)
    assert float(np.max(made.gradients)) == pytest.approx(float(np.max(whole.gradients)) / g)
    assert float(np.max(made.optimizer)) == pytest.approx(float(np.max(whole.optimizer)) / o)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_group_of_all_replicas_is_global(stage: int) -> None:
    assert predicted(stage, None).step_time == pytest.approx(
        predicted(STAGES[stage].replace("I", "G")).step_time, rel=1e-12
    )


@pytest.mark.parametrize("letters", USEFUL)
def test_messages_follow_from_the_letters(letters: str) -> None:
    """Gathers where parameters are spread, per pass; sums where gradients travel on; weights handed out where the optimiser is
    spread further than parameters."""
    p, g, o = sharding_of(letters)
    found = names(predicted(letters))
    assert ("gradient all-reduce" in found) == (o != "G")
    assert ("gradient reduce-scatter" in found) == (g != "N" or g != o)
    assert ("weight all-gather" in found) == (p != "N" or p != o)


def sizes(made: Prediction, name: str) -> set[tuple[float, float]]:
    """Bytes and ranks of the messages of one name."""
    found = [leaf.inputs for leaf, *_ in made.terms if leaf.name == name and leaf.kind == "data parallel"]
    return {(float(each["size"]), float(each["ranks"])) for each in found}


def test_gradients_that_are_spread_in_groups_travel_on_as_parts() -> None:
    """NIG: every microbatch among the 8 of a group, then an eighth among the 4 groups (PaRO)."""
    made = predicted("NIG")
    whole = float(made.share.body[0].parameters)
    (inner, _), (outer, _) = sorted(sizes(made, "gradient reduce-scatter"), reverse=True)
    assert {ranks for _, ranks in sizes(made, "gradient reduce-scatter")} == {8.0, 4.0}
    assert inner == pytest.approx(8 * outer)
    assert inner > whole
    ((gathered, ranks),) = sizes(made, "weight all-gather")
    assert ranks == 32.0
    assert gathered == pytest.approx(inner / float(made.state.gradient) * float(made.state.weight))


def test_only_spread_parameters_are_gathered_for_every_pass() -> None:
    """With 4 microbatches: the others are gathered once a step."""
    times = {z: sum(t for leaf, t, _ in predicted(z).terms if leaf.name == "weight all-gather") for z in ("NGG", "GGG")}
    assert times["GGG"] > 5 * times["NGG"]


def test_two_stages_gather_less_between_hosts() -> None:
    """MiCS (arXiv:2205.00119), section 4.2: p - k of p parts instead of p - 1."""
    slow = {"weight_overlap": "none"}
    flat = predicted(3, 16, machine="aws-p4de-24xlarge", **slow)
    staged = predicted(3, 16, machine="aws-p4de-24xlarge", weight_gather="two-stage", **slow)
    assert names(staged) - names(flat) == {"weight all-gather between hosts", "weight all-gather in hosts"}
    ((between, ranks),) = sizes(staged, "weight all-gather between hosts")
    ((inside, near),) = sizes(staged, "weight all-gather in hosts")
    assert (ranks, near) == (2.0, 8.0)
    assert inside == pytest.approx(8 * between)
    assert staged.step_time < flat.step_time


def test_two_stages_are_one_where_a_group_is_in_a_host() -> None:
    assert predicted(3, 8, weight_gather="two-stage").step_time == pytest.approx(predicted(3, 8).step_time, rel=1e-12)


def test_the_further_a_state_is_spread_the_less_memory() -> None:
    for p, g, o in product(SCOPES, repeat=3):
        letters = f"{p}{g}{o}"
        if letters in USEFUL:
            assert predicted("GGG").memory_peak <= predicted(letters).memory_peak <= predicted("NNN").memory_peak


def test_a_plan_may_fix_any_sharding() -> None:
    found = api.plan(
        "llama-2-7b",
        "dgx-a100-80gb",
        devices=32,
        batch=128,
        fix={"zero": ["IIG", 3], "tp": 1, "pp": 1, "cp": 1},
        top=20,
    )
    assert {row.strategy.zero for row in found.rows} == {"IIG", 3}


def test_versions_of_weights_and_shards_do_not_mix() -> None:
    with pytest.raises(InputError, match="leave zero at 0 or 1"):
        api.predict(
            "llama-2-7b", "dgx-a100-80gb", dp=4, pp=8, batch=128, zero="IIG", shard_group=2, schedule="pipedream"
        )


def test_weights_that_are_dropped_after_recomputation_are_gathered_once_more() -> None:
    """Three gathers and one scatter of the same size, in place of two and one; without recomputation nothing changes."""
    job: dict[str, Any] = {"devices": 64, "microbatch": 2, "zero": 3, "seq": 2048}
    again = {"strategy.weight_regather": True, "strategy.gradient_precision": "same"}
    once = again | {"strategy.weight_regather": False}

    def exchanged(sets: dict[str, Any], recompute: str) -> float:
        made = api.predict("gpt3-175b", "dgx-a100-80gb", recompute=recompute, sets=sets, **job)
        return float(made.kinds["data parallel"][0])

    assert exchanged(again, "full") / exchanged(once, "full") == pytest.approx(4 / 3, rel=0.02)
    assert exchanged(again, "none") == exchanged(once, "none")


def gathers(made: Prediction) -> tuple[float, float, float]:
    """Size of one gather of weights for a pass, how often the forward pass has it, and their time."""
    (repeat,) = made.sync.forward or made.sync.exposed[:1]
    assert isinstance(repeat, Repeat)
    assert isinstance(repeat.part, Term)
    return float(repeat.part.inputs["size"]), float(repeat.count), float(duration(repeat))


def test_weights_are_gathered_layer_by_layer_or_product_by_product() -> None:
    """As many bytes in all; each further gather starts a kernel, steps around the ring and fills buffers once more."""
    by_layer, by_product = (
        gathers(api.predict("gpt3-175b", "dgx-a100-80gb", devices=512, zero=3, seq=1024, sets={"strategy.weight_unit": unit}))
        for unit in ("layer", "product")
    )  # fmt: skip
    assert (by_layer[1], by_product[1]) == (96, 4 * 96)
    assert by_product[0] * by_product[1] == pytest.approx(by_layer[0] * by_layer[1], rel=1e-12)
    setup, step = 9.66e-6, (6.13e-6 / 8 + 7 / 8 * 0.846e-6)
    least = 3 * 96 * (setup + 511 * step)
    filling = 63 / 2 * 88.4e-6
    assert least < by_product[2] - by_layer[2] < least + 4 * 96 * filling


def test_gradients_leave_when_a_bucket_is_full_but_not_in_more_pieces_than_weights() -> None:
    """A layer of 175B has 3.6 GB of gradients in 16 bits, one of 1.7B 0.1 GB, and a bucket of DeepSpeed 1 GB."""

    def pieces(workload: str, **sets: str) -> float:
        named = {f"strategy.{name}": value for name, value in sets.items()}
        made = api.predict(workload, "dgx-a100-80gb", strategy="deepspeed-zero-3", devices=64, sets=named)
        (scattered,) = (part for part in made.sync.exposed if "scatter" in part.name)
        assert isinstance(scattered, Repeat)
        return float(scattered.count)

    parameters = api.predict("gpt3-175b", "dgx-a100-80gb", devices=64).graph.parameters
    assert pieces("gpt3-175b") == pytest.approx(2 * parameters / 1e9, rel=0.01)
    assert pieces("megatron-1.7b") == 24
    assert pieces("gpt3-175b", weight_unit="layer") == 96


def test_lists_of_parts_are_copied_by_the_host_rank_after_rank() -> None:
    """Of each product of 96 layers, weights in three passes and gradients once, 4 x 96 lists each of 384 parts at 10 us."""

    def step(copy: str | None) -> Prediction:
        sets = {"strategy.part_copy": copy} if copy else {}
        return api.predict(
            "gpt3-175b",
            "dgx-a100-80gb",
            strategy="deepspeed-zero-3",
            devices=384,
            batch=1536,
            microbatch=4,
            precision="fp16",
            sets=sets,
        )

    flat, listed = step(None), step("10 us")
    assert "host" not in flat.kinds
    assert listed.kinds["host"][0] == pytest.approx(4 * 4 * 96 * 384 * 10e-6, rel=1e-12)
    assert listed.step_time - flat.step_time > listed.kinds["host"][1]
    assert (
        listed.hfu * 312 == pytest.approx(144, rel=0.08) != pytest.approx(flat.hfu * 312, rel=0.08)
    )  # SC 2021, table 2
