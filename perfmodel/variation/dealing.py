"""Sequences of several lengths dealt to ranks: how long the last of them works, by a formula or by drawing steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.specs.variation import Empirical
from perfmodel.variation.factors import factor
from perfmodel.variation.lengths import Lengths
from perfmodel.variation.packing import balanced, in_turn, pack
from perfmodel.variation.simulate import drawn
from perfmodel.variation.slowest import averaged
from perfmodel.variation.tables import Table

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from perfmodel.variation.packing import Packed
    from perfmodel.variation.pipelined import Pipeline
    from perfmodel.variation.sorts import Sorts

    Array = NDArray[np.float64]

SEED = (2026, 7)
"""Of the draws that stand where there is no formula: the same for every prediction, and others than those of --simulate."""
DRAWN = 60_000
"""Sequences that those draw in all; steps of many sequences vary little."""
STEPS = (8, 300)
"""Fewest and most steps that they draw."""
PACKED = (500, 10_000)
"""Sequences that are packed together, fewest and most."""


@dataclass(frozen=True)
class Deal:
    """Who gets which sequences in a step."""

    lengths: Lengths
    sorts: Sorts
    """What sequences of each length cost."""
    rows: str
    assignment: str
    row: float
    """Tokens of a packed row, or of a row that is padded to the sequence length."""
    ranks: int
    """That wait for one another, each with microbatches of its own: replicas, or, where a sequence has its own degree, their ranks."""
    in_step: int
    """Neighbours of them that wait for one another in every microbatch: they gather weights, or exchange tokens, in each of its layers."""
    pipeline: Pipeline | None
    """What each rank of them is, where it has stages."""
    microbatch: int
    microbatches: int
    """Of a step over all ranks."""
    by_length: bool

    @cached_property
    def padded(self) -> Lengths:
        """Tokens of a row, of sequences that have one each."""
        if self.rows == "sequence":
            return Lengths.histogram([self.row], [1.0])
        if self.assignment == "balanced" and self.microbatch > 1:
            random = np.random.default_rng(SEED)
            return Lengths.of(np.concatenate([self._grouped(random) for _ in range(self._steps)]))
        return self.lengths.longest_of(self.microbatch)

    @cached_property
    def packed(self) -> Packed:
        """Many rows with several sequences each."""
        return self._packed(np.random.default_rng(SEED))

    def _packed(self, random: Generator) -> Packed:
        return pack(self.lengths.draw(self._together, random), self.row)

    @property
    def _together(self) -> int:
        """Sequences that are drawn at a time: those of a step, or as many as are packed together."""
        rows = self.microbatches * self.microbatch
        return int(np.clip(rows * self.row / self.lengths.mean, *PACKED)) if self.rows == "packed" else rows

    @cached_property
    def shares(self) -> Array:
        """Of the microbatches, of each sort: of the sequences, or, in packed rows, of their tokens."""
        weights = self.lengths.values if self.rows == "packed" else 1.0
        return self.sorts.shares(self.lengths.values, self.lengths.shares * weights)

    @property
    def filled(self) -> float:
        """Share of the tokens of packed rows that are real; rows of one sequence are priced without their padding."""
        return 1 - self.packed.padding_share if self.rows == "packed" else 1.0

    @property
    def padding_share(self) -> float:
        """Of all computed tokens."""
        return 1 - self.filled if self.rows == "packed" else max(1 - self.lengths.mean / self.padded.mean, 0.0)

    @property
    def sequences(self) -> float:
        """Of a step."""
        rows = self.microbatches * self.microbatch
        return rows * self.filled * self.row / self.lengths.mean if self.rows == "packed" else float(rows)

    @property
    def has_formula(self) -> bool:
        """Whether ranks are sums of independent microbatches, without a pipeline that the longest of them holds up."""
        return self.rows != "packed" and self.assignment == "in-turn" and self.pipeline is None and not self.by_length

    def expected(self, working: float, bubble: float) -> tuple[float, float]:
        """Seconds until the last rank has done its microbatches, and the standard error where that is a mean of draws.

        Args:
            working: of an average rank.
            bubble: in which its pipeline fills and drains.
        """
        if self.rows == "sequence" or (self.ranks == 1 and self.has_formula):
            return working + bubble, 0.0
        if self.has_formula:
            costs, shares = self.sorts.cost(self.padded.values), self.padded.shares
            table = Table.of(factor(_empirical(costs / (costs @ shares), shares)))
            groups = averaged(table.largest(self.in_step), self.microbatches / self.ranks)
            return working * groups.largest(self.ranks / self.in_step).mean + bubble, 0.0
        made = drawn(self.draw(working, bubble, self._steps, np.random.default_rng(SEED)))
        return made.mean, made.error

    @property
    def _steps(self) -> int:
        return int(np.clip(DRAWN // self._together, *STEPS))

    def draw(self, working: float, bubble: float, steps: int, random: Generator) -> Array:
        """Seconds of so many steps: of the rank that ends last, or of the pipeline, played pass by pass."""
        whole, each = self._expected_costs
        if self.pipeline is None:
            return working / whole * np.array([self._last(self._loads(random)) for _ in range(steps)])
        held = max(DRAWN // self._together, 1)
        ends = [
            self.pipeline.stretch(np.array([load for _ in range(some) for load in self._loads(random)]) / each)
            for some in (min(held, steps - start) for start in range(0, steps, held))
        ]
        longest: Array = np.concatenate(ends).reshape(steps, self.ranks).max(axis=1)
        return (working + bubble) * longest

    def _last(self, loads: list[Array]) -> float:
        """Seconds of the rank that ends last; those in step take the longest of each microbatch."""
        if self.in_step == 1:
            return max(float(load.sum()) for load in loads)
        each = np.array(loads).reshape(self.ranks // self.in_step, self.in_step, -1)
        return float(each.max(axis=1).sum(axis=1).max())

    def _loads(self, random: Generator) -> list[Array]:
        """Seconds of the microbatches of each rank in one step; pipelines, and ranks in step, have as many each."""
        costs = self._costs(random)
        same = self.pipeline is not None or self.in_step > 1
        most = self.microbatches // self.ranks if same else None
        even = in_turn(len(costs), self.ranks)
        chosen = balanced(costs, self.ranks, most) if self.assignment == "balanced" else even
        return [costs[own] for own in chosen if own]

    @cached_property
    def _expected_costs(self) -> tuple[float, float]:
        """Seconds of all that a rank gets, and of one microbatch on a rank."""
        if self.rows == "packed":
            each = float(self.filled * self.shares @ self.sorts.costs + (1 - self.filled) * self.sorts.costs[0])
            return self.microbatches / self.ranks * each, each
        costs, shares = self.sorts.cost(self.padded.values), self.padded.shares
        pieces = self._pieces(self.padded.values)
        whole = float(costs * pieces @ shares)
        return self.microbatches / self.ranks * whole, whole / float(pieces @ shares)

    def _pieces(self, lengths: Array) -> Array:
        """Ranks that a microbatch is divided among, each a load of its own."""
        return self.sorts.degrees(lengths) if self.by_length else np.ones(len(lengths))

    def _costs(self, random: Generator) -> Array:
        """Seconds of the microbatches of one step, once for each of the ranks that share one."""
        if self.rows == "packed":
            rows = self._row_costs(self._packed(random))
            made: Array = random.choice(rows, (self.microbatches, self.microbatch)).mean(axis=1)
            return made
        lengths = self._grouped(random)
        return np.repeat(self.sorts.cost(lengths), self._pieces(lengths).astype(int))

    def _grouped(self, random: Generator) -> Array:
        """Tokens of the rows of each microbatch of one step; like lengths together where the work is balanced."""
        if self.rows == "sequence":
            return np.full(self.microbatches, self.row)
        lengths = self.lengths.draw(self.microbatches * self.microbatch, random)
        if self.assignment == "balanced":
            lengths = np.sort(lengths)
        longest: Array = lengths.reshape(self.microbatches, self.microbatch).max(axis=1)
        return longest

    def _row_costs(self, packed: Packed) -> Array:
        """Seconds of a microbatch of such rows: each sequence by its share of the row, padding as the shortest of them."""
        lengths = np.concatenate([np.asarray(row) for row in packed.rows])
        of_row = np.repeat(np.arange(len(packed.rows)), [len(row) for row in packed.rows])
        beyond = (self.sorts.cost(lengths) - self.sorts.costs[0]) * lengths / self.row
        made: Array = self.sorts.costs[0] + np.bincount(of_row, beyond, len(packed.rows))
        return made


def _empirical(factors: Array, shares: Array) -> Empirical:
    kept = shares > 0
    return Empirical(kind="empirical", factors=tuple(factors[kept].tolist()), shares=tuple(shares[kept].tolist()))
