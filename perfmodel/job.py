"""A job: workload, hardware and strategy from names, files and overriding options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InputError, Place, Problem
from perfmodel.library import SPECS, Kind, find, is_file, names
from perfmodel.specs import Hardware, Strategy, Workload
from perfmodel.yamlfile import Document, nearest, read

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADS: dict[str, Kind] = {"workload": "workloads", "hardware": "hardware", "strategy": "strategies"}
"""First word of a path that `--set` may name, and the kind of file that it is in."""

SETTINGS = {
    "devices": "strategy.devices",
    "tp": "strategy.tp",
    "pp": "strategy.pp",
    "vpp": "strategy.vpp",
    "dp": "strategy.dp",
    "cp": "strategy.cp",
    "ep": "strategy.ep",
    "zero": "strategy.zero",
    "shard_group": "strategy.shard_group",
    "microbatch": "strategy.microbatch",
    "offload": "strategy.offload",
    "recompute": "strategy.recompute",
    "schedule": "strategy.schedule",
    "sync": "strategy.sync",
    "servers": "strategy.servers.count",
    "sequence_parallel": "strategy.sequence_parallel",
    "attention": "strategy.attention",
    "batch": "workload.training.batch",
    "seq": "workload.training.sequence",
    "precision": "workload.training.precision",
    "tokens": "workload.training.tokens",
    "samples": "workload.training.samples",
}
"""Single options, and what each overrides."""


@dataclass(frozen=True, slots=True)
class Job:
    """What `predict` needs."""

    workload: Workload
    hardware: Hardware
    strategy: Strategy


def load_job(
    workload: str | Path,
    hardware: str | Path,
    strategy: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    sets: Mapping[str, Any] | None = None,
) -> Job:
    """Read the three files with their overrides; raises InputError with the faults of all three.

    Args:
        workload: a library name or a YAML file.
        hardware: likewise.
        strategy: likewise; None is one device.
        settings: single options (keys of `SETTINGS`) with their values; None values are left alone.
        sets: {"hardware.device.memory.capacity": "40 GB", ...}, for what has no option of its own.
    """
    overrides: dict[str, dict[str, tuple[Any, str]]] = {head: {} for head in HEADS}
    problems: list[Problem] = []
    for setting, value in (settings or {}).items():
        if setting not in SETTINGS:
            raise TypeError(f"no setting {setting!r}{nearest(setting, SETTINGS)}")
        if value is not None:
            head, _, path = SETTINGS[setting].partition(".")
            overrides[head][path] = (value, f"--{setting.replace('_', '-')}")
    for full, value in (sets or {}).items():
        head, _, path = full.partition(".")
        if head not in HEADS or not path:
            message = "must begin with workload., hardware. or strategy., as in hardware.device.memory.capacity=40 GB"
            problems.append(Problem(Place("--set"), full, message))
            continue
        overrides[head][path] = (value, f"--set {full}")
    found: dict[str, Any] = {}
    names: dict[str, str | Path | None] = {"workload": workload, "hardware": hardware, "strategy": strategy}
    for head, name in names.items():
        try:
            found[head] = _find(head, name, overrides[head])
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return Job(**found)


def _find(head: str, name: str | Path | None, overrides: dict[str, tuple[Any, str]]) -> Any:
    if name is None:
        source = Document("strategy", {})
        source.override_all(overrides)
        return source.validate(Strategy)
    return find(HEADS[head], name, overrides)


def kind_of(name: str | Path) -> Kind:
    """Which kind of item a library name or file is; raises InputError where it is none."""
    for kind in SPECS:
        if str(name) in names(kind):
            return kind
    if is_file(name):
        return guess_kind(read(Path(name))) or "strategies"
    hint = nearest(str(name), [known for kind in SPECS for known in names(kind)])
    message = f"nothing of this name in the library, and no such YAML file{hint or '; `perfmodel list` shows all'}"
    raise InputError([Problem(Place(str(name)), "", message)])


def guess_kind(source: Document) -> Kind | None:
    """The kind of a file by its keys; None where they tell nothing."""
    telling: dict[str, Kind] = {
        "device": "hardware",
        "network": "hardware",
        "model": "workloads",
        "training": "workloads",
        "stragglers": "variations",
        "failures": "variations",
        "lengths": "variations",
    }
    return next((kind for key, kind in telling.items() if key in source.data), None)
