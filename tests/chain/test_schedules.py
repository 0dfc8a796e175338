"""`schedule` of a strategy, through the whole chain: time, memory, rules, columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.schedule import SCHEDULES
from perfmodel.timeline import duration

JOB: dict[str, Any] = {
    "strategy": "megatron-2022", "devices": 128, "tp": 8, "pp": 8, "batch": 64, "recompute": "selective", "sequence_parallel": True,
}  # fmt: skip
CHUNKS = {"zero-bubble-v": 2}


def predicted(schedule: str, **more: Any) -> Any:
    chunks = {"vpp": CHUNKS[schedule]} if schedule in CHUNKS else {}
    return api.predict("gpt3-175b", "dgx-a100-80gb", **{**JOB, "schedule": schedule, **chunks, **more})


@pytest.fixture(scope="module")
def all_of_them() -> dict[str, Any]:
    return {name: predicted(name) for name in SCHEDULES}


def test_less_is_waited_for_where_more_is_known_of_the_passes(all_of_them: dict[str, Any]) -> None:
    idle = {name: made.kinds.get("bubble", (0.0, 0.0))[1] for name, made in all_of_them.items()}
    assert idle["1f1b"] == idle["gpipe"] > idle["zero-bubble-h1"] > idle["zero-bubble-h2"] > idle["pipedream"] == 0
    assert idle["zero-bubble-v"] < idle["zero-bubble-h1"]
    assert idle["dual-pipe"] < idle["zero-bubble-h1"]
    assert idle["decoupled-backward"] == max(idle.values())


def test_memory_is_that_of_the_source(all_of_them: dict[str, Any]) -> None:
    """ZB-H1 and ZB-V keep what 1F1B does at its fullest, ZB-H2 nearly twice, DualPipe one microbatch more."""
    kept = {name: made.footprint.activations for name, made in all_of_them.items()}
    middle = {name: float(stage[4]) for name, stage in kept.items()}
    one = middle["1f1b"] / 4
    assert [middle[n] / one for n in ("zero-bubble-h1", "zero-bubble-h2", "dual-pipe", "gpipe")] == pytest.approx(
        [8, 15, 9, 32]
    )
    assert middle["zero-bubble-v"] == pytest.approx(middle["zero-bubble-h1"])
    assert all_of_them["zero-bubble-h1"].memory_peak == pytest.approx(all_of_them["1f1b"].memory_peak)


def test_versions_of_the_weights(all_of_them: dict[str, Any]) -> None:
    weights = {name: made.footprint.weights for name, made in all_of_them.items()}
    np.testing.assert_allclose(weights["pipedream"] / weights["1f1b"], np.arange(8, 0, -1))
    np.testing.assert_allclose(weights["pipedream-2bw"] / weights["1f1b"], 2)
    np.testing.assert_allclose(weights["dual-pipe"][1:-1] / weights["1f1b"][1:-1], 2)


def test_pipedream_updates_after_every_microbatch(all_of_them: dict[str, Any]) -> None:
    update = {name: made.kinds["optimizer"][1] for name, made in all_of_them.items()}
    assert update["pipedream"] == pytest.approx(32 * update["pipedream-2bw"])


def test_three_forward_passes_cost_two_more(all_of_them: dict[str, Any]) -> None:
    extra = all_of_them["3f1b"].step_time - all_of_them["1f1b"].step_time
    stage = all_of_them["1f1b"].stage
    sends = sum(float(duration(part)) for part in stage.sends)
    assert extra == pytest.approx(2 * 32 * (float(duration(stage.body_forward)) + sends / 2))


def test_breadth_first_gathers_sharded_weights_once() -> None:
    made = {name: predicted(name, zero=3) for name in ("gpipe", "breadth-first")}
    gathered = {
        name: sum(time for leaf, time, _ in p.terms if leaf.name == "weight all-gather") for name, p in made.items()
    }
    assert gathered["gpipe"] == pytest.approx(32 * gathered["breadth-first"])


def test_breadth_first_hides_the_exchange_of_all_chunks_but_the_last() -> None:
    """On a slow network: a third is left over, and what contention costs while the rest travels."""
    slow = {"hardware.network.1.bandwidth": "10 GB/s", "strategy.gradient_overlap": "backward"}
    total, exposed = {}, {}
    for job in (("gpipe", 1), ("breadth-first", 1), ("breadth-first", 3)):
        made = predicted(job[0], vpp=job[1], devices=256, sets=slow)
        rows = [(time, seen) for leaf, time, seen in made.terms if leaf.name == "gradient all-reduce"]
        total[job], exposed[job] = map(sum, zip(*rows, strict=True))
    assert exposed["breadth-first", 1] == pytest.approx(exposed["gpipe", 1])
    assert total["breadth-first", 3] == pytest.approx(total["gpipe", 1])
    contention = (1.126 - 1) * total["gpipe", 1] * 2 / 3
    assert exposed["breadth-first", 3] == pytest.approx(exposed["gpipe", 1] / 3 + contention)


def test_a_v_needs_no_exchange_of_the_embedding(all_of_them: dict[str, Any]) -> None:
    names = {name: {leaf.name for leaf, _, _ in made.terms} for name, made in all_of_them.items()}
    assert "tied embedding all-reduce" in names["zero-bubble-h1"]
    assert "tied embedding all-reduce" not in names["zero-bubble-v"] | names["dual-pipe"]
    assert "mirrored stage all-reduce" in names["dual-pipe"]


@pytest.mark.parametrize(
    ("schedule", "more", "message"),
    [
        ("zero-bubble-v", {"vpp": 1}, "two chunks on each stage; give vpp 2"),
        ("zero-bubble-h1", {"vpp": 2}, "no virtual stages"),
        ("zero-bubble-h2", {"batch": 28}, "needs 15 microbatches with 8 stages, not 14"),
        ("dual-pipe", {"batch": 28}, "needs 16 microbatches"),
        ("pipedream-2bw", {"batch": 8}, "needs 8 microbatches"),
        ("dual-pipe", {"batch": 34}, "even numbers"),
        ("pipedream", {"zero": 3}, "leave zero at 0 or 1"),
    ],
)
def test_what_a_schedule_cannot_do_is_refused_with_the_remedy(
    schedule: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        predicted(schedule, **more)


def test_every_schedule_is_a_plain_job_on_one_stage() -> None:
    """Without a pipeline there is nothing to order."""
    times = {
        name: api.predict("gpt2-124m", "dgx-a100-80gb", dp=8, microbatch=2, batch=64, schedule=name).step_time
        for name in ("1f1b", "gpipe", "zero-bubble-h1", "zero-bubble-h2", "pipedream-2bw")
    }
    assert len(set(times.values())) == 1
