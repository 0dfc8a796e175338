"""`perfmodel calibrate jitter`: delays out of profiler traces."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated

import typer

from perfmodel.cli.calibrate_step import calibrate
from perfmodel.cli.options import FormatName, OutputFile  # noqa: TC001 - likewise
from perfmodel.cli.writing import write

__all__ = ["calibrate"]


@calibrate.command()
def jitter(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Profiler traces of the ranks of one job, as of `perfmodel trace`.")],
    yaml: Annotated[Path | None, typer.Option("-o", "--yaml", metavar="NEW.yaml", help="Write the delays as a variation, like those of the library.")] = None,
    source: Annotated[str, typer.Option("--source", help="Where the traces come from, for that file; default their names.")] = "",
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Fit a distribution to what the ranks of a job, or its steps, differ by in the time that they compute."""
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    with progress_bar("reading") as progress:
        report = api.calibrate_jitter(files, yaml=yaml, source=source, progress=progress)
    write(report, form, output)
