"""`predict --lengths`: padding, packing and waiting inside a predicted step, by formula and by drawn steps."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel
from perfmodel import api
from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.simulate import Times
from perfmodel.variation.asked import lengths_of
from perfmodel.variation.lengths import Lengths
from perfmodel.variation.packing import balanced

if TYPE_CHECKING:
    from perfmodel.variation.varied import Varied

MACHINE = str(Path(__file__).parents[1] / "fixtures" / "machine.yaml")
LOGNORMAL = "lognormal:median=200,sigma=0.7"
GPT: dict[str, Any] = {"devices": 8, "batch": 64}
PIPELINE = GPT | {"pp": 4}
WIDE: dict[str, Any] = {
    "workload": "llama-2-7b",
    "devices": 8,
    "cp": 4,
    "tp": 2,
    "batch": 16,
    "seq": 8192,
    "recompute": "full",
}


def made(lengths: str | Path = LOGNORMAL, workload: str = "gpt2-355m", simulate: int = 0, **job: Any) -> Varied:
    found: Any = perfmodel.predict(workload, MACHINE, lengths=lengths, simulate=simulate, seed=5, **{**GPT, **job})
    return found  # type: ignore[no-any-return]


def apart(one: Varied) -> float:
    """Drawn steps from the predicted one, in standard errors of both."""
    assert one.simulation is not None
    assert one.sequences is not None
    drawn = one.simulation.sequences
    assert drawn is not None
    error = np.hypot(drawn.error, one.sequences.error)
    return float(abs(drawn.mean - one.sequences.step_time) / (error + 1e-9 * drawn.mean))


class TestAgreesWithDraws:
    @pytest.mark.parametrize("microbatch", [1, 4])
    @pytest.mark.parametrize(
        ("rows", "assignment"), list(product(["sequence", "longest", "packed"], ["in-turn", "balanced"]))
    )
    def test_each_way_to_deal(self, rows: str, assignment: str, microbatch: int) -> None:
        one = made(f"{LOGNORMAL},rows={rows},assignment={assignment}", simulate=150, microbatch=microbatch)
        assert apart(one) < 3

    @pytest.mark.parametrize("assignment", ["in-turn", "balanced"])
    @pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
    def test_pipelines(self, assignment: str, schedule: str) -> None:
        assert apart(made(f"{LOGNORMAL},assignment={assignment}", simulate=60, **PIPELINE, schedule=schedule)) < 3

    @pytest.mark.parametrize("assignment", ["in-turn", "balanced"])
    @pytest.mark.parametrize("shard_group", [2, 8])
    def test_shards_of_weights_keep_ranks_in_step(self, shard_group: int, assignment: str) -> None:
        """They wait in every microbatch, which takes longer than waiting once."""
        text = f"{LOGNORMAL},assignment={assignment}"
        one = made(text, simulate=150, zero=3, shard_group=shard_group)
        assert apart(one) < 3
        assert one.sequences is not None
        alone = made(text, zero=1).sequences
        assert alone is not None
        assert one.sequences.slowest > alone.slowest

    @pytest.mark.parametrize("context", ["shared", "by-length"])
    def test_context_parallel(self, context: str) -> None:
        text = f"lognormal:median=700,sigma=1.2,context={context},assignment=balanced"
        assert apart(made(text, simulate=100, **WIDE)) < 3

    def test_one_microbatch_on_each_rank_is_an_order_statistic(self) -> None:
        """Two lengths: the last of eight ranks is long unless all are short."""
        deal = made("lognormal:median=300,sigma=0", batch=8).sequences
        assert deal is not None
        two = Lengths.histogram([100, 1000], [0.9, 0.1])
        file = find("variations", "lengths-assumed")
        section = file.lengths.model_copy(update={"distribution": _histogram([100, 1000], [0.9, 0.1])})
        variation = file.model_copy(update={"lengths": section})
        from perfmodel.variation.apply import vary

        one = vary(perfmodel.predict("gpt2-355m", MACHINE, devices=8, batch=8), lengths=variation)
        assert one.sequences is not None
        costs = one.sequences.deal.sorts.cost(two.values)
        none_long = 0.9**8
        expected = none_long * costs[0] + (1 - none_long) * costs[1]
        assert one.sequences.slowest == pytest.approx(expected / (0.9 * costs[0] + 0.1 * costs[1]), rel=1e-6)


def _histogram(lengths: list[int], shares: list[float]) -> Any:
    from perfmodel.specs.lengths import HistogramLengths

    return HistogramLengths(kind="histogram", lengths=tuple(lengths), shares=tuple(shares))


class TestLimits:
    @pytest.mark.parametrize("rows", ["sequence", "longest", "packed"])
    def test_sequences_that_fill_their_rows_change_nothing(self, rows: str) -> None:
        plain = perfmodel.predict("gpt2-355m", MACHINE, **GPT)
        full = made(f"lognormal:median=1024,sigma=0,rows={rows}")
        assert full.step_time == pytest.approx(plain.step_time)
        assert full.tokens_per_second == pytest.approx(plain.tokens_per_second)
        assert full.memory_peak == pytest.approx(plain.memory_peak)

    def test_short_ones_of_one_length_are_a_shorter_sequence(self) -> None:
        plain = perfmodel.predict("gpt2-355m", MACHINE, **GPT, seq=256)
        short = made("lognormal:median=256,sigma=0")
        assert short.step_time == pytest.approx(plain.step_time)
        assert short.memory_peak == pytest.approx(plain.memory_peak)

    def test_losses_name_padding_and_waiting_and_add_up(self) -> None:
        one = made(microbatch=4)
        assert one.losses["padding"] > 0
        assert one.losses["sequence imbalance"] > 0
        assert sum(one.losses.values()) == pytest.approx(one.step_time)

    def test_real_tokens_count(self) -> None:
        for rows in ("sequence", "longest", "packed"):
            one = made(f"{LOGNORMAL},rows={rows}", microbatch=4)
            assert one.sequences is not None
            mean = one.sequences.deal.lengths.mean
            assert one.tokens_per_second is not None
            assert one.tokens_per_second / one.samples_per_second == pytest.approx(mean, rel=1e-6)

    def test_packing_beats_padding_and_balance_beats_chance(self) -> None:
        tokens = {
            rows: made(f"{LOGNORMAL},rows={rows}", microbatch=4).tokens_per_second
            for rows in ("sequence", "longest", "packed")
        }
        assert tokens["sequence"] < tokens["longest"] < tokens["packed"]  # type: ignore[operator]
        assert made(f"{LOGNORMAL},assignment=balanced").step_time < made().step_time

    def test_memory_is_that_of_the_longest(self) -> None:
        cut = made(f"{LOGNORMAL},most=512")
        assert cut.memory_peak == pytest.approx(perfmodel.predict("gpt2-355m", MACHINE, **GPT, seq=512).memory_peak)
        padded = made(f"{LOGNORMAL},most=512,rows=sequence")
        assert padded.memory_peak == pytest.approx(perfmodel.predict("gpt2-355m", MACHINE, **GPT).memory_peak)

    def test_short_sequences_need_no_ring(self) -> None:
        text = "lognormal:median=700,sigma=1.2,assignment=balanced"
        shared, own = made(text, **WIDE), made(f"{text},context=by-length", **WIDE)
        assert own.kinds["context parallel"][0] < 0.5 * shared.kinds["context parallel"][0]
        assert own.step_time < shared.step_time

    def test_delays_come_on_top(self) -> None:
        both: Any = perfmodel.predict("gpt2-355m", MACHINE, lengths=LOGNORMAL, stragglers="slow-device", **GPT)
        assert both.sequences.step_time == pytest.approx(made().step_time)
        assert both.step_time == pytest.approx(both.sequences.step_time + both.waiting.delay)


class TestParts:
    @given(lengths=st.lists(st.integers(10, 1024), min_size=1, max_size=30))
    @settings(max_examples=25, deadline=None)
    def test_shares_of_priced_lengths_keep_the_mean(self, lengths: list[int]) -> None:
        sorts = _SORTS
        inside = np.clip(np.array(lengths, dtype=float), sorts.lengths[0], sorts.lengths[-1])
        shares = sorts.shares(inside, np.ones(len(lengths)))
        assert shares.sum() == pytest.approx(1)
        assert shares @ sorts.lengths == pytest.approx(inside.mean())
        assert shares @ sorts.costs == pytest.approx(sorts.cost(inside).mean())

    @given(
        weights=st.lists(st.floats(0.1, 10), min_size=1, max_size=10), stages=st.integers(1, 6),
        forward=st.floats(0.1, 2), backward=st.floats(0.1, 2),
    )  # fmt: skip
    @settings(max_examples=40, deadline=None)
    def test_gpipe_is_a_flow_shop(self, weights: list[float], stages: int, forward: float, backward: float) -> None:
        """Jobs of the same order on equal machines take the sum, and the longest once for each further machine."""
        times = Times([forward] * stages, [backward] * stages, [0.0] * stages, microbatches=weights)
        end = SCHEDULES["gpipe"].play(stages, 1, len(weights), times).end
        assert end == pytest.approx((forward + backward) * (sum(weights) + (stages - 1) * max(weights)))

    @pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble-h1", "gpipe"])
    def test_columns_of_draws_are_played_as_numbers_are(self, schedule: str) -> None:
        drawn = np.random.default_rng(3).lognormal(0, 0.5, (5, 8))

        def end(weights: Any) -> Any:
            times = Times([1.0] * 4, [1.2] * 4, [0.8] * 4, send=0.1, microbatches=weights)
            return SCHEDULES[schedule].play(4, 1, 8, times).end  # type: ignore[index]

        assert end(list(drawn.T)).tolist() == [end(row.tolist()) for row in drawn]

    @given(costs=st.lists(st.floats(0.1, 10), min_size=6, max_size=6))
    def test_ranks_with_room_for_as_many(self, costs: list[float]) -> None:
        chosen = balanced(costs, 3, most=2)
        assert [len(items) for items in chosen] == [2, 2, 2]
        assert sorted(item for items in chosen for item in items) == list(range(6))

    def test_the_longest_of_a_batch(self) -> None:
        lengths = Lengths.lognormal(200, 0.7)
        assert lengths.longest_of(8).mean == pytest.approx(lengths.longest(8))


_SORTS = made("lognormal:median=100,sigma=0.9").sequences.deal.sorts  # type: ignore[union-attr]


class TestAsked:
    def test_a_csv(self, tmp_path: Path) -> None:
        file = tmp_path / "lengths.csv"
        file.write_text("length,count\n100,3\n500,1\n", encoding="utf-8")
        one = made(file)
        assert one.sequences is not None
        assert one.sequences.deal.lengths.mean == pytest.approx(200)

    def test_each_preset_runs(self) -> None:
        assert made("lengths-assumed", workload="llama-3.1-8b", devices=8, batch=8).sequences is not None

    def test_json_and_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = [
            "predict",
            "gpt2-355m",
            MACHINE,
            "--devices",
            "8",
            "--batch",
            "64",
            "--lengths",
            LOGNORMAL,
            "--simulate",
            "20",
        ]
        assert main([*words, "--format", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["lengths"]["slowest_factor"] > 1
        assert told["simulation"]["sequences"]["mean"] > 0
        assert main(words) == 0
        assert "waiting" in capsys.readouterr().out

    def test_explain_shows_the_equations(self) -> None:
        rows = api.explain(made(microbatch=4), "padding").rows
        assert any("padding" in str(row) for row in rows)

    @pytest.mark.parametrize(
        ("lengths", "job", "message"),
        [
            ("lognormal:median=200", {}, "--lengths: lengths.distribution.sigma: is missing"),
            ("lognormal:200", {}, "must be key=value, as in lognormal:median=500,sigma=0.8"),
            ("lognormal:median=200,sigma=0.7,row=packed", {}, "unknown key"),
            ("lognormal:median=200,sigma=0.7,rows=packd", {}, "did you mean 'packed'"),
            ("lognormal:median=200,sigma=0.7,rows=packed,context=by-length", {}, "is for rows of one sequence each"),
            ("lognormal:median=200,sigma=0.7,most=4096", {}, "2,287 tokens are more than the 1,024 of a sequence"),
            (
                "lognormal:median=200,sigma=0.7,rows=packed",
                {"attention": "unfused"},
                "unfused attention computes whole rows",
            ),
            (
                "lognormal:median=200,sigma=0.7",
                {"workload": "resnet-50"},
                "needs a transformer with one kind of sequence",
            ),
            ("lognormal:median=200,sigma=0.7,context=by-length", {"zero": 3}, "take --zero 1, ep 1"),
            ("slow-device", {}, "has no section 'lengths'"),
            ("lengths-asumed", {}, "did you mean 'lengths-assumed'"),
        ],
    )
    def test_what_is_refused(self, lengths: str, job: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message.replace(".", r"\.").replace("(", r"\(")):
            made(lengths, **job)

    def test_histograms_that_do_not_add_up(self) -> None:
        from perfmodel.specs.lengths import UnequalSequences, length_faults

        wrong = UnequalSequences(source="x", status="assumed", distribution=_histogram([1, 2], [0.5]))
        assert [fault.message for fault in length_faults(wrong)] == [
            "1 shares for 2 lengths", "add up to 0.5, not to 1; divide each by 0.5",
        ]  # fmt: skip
        assert lengths_of("lengths-assumed").lengths is not None
