"""Errors of many outcomes in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.validation.cases import Outcome

LEAST_GROUP = 3
"""Configurations that a ranking needs."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of the counted outcomes of one study."""

    cases: int
    median: float
    p90: float
    mean: float
    bias: float
    """Median of the signed errors; negative is too fast (or too little memory)."""
    coverage: float | None
    """Share of the measured times inside the 80 % interval."""
    rank: float | None
    """Spearman correlation within groups of one workload on one machine, averaged over their members."""
    ranked: int
    """Configurations in such groups."""


def summarise(outcomes: Sequence[Outcome]) -> Summary | None:
    """Statistics of outcomes that count; None where none does."""
    counted = [o for o in outcomes if o.counts]
    if not counted:
        return None
    signed = np.array([o.error for o in counted])
    size = np.abs(signed)
    rank, ranked = _ranking(counted)
    return Summary(
        len(counted), float(np.median(size)), float(np.percentile(size, 90)), float(np.mean(size)),
        float(np.median(signed)), _coverage(counted), rank, ranked,
    )  # fmt: skip


def worst(outcomes: Sequence[Outcome], count: int) -> list[Outcome]:
    """The counted outcomes with the largest errors."""
    return sorted((o for o in outcomes if o.counts), key=lambda o: -abs(o.error or 0.0))[:count]


def _coverage(outcomes: Sequence[Outcome]) -> float | None:
    inside = [o.low <= o.measured <= o.high for o in outcomes if o.low is not None and o.high is not None]
    return float(np.mean(inside)) if inside else None


def _ranking(outcomes: Sequence[Outcome]) -> tuple[float | None, int]:
    from scipy.stats import spearmanr

    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault((o.workload, o.hardware, o.metric), []).append(o)
    total, members = 0.0, 0
    for group in groups.values():
        measured = [o.measured for o in group]
        predicted = [o.predicted or 0.0 for o in group]
        if len(group) >= LEAST_GROUP and len(set(measured)) > 1 and len(set(predicted)) > 1:
            total += float(spearmanr(measured, predicted).statistic) * len(group)
            members += len(group)
    return (total / members, members) if members else (None, 0)
