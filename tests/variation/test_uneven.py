"""Lengths, padding, packing and balance against draws, against all assignments tried, and at their limits."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.formulas.uneven import busiest_expert, settling_imbalance
from perfmodel.variation.lengths import Lengths
from perfmodel.variation.packing import balanced, context_degrees, in_turn, pack, waiting

if TYPE_CHECKING:
    from pathlib import Path

lengths = st.lists(st.integers(1, 50), min_size=1, max_size=40)


class TestLengths:
    @pytest.mark.parametrize("batch", [1, 8, 64])
    def test_padding_against_draws(self, batch: int) -> None:
        given_lengths = Lengths.lognormal(200, 0.8, most=4096)
        drawn = given_lengths.draw(batch * 4000, seed=3).reshape(4000, batch).max(axis=1)
        error = drawn.std(ddof=1) / np.sqrt(len(drawn))
        assert abs(drawn.mean() - given_lengths.longest(batch)) < 3 * error

    def test_a_larger_batch_pads_more(self) -> None:
        shares = [Lengths.lognormal(200, 0.8).padding(batch) for batch in (1, 2, 8, 64, 512)]
        assert shares[0] == pytest.approx(0.0)
        assert shares == sorted(shares)

    def test_equal_lengths_never_pad(self) -> None:
        assert Lengths.of([7, 7, 7]).padding(64) == pytest.approx(0.0)
        assert Lengths.of([7, 7]).padding_to(14) == pytest.approx(0.5)

    def test_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "lengths.csv"
        file.write_text("length,count\n10,3\n30,1\n", encoding="utf-8")
        assert Lengths.read(file).mean == 15.0

    def test_a_bad_file_says_where(self, tmp_path: Path) -> None:
        file = tmp_path / "lengths.csv"
        file.write_text("length,count\n10,x\n-3,1\n", encoding="utf-8")
        with pytest.raises(InputError) as caught:
            Lengths.read(file)
        assert [str(p).removeprefix(str(tmp_path)) for p in caught.value.problems] == [
            "/lengths.csv:2:1: count: must be a whole number above 0, not 'x'",
            "/lengths.csv:3:1: length: must be a whole number above 0, not '-3'",
        ]
        file.write_text("size\n3\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"lengths.csv:1:1: length: this column is required"):
            Lengths.read(file)

    @pytest.mark.parametrize(
        ("values", "shares", "message"),
        [
            ([1.0, 2.0], [0.5, 0.4], "add up to 0.9, not to 1"),
            ([1.0], [0.5, 0.5], "2 shares for 1 lengths"),
            ([0.0, 2.0], [0.5, 0.5], "lengths must be at least 1"),
        ],
    )
    def test_histograms_that_are_none(self, values: list[float], shares: list[float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Lengths.histogram(values, shares)

    def test_what_is_no_distribution(self) -> None:
        with pytest.raises(ValueError, match="is no distribution"):
            Lengths.lognormal(0, 1)
        with pytest.raises(ValueError, match="below the longest"):
            Lengths.of([7]).padding_to(6)


class TestPacking:
    @given(values=lengths, capacity=st.integers(50, 80), sort=st.booleans())
    def test_nothing_is_lost_and_no_row_overflows(self, values: list[int], capacity: int, *, sort: bool) -> None:
        packed = pack(values, capacity, sort=sort)
        assert sorted(length for row in packed.rows for length in row) == sorted(values)
        assert max(map(sum, packed.rows)) <= capacity
        assert len(packed.rows) >= sum(values) / capacity
        assert sum(sum(row) <= capacity / 2 for row in packed.rows) <= 1, "two half-full rows are one"
        assert packed.padding_share == pytest.approx(packed.padding / (len(packed.rows) * capacity))

    @given(values=lengths)
    def test_never_worse_than_a_row_for_each(self, values: list[int]) -> None:
        assert len(pack(values, 50).rows) <= len(values)

    def test_a_sequence_too_long(self) -> None:
        with pytest.raises(ValueError, match="61 does not fit into a row of 60"):
            pack([3, 61], 60)


class TestBalance:
    @given(costs=st.lists(st.floats(0.1, 10), min_size=1, max_size=7), ranks=st.integers(1, 3))
    def test_within_grahams_bound(self, costs: list[float], ranks: int) -> None:
        chosen = balanced(costs, ranks)
        assert sorted(item for items in chosen for item in items) == list(range(len(costs)))
        found = max(sum(costs[i] for i in items) for items in chosen)
        best = min(
            max(sum(c for c, r in zip(costs, ranked, strict=True) if r == rank) for rank in range(ranks))
            for ranked in product(range(ranks), repeat=len(costs))
        )
        assert best <= found * (1 + 1e-12)
        assert found <= best * (4 / 3 - 1 / (3 * ranks)) * (1 + 1e-9)

    def test_it_waits_less_than_chance(self) -> None:
        costs = Lengths.lognormal(200, 0.8).draw(64 * 32, seed=1)
        by_chance, by_cost = waiting(costs, in_turn(len(costs), 64)), waiting(costs, balanced(costs, 64))
        assert by_cost < 0.1 * by_chance

    def test_context_degrees(self) -> None:
        values = np.array([1, 4096, 4097, 2**21])
        assert context_degrees(values, 4096).tolist() == [1, 1, 2, 512]


class TestExperts:
    @pytest.mark.parametrize(("tokens", "experts"), [(4096, 8), (32768, 64), (131072, 256)])
    def test_the_busiest_against_draws(self, tokens: int, experts: int) -> None:
        """Counts of few tokens lean to the right, which normal ones do not: half a percent is allowed for it."""
        drawn = np.random.default_rng(2).multinomial(tokens, np.full(experts, 1 / experts), size=2000).max(axis=1)
        found = float(busiest_expert(tokens=tokens, experts=experts))
        assert found == pytest.approx(drawn.mean() * experts / tokens, rel=0.005)

    def test_one_expert_has_all(self) -> None:
        assert float(busiest_expert(tokens=100, experts=1)) == 1

    @given(first=st.floats(1, 4), last=st.floats(1, 4), settling=st.floats(1, 1e6))
    def test_the_mean_lies_between(self, first: float, last: float, settling: float) -> None:
        found = float(settling_imbalance(first=first, last=last, steps=1000, settling=settling))
        assert min(first, last) - 1e-9 <= found <= max(first, last) + 1e-9

    def test_limits_of_settling(self) -> None:
        assert float(settling_imbalance(first=2.0, last=1.0, steps=1000, settling=1e9)) == pytest.approx(2.0, rel=1e-5)
        assert float(settling_imbalance(first=2.0, last=1.0, steps=1e9, settling=10)) == pytest.approx(1.0, rel=1e-5)
