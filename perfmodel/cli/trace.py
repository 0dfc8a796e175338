"""`perfmodel trace`: what a profiled run spent its time on."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated

import typer

from perfmodel.cli.options import FormatName, OutputFile  # noqa: TC001 - likewise
from perfmodel.cli.writing import write


def trace(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="PyTorch profiler (JSON, gz, tar), execution trace, Nsight Systems SQLite, xplane.pb; one file or more, for each rank.")],
    hardware: Annotated[str | None, typer.Option("--hardware", metavar="NAME|FILE", help="Hold operators with shapes against the operator model of this machine.")] = None,
    against: Annotated[str | None, typer.Option("--against", metavar="PREDICTION.json", help="Compare with what predict --format json wrote.")] = None,
    top: Annotated[int, typer.Option("--top", metavar="K", min=0, help="Kernels to list.")] = 10,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw the time of each rank, and memory.")] = None,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Read profiler traces: steps, kernels by class, exposed communication, idle time, ranks against one another.

    With --hardware, operators are predicted; with --against, a saved prediction stands beside the measured step.
    """
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    with progress_bar("reading") as progress:
        report = api.trace(files, hardware=hardware, against=against, top=top, plot=plot, progress=progress)
    write(report, form, output)
