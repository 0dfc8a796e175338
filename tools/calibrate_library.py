"""Fit the kernel constants of hardware/*.yaml to published timings, by the plan of calibrations.yaml.

    python tools/calibrate_library.py [--data DATA] [--only WORD] [--write] [--table CSV]

DATA is the shared data folder (default ../shared/data). Each entry of the plan is one `perfmodel calibrate ops`: rows of one
device and source, fitted on calibration rows, judged on test rows. `--write` puts the constants into the machines
that the plan names; `--table` writes the errors of every fit, beside those of simple forms.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ruamel.yaml import YAML

from perfmodel.calibration.document import HardwareFile, Written
from perfmodel.calibration.fit import times
from perfmodel.calibration.ops import Calibration, calibrate
from perfmodel.calibration.timings import Selection, read_timings, times_of
from perfmodel.calibration.writing import statements
from perfmodel.library import find, folder
from perfmodel.reporting.calibration import fit_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfmodel.calibration.fit import Fit

HERE = Path(__file__).parent
LARGE = 2.0**37
"""FLOP from which a product is large enough to tell the sustained rate."""
BACKWARD = 0.87
"""Rate of the backward pass of fused attention over that of the forward pass, at a head dimension of 128: TransformerEngine
on A100 PCIe in the efficiency table of SimuMax."""
HEAD = 128


@dataclass(frozen=True)
class Made:
    """An entry of the plan and what came of it."""

    entry: dict[str, Any]
    calibration: Calibration
    sustained: float | None


def plan() -> list[dict[str, Any]]:
    """The entries of calibrations.yaml."""
    entries: list[dict[str, Any]] = YAML(typ="safe").load(HERE / "calibrations.yaml")
    return entries


def paths(entry: dict[str, Any], data: Path) -> list[Path]:
    """The table of an entry."""
    return [data / "kernels" / f"{entry['table']}.csv.gz"]


def selection(entry: dict[str, Any]) -> Selection:
    """The rows of an entry."""
    return Selection(*(entry.get(key, "") for key in ("device", "source", "library", "precision")))


def make(entry: dict[str, Any], data: Path, before: dict[str, Made]) -> Made:
    """Fit one entry."""
    calibration = calibrate(paths(entry, data), find("hardware", entry["on"]), selection(entry))
    wanted = entry.get("op")
    if wanted:
        calibration = replace(calibration, fits=tuple(f for f in calibration.fits if f.op == wanted))
    sustained = before[entry["sustained_of"]].sustained if "sustained_of" in entry else None
    if isinstance(entry.get("sustained"), float):  # from whole steps (tools/fit_sustained.py)
        sustained = entry["sustained"]
    elif "sustained" in entry:
        sustained = kept(calibration, replace(selection(entry), **entry["sustained"]), paths(entry, data))
    return Made(entry, calibration, sustained)


def kept(calibration: Calibration, other: Selection, tables: list[Path]) -> float:
    """Predicted over measured time of large products of another source."""
    precision = calibration.fits[0].precision  # of the same peak; the other may have constants of its own
    rows = [
        replace(t, measured=replace(t.measured, precision=precision))
        for t in read_timings(tables, other).rows
        if not t.held_out and t.measured.kernels[0].flops >= LARGE
    ]
    return min(1.0, round(float(np.median(times(rows, calibration.device) / times_of(rows))), 2))


def groups(made: Made, *, fitted: bool) -> Iterator[Written]:
    """What an entry writes into one machine."""
    for fit in made.calibration.fits:
        if not fit.constants:
            continue
        said = statements(fit, made.entry["key"])
        said["note"] = "; ".join(
            filter(None, (f"timed on {made.entry['device']}: {said['note']}", made.entry.get("remark")))
        )
        if not fitted:
            said |= {"status": "assumed", "points": None, "error": None}
        slot = made.entry.get("kernel", made.entry.get("slot"))
        group = "attention_kernels" if "kernel" in made.entry else fit.form.group
        yield Written(group, slot, values(fit, made), said)
        if fit.form.keeps_launch and "slot" not in made.entry and made.entry.get("launch", True):
            yield Written("launch", None, {"time": fit.launch}, said)


def values(fit: Fit, made: Made) -> dict[str, float]:
    """The constants, with those that follow from them."""
    found = dict(fit.constants)
    if fit.form.group == "matmul" and made.sustained is not None:
        found["sustained"] = made.sustained
    if fit.form.group == "attention":
        attention = made.calibration.device.efficiency.attention
        softmax = found.setdefault("softmax_width", attention.softmax_width) / HEAD
        found |= {"keys_half": attention.keys_half} if "keys_half" not in found else {}
        found["backward"] = round(BACKWARD * (5 + softmax) / 5 * 2 / (2 + softmax), 3)
    return found


def write(results: Iterable[Made]) -> None:
    """The constants into all machines of the plan."""
    for made in results:
        sources = "; ".join(made.calibration.sources)
        for kind in ("fitted", "kin"):
            for name in made.entry.get(kind, ()):
                path = folder("hardware") / f"{name}.yaml"
                file = HardwareFile(path.read_text(encoding="utf-8"))
                file.cite(made.entry["key"], sources)
                for written in groups(made, fitted=kind == "fitted"):
                    file.write(written)
                file.forget_sources()
                path.write_text(file.text, encoding="utf-8")


def rows(results: Iterable[Made]) -> Iterator[dict[str, Any]]:
    """Every fit with its errors."""
    for made in results:
        for fit in made.calibration.fits:
            row = fit_row(fit)
            del row["constants"], row["launch"]
            yield {"name": made.entry["name"], "device": made.calibration.device.name, **row}


def main() -> int:
    """Fit the plan; print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="", metavar="WORD", help="entries whose name contains this")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    results: dict[str, Made] = {}
    for entry in plan():
        if options.only in entry["name"] or entry["name"] in {e.get("sustained_of") for e in plan()}:
            made = results[entry["name"]] = make(entry, options.data, results)
            for fit in made.calibration.fits:
                error = f"{100 * fit.errors.median:.1f}/{100 * fit.errors.p90:.1f} %" if fit.errors else ""
                print(
                    entry["name"],
                    fit.op,
                    fit.precision,
                    fit.points,
                    error,
                    dict(fit.constants),
                    f"{fit.launch * 1e6:.1f} us",
                    made.sustained or "",
                    flush=True,
                )
    if options.write:
        write(made for made in results.values() if not made.entry.get("judge"))
    if options.table:
        found = list(rows(results.values()))
        with options.table.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, found[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
