"""What was measured of this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmodel.calibration.here_yaml import load_note
from perfmodel.reporting.calibration import calibration_report
from perfmodel.reporting.report import Section
from perfmodel.reporting.text import quantity

if TYPE_CHECKING:
    from perfmodel.calibration.here import Here
    from perfmodel.reporting.report import Report


def calibration_here_report(here: Here) -> Report:
    """Levels of memory, messages, and the fits with their errors."""
    report = calibration_report(here.calibration)
    found, levels = here.found, _levels(here)
    peak = float(here.calibration.device.compute.peak["fp32"])
    record = report.record | {
        "machine": found.machine.name, "engine": found.engine, "processes": found.processes, "threads": found.threads, "peak": peak,
        "levels": levels, "link": None if here.link is None else {"latency": here.link.latency, "bandwidth": here.link.bandwidth,
                                                                  "error": here.link.error},
        "slowdown": here.slowdown, "skipped": found.skipped, "load": found.load, "warning": load_note(found) if found.is_loaded else "",
    }  # fmt: skip
    rows = [("cores of a device", str(found.threads)), ("peak, fp32", quantity(peak, "FLOP/s")),
            *((f"bandwidth of {row['level']}", quantity(row["bandwidth"], "B/s")) for row in levels)]  # fmt: skip
    if here.link is not None:
        rows += [
            ("latency of a message", quantity(here.link.latency, "s")),
            ("bandwidth of messages", quantity(here.link.bandwidth, "B/s")),
        ]
    if here.slowdown is not None:
        rows.append(("slowdown of computing beside messages", f"{here.slowdown:.2f}"))
    section = Section(f"{found.machine.name}, by {found.engine}", ("what", "value"), tuple(rows), frozenset({1}))
    late = f"{found.skipped} turns were left out, since time was over." if found.skipped else ""
    notes = (*report.notes, *filter(None, (late,)))
    return replace(report, record=record, sections=(section, *report.sections), notes=notes)


def _levels(here: Here) -> list[dict[str, Any]]:
    device = here.calibration.device
    caches = [
        {"level": cache.name, "capacity": cache.capacity, "bandwidth": cache.bandwidth} for cache in device.caches
    ]
    return [*caches, {"level": "memory", "capacity": device.memory.capacity, "bandwidth": device.memory.bandwidth}]
