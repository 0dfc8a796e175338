"""Constants of a tier out of timed collectives: least squares on the logarithm of predicted over measured time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.calibration.exchanges import Chosen, Exchange, predicted, read_exchanges, times_of
from perfmodel.calibration.fit import Errors
from perfmodel.calibration.forms import TIER_CONSTANTS
from perfmodel.calibration.ops import web

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from perfmodel.calibration.exchanges import Array
    from perfmodel.calibration.forms import Constant
    from perfmodel.specs import Hardware
    from perfmodel.specs.network import Tier

SOFT = 0.1
"""Errors above this share count ever less, so that a few odd measurements do not rule."""
EACH = 2
"""Measurements that one constant takes."""
LARGE = 2.0**24
"""Messages (in bytes) that tell of bandwidths."""
SLOW = 1 / 3
"""A message that reaches less than this share of the highest rate tells of latencies."""
SIZES = 6
"""Different sizes that a curve takes."""
KEPT = "kept as asked"
CURVES = {"ramp": "ramp_size", "handshake": "eager"}
"""Costs that grow with the size; none is left where the measurements show none."""
PAIRS = {"send", "all-to-all"}
JUDGED = (2.0**14, 2.0**32)
"""Sizes whose errors count."""


@dataclass(frozen=True, slots=True)
class TierFit:
    """Constants of one tier, and what they are worth."""

    index: int
    name: str
    constants: Mapping[str, float]
    """Empty where there was nothing to fit."""
    undetermined: Mapping[str, str]
    """Constants that keep their value, and why."""
    points: int
    held_out: int
    errors: Mapping[str, tuple[int, Errors]]
    """On held-out measurements of 16 KiB to 4 GiB, by collective and together ("all"), with their number."""


@dataclass(frozen=True, slots=True)
class FabricCalibration:
    """Fits of a machine's tiers, from the innermost outwards."""

    hardware: Hardware
    """With the fitted constants."""
    fits: tuple[TierFit, ...]
    sources: tuple[str, ...]
    reasons: Counter[str]
    """Why rows do not count, and how many."""


def calibrate_tiers(
    paths: Sequence[Path], hardware: Hardware, chosen: Chosen, progress: Callable[[int, int], None] | None = None
) -> FabricCalibration:
    """Fit the tiers that timed collectives cross.

    Args:
        paths: tables as CSV, plain or gzipped, and logs of nccl-tests.
        hardware: whose topology and bandwidths hold; what the data do not determine is kept.
        chosen: which rows to take.
        progress: told how many tiers are done, of how many.

    Raises InputError with every fault of the files, and where they hold nothing of the machine.
    """
    read = read_exchanges(paths, hardware, chosen)
    network, fits = hardware.network, []
    crossed = sorted({row.tier for row in read.rows})
    for done, index in enumerate(crossed):
        made = fit_tier([row for row in read.rows if row.tier == index], network, index, chosen.keep)
        network = changed(network, index, made.constants)
        fits.append(made)
        if progress:
            progress(done + 1, len(crossed))
    sources = tuple(dict.fromkeys(f"{r.source}, {web(r.address)}" for r in read.rows if r.source))
    return FabricCalibration(hardware.model_copy(update={"network": network}), tuple(fits), sources, read.reasons)


def changed(network: tuple[Tier, ...], index: int, constants: Mapping[str, float]) -> tuple[Tier, ...]:
    """The network with constants of one tier changed."""
    tiers = list(network)
    tiers[index] = tiers[index].model_copy(update=dict(constants))
    return tuple(tiers)


def fit_tier(rows: Sequence[Exchange], network: tuple[Tier, ...], index: int, keep: Sequence[str] = ()) -> TierFit:
    """Fit what the measurements of one tier determine.

    Args:
        rows: of collectives that cross this tier and none further out.
        network: whose other constants are kept.
        index: of the tier.
        keep: constants that keep their value.
    """
    train, held = ([row for row in rows if row.held_out is wanted] for wanted in (False, True))
    reasons = undetermined(train, network[index]) | dict.fromkeys(keep, KEPT)
    searched = [constant for constant in TIER_CONSTANTS.values() if constant.name not in reasons]
    most = len(train) // EACH
    reasons |= {c.name: f"too few measurements ({len(train)})" for c in searched[most:]}
    found = _search(train, network, index, searched[:most]) if searched[:most] else {}
    return TierFit(
        index, str(network[index].name), found, reasons, len(train), len(held),
        _errors(held, changed(network, index, found)),
    )  # fmt: skip


def undetermined(rows: Sequence[Exchange], tier: Tier) -> dict[str, str]:
    """Constants that these measurements say nothing of, and why."""
    rings = [row for row in rows if row.message.collective not in PAIRS]
    pairs = [row for row in rows if row.message.collective in PAIRS]
    whole, each = [float(r.message.size) for r in rings], [float(r.message.size) / _partners(r) for r in pairs]
    every = whole + [float(row.message.size) for row in pairs]
    reasons: dict[str, str] = {}
    if max(every, default=0.0) < LARGE:
        reasons["efficiency"] = "no message of 16 MiB or more"
    if not _is_slow(rows):
        reasons |= dict.fromkeys(("latency", "setup"), "no message so small that latency is most of its time")
    elif len({_steps(row) for row in rows}) < 2:
        reasons["setup"] = "all take the same number of steps, so that the latency holds it too"
    if not (_is_slow(rings) and _spans(whole)):
        reasons |= dict.fromkeys(("ramp", "ramp_size"), "too few sizes of ring collectives, from slow ones to 16 MiB")
    if not (_is_slow(pairs) and _spans([8 * size for size in each])):
        reasons |= dict.fromkeys(
            ("handshake", "eager"), "too few sizes of messages between pairs, from slow ones to 2 MiB"
        )
    if max((row.message.size for row in pairs), default=0.0) < LARGE:
        reasons["direct"] = "no large message between pairs"
    reduced = [r.message.size for r in rings if r.message.collective == "all-reduce" and r.message.group.size > 2]
    if tier.in_network is None:
        reasons["in_network"] = "the tier names no switch that reduces"
    elif max(reduced, default=0.0) < 4 * LARGE:
        reasons["in_network"] = "no all-reduce of 64 MiB or more among more than two ranks"
    if "efficiency" not in reasons and not rings and pairs:
        reasons["direct"] = "no ring collective, so that the efficiency holds it too"
    return reasons


def _partners(row: Exchange) -> float:
    return 1.0 if row.message.collective == "send" else float(row.message.group.size)


def _steps(row: Exchange) -> tuple[float, bool]:
    """Kinds of ring collectives that take the same number of steps."""
    return float(row.message.group.size), row.message.collective == "all-reduce"


def _is_slow(rows: Sequence[Exchange]) -> bool:
    rates = [float(row.message.size) / row.time for row in rows]
    return bool(rates) and min(rates) < SLOW * max(rates)


def _spans(sizes: Sequence[float]) -> bool:
    return len(set(sizes)) >= SIZES and max(sizes) >= LARGE


def _search(
    rows: Sequence[Exchange], network: tuple[Tier, ...], index: int, searched: Sequence[Constant]
) -> dict[str, float]:
    from scipy.optimize import least_squares

    measured = times_of(rows)
    names = [constant.name for constant in searched]

    def residuals(x: Array) -> Array:
        values = dict(zip(names, np.exp(x), strict=True))
        return np.asarray(np.log(predicted(rows, changed(network, index, values)) / measured))

    start, low, high = (np.log([getattr(c, name) for c in searched]) for name in ("start", "low", "high"))
    begin = [start]
    if (flat := _flat(residuals, start, names)) is not None:
        begin.append(np.where(np.arange(len(names)) == flat, high - 1e-3, start))
    tried = [least_squares(residuals, x, bounds=(low, high), loss="soft_l1", f_scale=SOFT) for x in begin]
    solved = min(tried, key=lambda result: float(result.cost))
    found = {c.name: float(f"{np.exp(value):.{c.digits}g}") for c, value in zip(searched, solved.x, strict=True)}
    for most, half in CURVES.items():
        if found.get(most, 1.0) <= 2 * TIER_CONSTANTS[most].low:
            found |= {most: 0.0, half: 0.0}
    return found


def _flat(residuals: Callable[[Array], Array], start: Array, names: Sequence[str]) -> int | None:
    """The efficiency, where it starts so low that another way through the network is always faster."""
    if "efficiency" not in names:
        return None
    index = names.index("efficiency")
    moved = start + np.where(np.arange(len(names)) == index, 1e-3, 0.0)
    return index if np.allclose(residuals(start), residuals(moved), rtol=0.0, atol=1e-6) else None


def _errors(held: Sequence[Exchange], network: tuple[Tier, ...]) -> dict[str, tuple[int, Errors]]:
    judged = [row for row in held if JUDGED[0] <= row.message.size <= JUDGED[1]]
    if not judged:
        return {}
    wrong = np.abs(predicted(judged, network) / times_of(judged) - 1)
    kinds = np.array([row.message.collective for row in judged])
    groups: dict[str, Any] = {"all": kinds != ""} | {str(kind): kinds == kind for kind in dict.fromkeys(kinds)}
    return {
        name: (int(np.sum(mask)), Errors(float(np.median(wrong[mask])), float(np.quantile(wrong[mask], 0.9))))
        for name, mask in groups.items()
    }
