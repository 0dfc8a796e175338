"""The hardware YAML of a share of this machine, before its constants are fitted."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from perfmodel.measuring.cases import SMALL

if TYPE_CHECKING:
    from perfmodel.calibration.here import Link
    from perfmodel.measuring.cases import Kind
    from perfmodel.measuring.session import Found

HERE = {"source": "here", "status": "measured"}
ASSUMED = {"source": "here", "status": "assumed"}
TILES = ((8, 16), (16, 16), (32, 32), (64, 64), (128, 128))
"""Rows x columns of a product that a core works on: from what its registers hold, so that few rows are not padded to many, to what
its second cache does."""


def first_text(found: Found, name: str, peak: float, link: Link | None, slowdown: float | None) -> str:
    """Datasheet and network as measured, shares of them still assumed.

    Args:
        found: timings.
        name: of the machine.
        peak: FLOP/s.
        link: between processes, where it was measured.
        slowdown: of computing and messages that run at once, where it was measured.
    """
    machine, parts = found.machine, found.processes
    beside = f" beside {parts - 1} processes of as many" if parts > 1 else ""
    share = f"; a device is one of {parts} shares of {found.threads} cores" if parts > 1 else ""
    tree: dict[str, Any] = {
        "schema": 1,
        "name": name,
        "description": f"{machine.name}, {machine.cores} cores{share}; measured by perfmodel calibrate here",
        "sources": {"here": f"perfmodel calibrate here, {found.engine}, {found.threads} threads{beside}"},
        "device": _device(found, peak, slowdown),
    }
    if link is not None:
        tree["network"] = [_tier(found, link)]
    tree["host"] = {
        "name": machine.name,
        "devices": parts,
        "cores": machine.cores,
        "memory": _unit(machine.memory, "B"),
        **HERE,
    }
    stream = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(tree, stream)
    return f"# {load_note(found)}\n{stream.getvalue()}"


def load_note(found: Found) -> str:
    """How busy the machine was, in words."""
    cores = found.machine.cores
    told = f"load average {found.load:.2f} on {cores} cores just before measuring"
    return f"{told}: others ran beside it, so that constants may be too low" if found.is_loaded else told


def _device(found: Found, peak: float, slowdown: float | None) -> dict[str, Any]:
    machine, parts = found.machine, found.processes
    *caches, memory = _levels(found)
    named = [(level, rate) for level, rate in zip(machine.caches, caches, strict=False) if rate]
    device: dict[str, Any] = {
        "name": machine.name,
        "kind": "cpu",
        "compute": {"cores": found.threads, "peak": {"fp32": _unit(peak, "FLOP/s")}, **HERE, "note": "the best rate of all products, convolutions and attention"},
        "memory": {"capacity": _unit(machine.memory / parts, "B"), "bandwidth": _unit(memory, "B/s"), **HERE,
                   "note": "sums of arrays larger than the caches, all processes at once"},
    }  # fmt: skip
    if named:
        device["caches"] = [
            {
                "name": level.name,
                "capacity": _unit(level.capacity / parts, "B"),
                "bandwidth": _unit(rate, "B/s"),
                **HERE,
            }
            for level, rate in named
        ]
    device["efficiency"] = _efficiency(found, slowdown)
    return device


def _efficiency(found: Found, slowdown: float | None) -> dict[str, Any]:
    efficiency: dict[str, Any] = {
        "matmul": {
            "fraction": 0.9,
            "tile_balance": 7,
            "depth_half": 80,
            "tiles": [list(tile) for tile in TILES],
            **ASSUMED,
            "note": "too few products were timed to tell",
        },
        "convolution": {"fraction": 0.8, **ASSUMED, "note": "not timed, or too few; of the order of products"},
        "attention": {
            "fraction": 0.5,
            **ASSUMED,
            "note": "not timed, or too few; its softmax halves the rate of products",
        },
        "streaming": {"fraction": 0.9, **ASSUMED, "note": "too few were timed to tell"},
        "reduction": {"fraction": 0.7, **ASSUMED, "note": "too few were timed to tell"},
        "launch": {"time": "5 us", **ASSUMED, "note": "of the order of an eager call"},
    }
    rates = {name: _rate(found, name) for name in ("strided", "rows", "gather")}
    if all(rates.values()):
        paces = {name: _unit(rate, "Hz") for name, rate in rates.items()}
        efficiency["pace"] = {**paces, **HERE, "note": f"of {SMALL:,} elements"}
    if slowdown is not None:
        note = "a product and an all-reduce, alone and at once; limited to below 2, which is one after the other"
        efficiency["contention"] = {"slowdown": round(slowdown, 3), **HERE, "note": note}
    return efficiency


def _tier(found: Found, link: Link) -> dict[str, Any]:
    return {
        "name": "loopback", "topology": "switch", "devices": found.processes, "bandwidth": _unit(link.bandwidth, "B/s"),
        "latency": _unit(link.latency, "s"), "efficiency": 1.0, "source": "here", "status": "fitted", "error": round(max(link.error, 0.001), 3),
        "points": link.points, "note": "all-reduces of gloo between processes of this machine",
    }  # fmt: skip


def launch_of(found: Found) -> float:
    """Seconds of a call that computes next to nothing; 0 where it was not timed."""
    return next((time for case, time in found.times.items() if case.kind == "launch"), 0.0)


def _levels(found: Found) -> list[float]:
    """Bytes per second of each level of memory, in the order they were timed; what a call costs at least is left out."""
    launch = launch_of(found)
    return [case.sizes[0] / max(time - launch, time / 4) for case, time in found.times.items() if case.kind == "level"]


def _rate(found: Found, kind: Kind) -> float:
    """Elements per second."""
    return next((case.sizes[0] / time for case, time in found.times.items() if case.kind == kind), 0.0)


def _unit(value: float, unit: str) -> str:
    """A number with a unit as a YAML file has it.

    >>> _unit(43.21e9, "B/s"), _unit(5e-6, "s"), _unit(2.5e10, "B")
    ('43.21 GB/s', '5 us', '25 GB')
    """
    prefixes = {"s": (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))}.get(
        unit,
        tuple((f"{prefix}{unit}", 10.0**power) for prefix, power in (("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0))),
    )
    name, size = next(((name, size) for name, size in prefixes if value >= size), prefixes[-1])
    return f"{value / size:.4g} {name}"
