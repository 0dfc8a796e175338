"""Sums and order statistics of several random times, which no closed form has: distributions as tables.

A table holds the distribution function at increasing values. The largest of n is its n-th power; a sum of independent times is
an average over the quantiles of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.variation.factors import Array, Factor

LOGITS = np.linspace(-40.0, 40.0, 3001)
"""At which tables take the quantiles of a distribution."""
NODES = np.linspace(-36.0, 36.0, 601)
"""At which sums average over one of two times."""
_NEGLIGIBLE = 1e-13
"""Probability of a cell in which differences have no digits left."""
_BESIDE = 6_000
"""Values that a sum spends on the neighbourhood of jumps."""
_JUMP = 1e-7
"""Probability above which a steep line is a jump."""


@dataclass(frozen=True, slots=True)
class Table:
    """P(X <= value) = reached; between two values by a straight line."""

    value: Array
    reached: Array

    @classmethod
    def of(cls, factor: Factor) -> Table:
        """Of a documented distribution; a jump becomes a very steep line."""
        value = np.unique(factor.quantile(LOGITS))
        around = np.unique(np.concatenate([value - _hair(value), value]))
        return cls(around, factor.distribution(around))

    @classmethod
    def constant(cls, value: float) -> Table:
        """Of a time that never varies."""
        hair = float(_hair(np.array([value]))[0])
        return cls(np.array([value - hair, value]), np.array([0.0, 1.0]))

    def scaled(self, scale: float, shift: float = 0.0) -> Table:
        """Of ``scale`` X + ``shift``."""
        return Table(scale * self.value + shift, self.reached)

    def largest(self, count: float) -> Table:
        """Of the largest of ``count`` independent ones."""
        return Table(self.value, self.reached**count)

    def slowest_and_others(self, count: int, slowest: float, others: float) -> Table:
        """Of ``slowest`` times the largest of ``count`` independent ones plus ``others`` times the mean of the rest.

        The sum of all, given that the largest lies in a cell of this table, has a mean and a variance that follow from
        E[S; max <= x] = p F^(p-1) A1 and E[S^2; max <= x] = p F^(p-1) A2 + p (p-1) F^(p-2) A1^2, where Ak is the
        integral of x^k up to x; it is taken as normal.
        """
        from scipy.special import ndtr

        middle = self.mean
        edges, reached, first, second = self._below(middle)
        power = reached ** (count - 2)
        mass = np.diff(power * reached**2)
        kept = mass > _NEGLIGIBLE
        mean = (np.diff(count * power * reached * first))[kept] / mass[kept]
        square = np.diff(count * power * (reached * second + (count - 1) * first**2))[kept] / mass[kept]
        each = others / (count - 1)
        centre = ((edges[1:] + edges[:-1]) / 2)[kept] - middle
        total = (slowest - each) * centre + each * mean + (slowest + others) * middle
        spread = each * np.sqrt(np.maximum(square - mean**2, 0.0)) + 1e-6 * (slowest + others) * (1 + middle)
        values = np.unique(np.concatenate([total - 8 * spread, total, total + 8 * spread, *_between(total, spread)]))
        made = np.zeros_like(values)
        for at, width, weight in zip(total, spread, mass[kept] / mass[kept].sum(), strict=True):
            made += weight * ndtr((values - at) / width)
        return Table(values, np.minimum(made, 1.0))

    def smallest(self, count: float) -> Table:
        """Of the smallest of ``count`` independent ones."""
        return Table(self.value, 1 - (1 - self.reached) ** count)

    def plus(self, other: Table) -> Table:
        """Of the sum of two independent times."""
        nodes, weights = other.nodes()
        both = self.quantile(LOGITS) + other.quantile(LOGITS)
        around = [*self._beside(other.quantile), *other._beside(self.quantile)]
        jumps = np.add.outer(self._jumps().ravel(), other._jumps()[1]).ravel()
        values = np.unique(np.concatenate([both, jumps, *around]))
        reached = np.zeros_like(values)
        for node, weight in zip(nodes, weights, strict=True):
            reached += weight * np.interp(values - node, self.value, self.reached, left=0.0, right=1.0)
        return Table(values, np.minimum(reached, 1.0))

    def quantile(self, logit: Array) -> Array:
        """Value at the logit of a probability."""
        from scipy.special import expit

        rising = np.concatenate([[True], np.diff(self.reached) > 0])
        value: Array = np.interp(expit(logit), self.reached[rising], self.value[rising])
        return value

    def nodes(self) -> tuple[Array, Array]:
        """Values with weights that stand for the distribution: each jump, and the middle of each cell between quantiles."""
        jumps, quantiles = self._jumps(), self.quantile(NODES)
        inside = np.searchsorted(jumps[1], quantiles) < np.searchsorted(jumps[0], quantiles, side="right")
        edges = np.unique(np.concatenate([self.value[:1], quantiles[~inside], jumps.ravel(), self.value[-1:]]))
        mass = np.diff(np.interp(edges, self.value, self.reached))
        kept = mass > 0
        return self._means(edges, mass, kept, jumps[1]), mass[kept] / mass.sum()

    def kth(self, waited: float, dropped: float) -> float:
        """Expected ``waited``-th smallest of ``waited + dropped`` independent ones."""
        return self._moments(waited, dropped)[0]

    def deviation(self, waited: float = 1, dropped: float = 0) -> float:
        """Standard deviation of the ``waited``-th smallest."""
        mean, square, _ = self._moments(waited, dropped)
        return float(np.sqrt(max(square - mean**2, 0.0)))

    @property
    def mean(self) -> float:
        """Expectation."""
        return self.kth(1, 0)

    def third(self) -> float:
        """Third central moment."""
        mean, square, cube = self._moments(1, 0)
        return cube - 3 * mean * square + 2 * mean**3

    def _moments(self, waited: float, dropped: float) -> tuple[float, float, float]:
        from scipy.special import betainc

        late = 1 - betainc(float(waited), float(dropped) + 1, self.reached)
        step, low = np.diff(self.value), float(self.value[0])

        def moment(power: int) -> float:
            slope = late * power * self.value ** (power - 1)
            return low**power + float(np.sum((slope[1:] + slope[:-1]) / 2 * step))

        return moment(1), moment(2), moment(3)

    def _below(self, middle: float) -> tuple[Array, Array, Array, Array]:
        """Edges of cells with the probability below each, and the integrals of x - middle and of its square up to there."""
        jumps, quantiles = self._jumps(), self.quantile(NODES)
        edges = np.unique(np.concatenate([self.value[:1], quantiles, jumps.ravel(), self.value[-1:]]))
        x, reached = self.value - middle, self.reached

        def rising(height: Array) -> Array:
            area = np.cumsum((height[1:] + height[:-1]) / 2 * np.diff(x))
            integral: Array = np.interp(edges, self.value, np.concatenate([[0.0], area]))
            return integral

        at, low = np.interp(edges, self.value, reached), edges - middle
        first = low * at - rising(reached)
        return edges, at, first, low**2 * at - 2 * rising(x * reached)

    def _means(self, edges: Array, mass: Array, kept: Array, jumps: Array) -> Array:
        """Mean value within each cell; of a jump, where it ends."""
        area = np.concatenate([[0.0], np.cumsum((self.reached[1:] + self.reached[:-1]) / 2 * np.diff(self.value))])
        part = np.diff(edges * np.interp(edges, self.value, self.reached)) - np.diff(np.interp(edges, self.value, area))
        mean = np.clip(part[kept] / mass[kept], edges[:-1][kept], edges[1:][kept])
        at: Array = np.where(np.isin(edges[1:][kept], jumps), edges[1:][kept], mean)
        return at

    def _beside(self, quantile: Callable[[Array], Array]) -> list[Array]:
        """Where the sum of a jump and another time lies."""
        ends = self._jumps()[1]
        fine = quantile(np.linspace(LOGITS[0], LOGITS[-1], max(_BESIDE // max(len(ends), 1), 9)))
        return [end + fine for end in ends]

    def _jumps(self) -> Array:
        """Both ends of each jump: just below, and at it."""
        steep = (np.diff(self.value) <= 4 * _hair(self.value[1:])) & (np.diff(self.reached) > _JUMP)
        before, after = np.append(False, steep[:-1]), np.append(steep[1:], False)
        return np.stack([self.value[:-1][steep & ~before], self.value[1:][steep & ~after]])


def _between(total: Array, spread: Array) -> list[Array]:
    """Values around each part of a mixture of normal distributions, closer where there are few."""
    steps = np.linspace(-6.0, 6.0, 25 if len(total) > 64 else 121)
    return [total[:: max(len(total) // 100, 1)] + step * spread[:: max(len(total) // 100, 1)] for step in steps]


def _hair(value: Array) -> Array:
    """So little below a value that only the distribution of a jump notices."""
    return 1e-9 * (1 + np.abs(value))
