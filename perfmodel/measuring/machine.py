"""What the operating system says of this machine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}
UNKNOWN = "CPU"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of cache."""

    name: str
    capacity: float
    """Bytes that all cores have together."""


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine."""

    name: str
    cores: int
    """That this process may use."""
    memory: float
    """Bytes."""
    caches: tuple[Level, ...]
    """From the innermost; empty where the system does not tell."""


def this_machine(root: Path = Path("/")) -> Machine:
    """The machine that this process runs on.

    Args:
        root: folder that holds `proc` and `sys`.

    What the system does not tell is left out: a name is then that of the architecture, and there are no caches.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(_name(root), cores, _memory(root), _caches(root, cores))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _name(root: Path) -> str:
    for line in _text(root / "proc" / "cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return " ".join(value.split())[:80]
    return platform.processor() or platform.machine() or UNKNOWN


def _memory(root: Path) -> float:
    for line in _text(root / "proc" / "meminfo").splitlines():
        key, _, value = line.partition(":")
        if key == "MemTotal" and value.split():
            return float(value.split()[0]) * 1024
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return 8.0 * 2**30


def _caches(root: Path, cores: int) -> tuple[Level, ...]:
    found: dict[int, float] = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, size = _text(folder / "level").strip(), _text(folder / "size").strip()
        if _text(folder / "type").strip() == "Instruction" or not level.isdigit() or size[-1:] not in SIZES:
            continue
        sharing = max(1, _count(_text(folder / "shared_cpu_list")))
        found[int(level)] = float(size[:-1]) * SIZES[size[-1]] * max(1, cores // sharing)
    return tuple(Level(f"L{level}", capacity) for level, capacity in sorted(found.items()))


def _count(ranges: str) -> int:
    """Processors in a list of the kernel.

    >>> _count("0-3,8")
    5
    """
    total = 0
    for part in filter(None, ranges.strip().split(",")):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def load() -> float:
    """Processes that ran or waited for a core in the last minute, on average; 0 where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
