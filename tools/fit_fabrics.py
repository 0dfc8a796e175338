"""Fit the network tiers of hardware/*.yaml to published collectives, by the plan of fabrics.yaml.

    python tools/fit_fabrics.py [--data DATA] [--only WORD] [--write] [--table CSV]

DATA is the shared data folder (default ../shared/data). Each entry of the plan is one `perfmodel calibrate collectives`: rows of
one system and library, fitted on calibration rows, judged on test rows of 16 KiB to 4 GiB. `--write` puts the constants
into the machines that the plan names; `--table` writes the errors of every fit, by system and collective.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from perfmodel.calibration.document import HardwareFile, WrittenTier
from perfmodel.calibration.exchanges import SEED, Chosen
from perfmodel.calibration.tiers import FabricCalibration, calibrate_tiers
from perfmodel.calibration.writing import tier_statements, tiers_written
from perfmodel.library import find, folder
from perfmodel.reporting.fabric import tier_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfmodel.specs import Hardware

Entry = dict[str, Any]
HERE = Path(__file__).parent
COLUMNS = ("source", "address", "hardware", "collective", "devices", "nodes", "bytes", "time_us", "library", "split")
SURFACE = "2411.13055"
COSTS = ("setup", "ramp", "ramp_size", "handshake", "eager")
BORROWED = ("latency", "setup", "ramp", "ramp_size")
"""What kin take of a tier between hosts: their own bandwidth and efficiency stay."""

LENT = re.compile(r"constants of [\w-]+ \([^)]*\);\s*")


@dataclass(frozen=True)
class Made:
    """An entry of the plan and what came of it."""

    entry: Entry
    calibration: FabricCalibration


def plan() -> list[Entry]:
    """The entries of fabrics.yaml."""
    entries: list[Entry] = YAML(typ="safe").load(HERE / "fabrics.yaml")
    return entries


def surface(data: Path) -> Iterator[dict[str, str]]:
    """All-reduces on 4 to 512 hosts of Fernandez et al., as rows of a table of collectives."""
    with (data / "systems_a.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            label = re.search(r"(\d+)([KMG])iB", row["model"])
            if row["arxiv"] != SURFACE or row["metric"] != "allreduce_busbw" or not label:
                continue
            ranks, size = int(row["devices"]), float(label[1]) * 1024 ** (" KMG".index(label[2]))
            held = hashlib.sha256(f"{SEED}:{(float(ranks), size)}".encode()).digest()[0] % 3 == 0
            time = 2 * (ranks - 1) / ranks * size / float(row["value"]) / 1e3
            cells = (
                "",
                "",
                SURFACE,
                "all_reduce",
                ranks,
                ranks // 8,
                size,
                time,
                "",
                "test" if held else "calibration",
            )
            yield {column: str(cell) for column, cell in zip(COLUMNS, cells, strict=True)}


def selected(entry: Entry, data: Path, path: Path) -> Path:
    """A table with the rows of an entry alone: of a published table, of the surface, or of both."""
    tables = entry["table"] if isinstance(entry["table"], list) else [entry["table"]]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for table in tables:
            writer.writerows(surface(data) if table == "surface" else published(entry, table, data))
    return path


def published(entry: Entry, table: str, data: Path) -> Iterator[dict[str, str]]:
    """Rows of a published table that the entry names."""
    import gzip

    asked = {"hardware": entry.get("system", ""), "source": entry.get("source", ""), "library": entry.get("rows", "")}
    with gzip.open(data / "collectives" / f"{table}.csv.gz", "rt", newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if all(row[column].startswith(word) for column, word in asked.items()):
                yield row


def machine(entry: Entry, known: dict[str, Hardware]) -> Hardware:
    """The machine of an entry, with what earlier entries found."""
    name = entry["on"]
    hardware: Hardware = known.get(name) or find("hardware", name)
    if "set" in entry:
        hardware = find("hardware", name, {path: (value, "fabrics.yaml") for path, value in entry["set"].items()})
    first = hardware.network[0]
    if entry.get("reduces") and first.in_network is None:
        first = first.model_copy(update={"in_network": 0.5})
    first = first.model_copy(update=entry.get("known", {}))
    network = (first, *hardware.network[1:])
    if "library" in entry:
        network = tuple(tier.model_copy(update=dict.fromkeys(COSTS, 0.0) | {"direct": None}) for tier in network)
    return hardware.model_copy(update={"network": network})


def make(entry: Entry, data: Path, known: dict[str, Hardware]) -> Made:
    """Fit one entry."""
    with TemporaryDirectory() as made:
        table = selected(entry, data, Path(made) / "rows.csv")
        calibration = calibrate_tiers([table], machine(entry, known), Chosen(keep=tuple(entry.get("known", ()))))
    if "judge" not in entry and "library" not in entry:
        known[entry["on"]] = calibration.hardware
    return Made(entry, calibration)


def write(results: Iterable[Made]) -> None:
    """The constants into all machines of the plan."""
    for made in results:
        entry, sources = made.entry, "; ".join(made.calibration.sources)
        remark = entry.get("remark", "")
        written = list(tiers_written(made.calibration, entry["key"], entry.get("library", ""), remark))
        _put(entry["on"], entry, sources, written)
        for name, tiers in entry.get("kin", {}).items():
            _put(name, entry, sources, list(_borrowed(made, name, tiers)))


def _borrowed(made: Made, name: str, tiers: list[int]) -> Iterator[WrittenTier]:
    local = find("hardware", name).network
    values = {tier.index: tier.values for tier in tiers_written(made.calibration, made.entry["key"])}
    for fit in made.calibration.fits:
        if fit.index in tiers:
            local_tier = local[fit.index]
            lent = made.entry.get("lends", values[fit.index] if local_tier.is_local else BORROWED)
            taken = {k: v for k, v in values[fit.index].items() if k in lent}
            key = str(local_tier.source) if "lends" in made.entry else made.entry["key"]
            said = tier_statements(fit, key) | {"status": "assumed", "points": None, "error": None}
            own = LENT.sub("", str(local_tier.note))
            note = f"constants of {made.entry['on']} ({', '.join(taken)}); {own}"
            yield WrittenTier(fit.index, "", taken, said | {"note": note})


def _put(name: str, entry: Entry, sources: str, tiers: list[WrittenTier]) -> None:
    path = folder("hardware") / f"{name}.yaml"
    file = HardwareFile(path.read_text(encoding="utf-8"))
    file.cite(entry["key"], entry.get("cite", sources))
    for tier in tiers:
        file.write_tier(tier)
    file.forget_sources()
    path.write_text(file.text, encoding="utf-8")


def rows(results: Iterable[Made]) -> Iterator[dict[str, Any]]:
    """Every fit with its errors."""
    for made in results:
        for fit in made.calibration.fits:
            for row in tier_rows(fit):
                yield {"system": made.entry["name"], "hardware": made.entry["on"], **row}


def main() -> int:
    """Fit the plan; print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="", metavar="WORD", help="entries whose name contains this")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    known: dict[str, Hardware] = {}
    results = []
    for entry in plan():
        if options.only in entry["name"]:
            made = make(entry, options.data, known)
            results.append(made)
            for fit in made.calibration.fits:
                shown = " ".join(
                    f"{name} {n} {100 * e.median:.1f}/{100 * e.p90:.1f}" for name, (n, e) in fit.errors.items()
                )
                print(
                    entry["name"],
                    "|",
                    fit.name,
                    fit.points,
                    "|",
                    shown,
                    "|",
                    dict(fit.constants),
                    "| kept",
                    *fit.undetermined,
                    flush=True,
                )
    if options.write:
        write(made for made in results if "judge" not in made.entry)
    if options.table:
        found = list(rows(results))
        with options.table.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, found[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
