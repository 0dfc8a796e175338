"""What is read of the operating system, where it tells much and where it tells nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.measuring.machine import this_machine

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_name_memory_and_caches(tmp_path: Path) -> None:
    write(tmp_path / "proc/cpuinfo", "processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\n")
    write(tmp_path / "proc/meminfo", "MemTotal:       1000 kB\nMemFree: 3 kB\n")
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "32K"), ("1", "Instruction", "32K"), ("3", "Unified", "16M")]
    ):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{index}"
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", "0-999")):
            write(folder / name, text + "\n")
    machine = this_machine(tmp_path)
    assert (machine.name, machine.memory) == ("Some CPU @ 2 GHz", 1024000)
    assert [(cache.name, cache.capacity) for cache in machine.caches] == [("L1", 2**15), ("L3", 2**24)]


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    machine = this_machine(tmp_path)
    assert machine.name
    assert machine.cores >= 1
    assert machine.memory > 0
    assert machine.caches == ()
