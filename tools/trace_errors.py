"""Operators of published traces beside the model: the table of docs/traces.md, device by device.

    python tools/trace_errors.py [FOLDER]

Constants of each device come from tables of kernels and from whole steps, none from these traces. Where they are *fitted* to
the device in that precision, the errors judge the model; *assumed* ones stand for a board like it, or follow another precision.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from perfmodel.errors import InputError  # noqa: E402 - the checkout, not an installed package
from perfmodel.library import find  # noqa: E402
from perfmodel.traces.operators import traced_operators  # noqa: E402
from perfmodel.traces.reading import read_traces  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device
    from perfmodel.traces.operators import TracedOperator

FOLDER = ROOT.parent / "shared" / "data" / "traces"
CLASSES: dict[str, Literal["matmul", "convolution"]] = {"GEMM": "matmul", "convolution": "convolution"}
MACHINES = {"V100": "dgx-1-v100", "A100": "dgx-a100-80gb", "H100": "dgx-h100", "MI300X": "mi300x-node"}
"""By what the name of a trace's device contains."""
LONG = 20e-6
"""Seconds of a kernel that its launch does not rule."""


def device(chip: str) -> Device:
    """That of a machine with the chip."""
    found: Device = find("hardware", MACHINES[chip]).device
    return found


def operators(path: Path) -> Iterator[tuple[str, TracedOperator]]:
    """Each distinct operator of a trace, with its chip; none where the file is no trace or the chip is unknown."""
    try:
        traces = read_traces([path])
    except InputError:
        return
    for chip in MACHINES:
        if any(chip in trace.device for trace in traces):
            for one in traced_operators(traces, device(chip)).operators:
                yield chip, one


def by_constants(folder: Path) -> dict[tuple[str, str, Precision], list[TracedOperator]]:
    """Operators of all traces by class, chip and precision."""
    groups: defaultdict[tuple[str, str, Precision], list[TracedOperator]] = defaultdict(list)
    for path in sorted(folder.glob("*/*")):
        for chip, one in operators(path):
            if one.kind in CLASSES and one.error is not None:
                groups[one.kind, chip, one.measured.precision].append(one)
    return dict(sorted(groups.items()))


def fitted(kind: str, chip: str, precision: Precision) -> bool:
    """Whether timings of that device in that precision gave its constants."""
    efficiency = device(chip).efficiency
    own = efficiency.precisions.get(precision)
    group = getattr(own, CLASSES[kind], None) or (
        None if precision in {"fp32", "tf32"} else getattr(efficiency, CLASSES[kind])
    )
    return group is not None and group.status == "fitted"


def long(found: Iterable[TracedOperator]) -> list[TracedOperator]:
    """Those that their launch does not rule."""
    return [one for one in found if one.time >= LONG]


def figures(found: Sequence[TracedOperator]) -> str:
    """Cells of a row: number of operators, median and p90 of the absolute error, median error with its sign; in %."""
    errors = 100 * np.array([one.error for one in found])
    if not len(errors):
        return "0 | | |"
    return (
        f"{len(errors)} | {np.median(abs(errors)):.1f} | {np.quantile(abs(errors), 0.9):.1f} | {np.median(errors):+.1f}"
    )


def main(folder: Path) -> None:
    """Print the table, and a line for all fitted constants of a class."""
    print(
        "| class | device | precision | constants | operators | median | p90 | bias | from 20 us | median | p90 | bias |"
    )
    print("|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    groups = by_constants(folder)
    for key, found in groups.items():
        status = "fitted" if fitted(*key) else "assumed"
        print(f"| {' | '.join(key)} | {status} | {figures(found)} | {figures(long(found))} |")
    for kind in CLASSES:
        found = [one for key, members in groups.items() if key[0] == kind and fitted(*key) for one in members]
        print(f"| {kind} | all | | fitted | {figures(found)} | {figures(long(found))} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
