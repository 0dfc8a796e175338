"""A calibration as a new hardware file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from perfmodel.calibration.document import HardwareFile, Written, WrittenTier
from perfmodel.calibration.forms import BY_PRECISION, TIER_CONSTANTS
from perfmodel.calibration.knobs import Told
from perfmodel.calibration.tiers import KEPT
from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import path_of
from perfmodel.specs import Hardware
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfmodel.calibration.fit import Fit
    from perfmodel.calibration.ops import Calibration
    from perfmodel.calibration.steps import StepCalibration
    from perfmodel.calibration.tiers import FabricCalibration, TierFit
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Efficiency


def write_calibrated(path: Path, hardware: str | Path, calibration: Calibration) -> None:
    """Write a machine with the fitted constants; raises InputError where the file cannot be written."""
    text = path_of("hardware", hardware).read_text(encoding="utf-8")
    write_text(path, calibrated_text(text, calibration))


def write_tiers(path: Path, hardware: str | Path, calibration: FabricCalibration) -> None:
    """Write a machine with the fitted constants of its tiers; raises InputError where the file cannot be written."""
    file = HardwareFile(path_of("hardware", hardware).read_text(encoding="utf-8"))
    source = "; ".join(calibration.sources) or "collectives timed by the user"
    key = _key(source)
    file.cite(key, source)
    for written in tiers_written(calibration, key):
        file.write_tier(written)
    write_text(path, file.text)


def write_steps(path: Path, hardware: str | Path, calibration: StepCalibration) -> None:
    """Write a machine with what whole steps determine; raises InputError where the file cannot be written."""
    source = path_of("hardware", hardware)
    file, before = HardwareFile(source.read_text(encoding="utf-8")), load(source, Hardware)
    key = _key(calibration.source)
    file.cite(key, calibration.source)
    told = Told(key, calibration.points, calibration.errors["calibration"].after)
    for one in calibration.turned:
        one.knob.write(file, before, float(f"{one.after:.4g}"), told)
    write_text(path, file.text)


def tiers_written(
    calibration: FabricCalibration, key: str, library: str = "", remark: str = ""
) -> Iterator[WrittenTier]:
    """What a calibration sets in each tier; constants that it did not determine stay, those of a library are written all."""
    for fit in calibration.fits:
        if not fit.constants:
            continue
        tier = calibration.hardware.network[fit.index]
        known = {name: value for name in TIER_CONSTANTS if (value := getattr(tier, name))}
        kept = {name: value for name, value in known.items() if library or fit.undetermined.get(name) == KEPT}
        values = {name: float(value) for name, value in (kept | dict(fit.constants)).items()}
        yield WrittenTier(fit.index, library, values, tier_statements(fit, key, remark))


def tier_statements(fit: TierFit, key: str, remark: str = "") -> dict[str, Any]:
    """Where the constants of a tier come from, and what they are worth."""
    count, errors = fit.errors.get("all", (0, None))
    judged = f"p90 {errors.p90:.0%} on {count} held-out measurements of 16 KiB to 4 GiB" if errors else ""
    kept = f"not told by them: {', '.join(fit.undetermined)}" if fit.undetermined else ""
    return {
        "source": key, "status": "fitted", "points": fit.points,
        "error": round(max(errors.median, 0.001), 3) if errors else None,
        "note": "; ".join(filter(None, (remark, judged, kept))),
    }  # fmt: skip


def write_text(path: Path, text: str) -> None:
    """Write a file that the user named; raises InputError where that cannot be."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError([Problem(Place("--yaml"), str(path), f"cannot be written: {error.strerror}")]) from error


def calibrated_text(text: str, calibration: Calibration, key: str = "") -> str:
    """The YAML with the fitted constants in place of the old ones.

    Args:
        text: of the machine that was calibrated.
        calibration: what was fitted.
        key: of the source in the file's `sources`; by default the first words of the source's name.
    """
    file = HardwareFile(text)
    source = "; ".join(calibration.sources) or "timings of the user"
    key = key or _key(source)
    file.cite(key, source)
    for written in _groups(calibration, key):
        file.write(written)
    return file.text


def _key(source: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", source.partition(",")[0].lower()).strip("-")[:30]


def _groups(calibration: Calibration, key: str) -> Iterator[Written]:
    """Each fit's group; the device's own products go to the precision with the most timings."""
    taken: set[str] = set()
    launched = False
    for fit in calibration.fits:
        if not fit.constants or (fit.form.group in taken and fit.form.group not in BY_PRECISION):
            continue
        slot = slot_of(fit, calibration.device.efficiency, taken)
        taken.add(fit.form.group)
        yield Written(fit.form.group, slot, fit.constants, statements(fit, key))
        if fit.form.keeps_launch and not launched:
            launched = True
            yield Written("launch", None, {"time": fit.launch}, statements(fit, key))


def slot_of(fit: Fit, efficiency: Efficiency, taken: set[str]) -> Precision | None:
    """The precision whose group a fit writes; None is the device's own."""
    apart = fit.precision in efficiency.precisions or fit.form.group in taken
    return fit.precision if fit.form.group in BY_PRECISION and apart else None


def statements(fit: Fit, key: str) -> dict[str, Any]:
    """Where the constants come from, and what they are worth."""
    error = round(max(fit.errors.median, 0.001), 3) if fit.errors else None
    judged = f"; p90 {fit.errors.p90:.0%} on {fit.held_out} held-out timings" if fit.errors else ""
    return {
        "source": key,
        "status": "fitted",
        "points": fit.points,
        "error": error,
        "note": f"{fit.op} in {fit.precision}{judged}",
    }
