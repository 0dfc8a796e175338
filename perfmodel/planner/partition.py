"""Layers cut into stages that follow one another, by dynamic programming."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_ROUNDING = 1e-12
"""Relative, by which sums of the same times may differ."""


def partition(
    times: Sequence[float],
    *,
    fixed: Sequence[float],
    rates: Sequence[float] | None = None,
    fits: NDArray[np.bool_] | None = None,
) -> list[int]:
    r"""Layers of each stage, so that the longest stage is as short as it can be; of those cuts, the most even.

    .. math:: \min_{c}\ \max_s\ \left(e_s + r_s \sum_{l \in c_s} t_l\right)

    by :math:`T_s(i) = \min_{j < i} \max\left(T_{s-1}(j),\ e_s + r_s (P_i - P_j)\right)` over prefix sums P.

    Args:
        times: t, of each layer along the model.
        fixed: e, of each stage whatever its layers: embedding, head.
        rates: r, of each stage: how much longer its devices take; None for equal ones.
        fits: whether stage s has room for layers j to i - 1, by s, j and i; None is always.

    Every stage has a layer at least. Raises ValueError where the stages have no room for the layers.

    Assumes that a stage takes the sum of its layers. The problem is that of Malleus for one pipeline (Li, Fu et al., SIGMOD
    2025, arXiv:2410.13333), with ends; the recurrence is that of the linear partition problem (derived).

    >>> partition([1.0] * 32, fixed=[0, 0, 0, 2.5])
    [8, 9, 9, 6]
    >>> partition([1.0] * 80, fixed=[0] * 7, rates=[7.22, 7.22, 1.9, 1, 1, 1, 1])
    [2, 2, 8, 17, 17, 17, 17]
    """
    layers, sums = len(times), np.concatenate([[0.0], np.cumsum(times)])
    own = np.array([1.0] * len(fixed) if rates is None else rates, dtype=float)
    held = np.arange(layers + 1)[None, :] - np.arange(layers + 1)[:, None]
    costs = np.array(fixed, dtype=float)[:, None, None] + own[:, None, None] * (sums[None, :] - sums[:, None])
    costs = np.where((held >= 1) & (True if fits is None else fits), costs, np.inf)
    longest, _ = _best(costs, np.maximum)
    if not np.isfinite(longest):
        raise ValueError(f"{len(fixed)} stages have no room for {layers} layers")
    squares = np.where(costs <= longest * (1 + _ROUNDING), costs**2, np.inf)
    return _best(squares, np.add)[1]


def _best(costs: Array, join: np.ufunc) -> tuple[float, list[int]]:
    """The least that stages from layer j to layer i can be joined to, and their layers."""
    least, came = costs[0][0], []
    for own in costs[1:]:
        joined = join(least[:, None], own)
        came.append(joined.argmin(axis=0))
        least = joined.min(axis=0)
    ends = [len(least) - 1]
    for before in reversed(came):
        ends.append(int(before[ends[-1]]))
    return float(least[-1]), [int(n) for n in np.diff([0, *reversed(ends)])]
