"""Distributions of sequence lengths: lognormal, a histogram, a file; and what padding to the longest of a batch costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.csvfile import read_csv
from perfmodel.errors import InputError, Place, Problem
from perfmodel.formulas.order_statistics import empirical_kth
from perfmodel.formulas.uneven import padding_share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.random import Generator
    from numpy.typing import NDArray

    from perfmodel.specs.lengths import AnyLengths

    Array = NDArray[np.float64]

CELLS = 2_000
"""Of a continuous distribution, of equal probability."""
SUM_ERROR = 1e-6


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths in tokens (or frames) with the share of each."""

    values: Array
    shares: Array

    @classmethod
    def lognormal(cls, median: float, sigma: float, most: float = np.inf) -> Lengths:
        """Whole numbers of at least one, cut off at ``most``.

        >>> round(Lengths.lognormal(100, 0.5).mean, 1)  # 100 exp(0.125)
        113.3
        """
        from scipy.special import ndtri

        if median <= 0 or sigma < 0:
            raise ValueError(f"a median of {median:g} with sigma {sigma:g} is no distribution of lengths")
        middle = (np.arange(CELLS) + 0.5) / CELLS
        values = np.clip(np.round(median * np.exp(sigma * ndtri(middle))), 1, most)
        return cls.of(values)

    @classmethod
    def given(cls, distribution: AnyLengths, most: float) -> Lengths:
        """What a file says, cut off at ``most`` where it says nothing else."""
        if distribution.kind == "histogram":
            return cls.histogram(distribution.lengths, distribution.shares)
        return cls.lognormal(float(distribution.median), float(distribution.sigma), float(distribution.most or most))

    @classmethod
    def histogram(cls, values: Sequence[float], shares: Sequence[float]) -> Lengths:
        """Raises ValueError where shares do not add up to one or lengths are below one.

        >>> Lengths.histogram([10, 30], [0.75, 0.25]).mean
        15.0
        """
        lengths, weights = np.asarray(values, dtype=float), np.asarray(shares, dtype=float)
        if lengths.shape != weights.shape or not lengths.size:
            raise ValueError(f"{weights.size} shares for {lengths.size} lengths")
        if np.any(lengths < 1) or np.any(weights < 0):
            raise ValueError("lengths must be at least 1 and shares at least 0")
        if abs(weights.sum() - 1) > SUM_ERROR:
            raise ValueError(f"shares add up to {weights.sum():.6g}, not to 1; divide each by {weights.sum():.6g}")
        order = np.argsort(lengths)
        return cls(lengths[order], weights[order])

    @classmethod
    def of(cls, lengths: Sequence[float] | Array) -> Lengths:
        """Of a list of measured lengths."""
        values, counts = np.unique(np.asarray(lengths, dtype=float), return_counts=True)
        return cls.histogram(values.tolist(), (counts / counts.sum()).tolist())

    @classmethod
    def read(cls, path: Path) -> Lengths:
        """A CSV with a column ``length`` and, if it likes, ``count``.

        Raises InputError with every fault by line.
        """
        sheet = read_csv(path, str(path))
        if "length" not in sheet.header:
            raise InputError([Problem(Place(str(path), 1, 1), "length", "this column is required")])
        problems = list(sheet.problems)
        values: list[float] = []
        counts: list[float] = []
        for place, cells in sheet.rows:
            for name, kept in (("length", values), ("count", counts)):
                text = cells.get(name, "") or ("1" if name == "count" else "")
                number = int(text) if text.isdecimal() else 0
                if number < 1:
                    problems.append(Problem(place, name, f"must be a whole number above 0, not {text!r}"))
                kept.append(float(number))
        if problems or not values:
            raise InputError(problems or [Problem(Place(str(path)), "", "holds a header, but no rows")])
        weights = np.asarray(counts)
        return cls.histogram(values, (weights / weights.sum()).tolist())

    @property
    def mean(self) -> float:
        """Expected length."""
        return float(self.values @ self.shares)

    def longest(self, batch: int) -> float:
        """Expected longest of a batch, to which all others are padded."""
        return float(empirical_kth(waited=batch, dropped=0, times=self.values, weights=self.shares))

    def padding(self, batch: int) -> float:
        """Share of padding where each batch is padded to its longest.

        >>> round(Lengths.histogram([10, 30], [0.5, 0.5]).padding(1), 6), round(Lengths.histogram([10, 30], [0.5, 0.5]).padding(2), 6)
        (0.0, 0.2)
        """
        return float(padding_share(tokens=self.mean, blocks=1, capacity=self.longest(batch)))

    def padding_to(self, capacity: float) -> float:
        """Share of padding where each sequence is padded to a fixed length."""
        if capacity < self.values[-1]:
            raise ValueError(f"{capacity:g} is below the longest sequence, {self.values[-1]:g}")
        return float(padding_share(tokens=self.mean, blocks=1, capacity=capacity))

    def draw(self, count: int, seed: int | Generator) -> Array:
        """So many lengths at random."""
        return np.random.default_rng(seed).choice(self.values, size=count, p=self.shares / self.shares.sum())

    def longest_of(self, batch: int) -> Lengths:
        """The distribution of the longest of a batch.

        >>> Lengths.histogram([10, 30], [0.5, 0.5]).longest_of(2).shares.tolist()
        [0.25, 0.75]
        """
        below = np.minimum(np.cumsum(self.shares) / self.shares.sum(), 1.0)
        return Lengths(self.values, np.diff(below**batch, prepend=0.0))
