"""`perfmodel calibrate step`: constants out of measured times of whole steps."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated

import typer

from perfmodel.cli.calibrate_trace import calibrate
from perfmodel.cli.options import FormatName, OutputFile  # noqa: TC001 - likewise
from perfmodel.cli.writing import write

__all__ = ["calibrate"]


@calibrate.command()
def step(
    studies: Annotated[list[str], typer.Argument(metavar="CSV...", help="Measured steps: measurement CSVs, or names of studies.")],
    hardware: Annotated[str, typer.Option("--hardware", metavar="NAME|FILE", help="Machine that the rows ran on, as they name it.")],
    yaml: Annotated[Path | None, typer.Option("-o", "--yaml", metavar="NEW.yaml", help="Write the machine with the fitted constants.")] = None,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Fit what measured steps determine; the rest keeps its value and its status."""
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    with progress_bar("fitting") as progress:
        report = api.calibrate_step(studies, hardware, yaml=yaml, progress=progress)
    write(report, form, output)
