"""`perfmodel calibrate here`: constants of the machine that this runs on."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated, Literal

import typer

from perfmodel.cli.calibrate_jitter import calibrate
from perfmodel.cli.options import FormatName, OutputFile  # noqa: TC001 - likewise
from perfmodel.cli.writing import write

__all__ = ["calibrate"]


@calibrate.command()
def here(
    yaml: Annotated[Path | None, typer.Option("-o", "--yaml", metavar="NEW.yaml", help="Write this machine with what was measured.")] = None,
    processes: Annotated[int, typer.Option("--processes", metavar="N", min=1, help="That share the machine; a device is the share of one.")] = 1,
    library: Annotated[Literal["auto", "numpy", "torch"], typer.Option("--library", help="What computes; auto is PyTorch where it is installed.")] = "auto",
    budget: Annotated[float, typer.Option("--budget", metavar="SECONDS", min=0.5, max=600.0, help="About how long to measure.")] = 45.0,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Measure this CPU: products, kernels that move bytes, levels of memory, messages between its processes."""
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    with progress_bar("measuring") as progress:
        report = api.calibrate_here(yaml=yaml, processes=processes, library=library, budget=budget, progress=progress)
    if report.record["warning"]:
        typer.echo(report.record["warning"], err=True)
    write(report, form, output)
