"""`solve`: what a number of the machine must be for a job to reach a figure."""

from __future__ import annotations

from typing import Annotated

import typer

from perfmodel.cli.options import FormatName, HardwareName, JobOptions, OutputFile, WorkloadName, with_job_options
from perfmodel.cli.writing import write

NOTHING = 1
"""Exit code where no value suffices."""


@with_job_options
def solve(
    workload: WorkloadName, hardware: HardwareName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Number of the machine, as hardware.network.1.bandwidth.")],
    job: JobOptions,
    wanted: Annotated[list[str], typer.Option("--for", metavar="'FIGURE>=VALUE'", help="What is wanted, as 'mfu>=0.4' or 'step_time<=2 s'.")],
    *,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Find what a number of the machine must be for a job to reach a figure: a bandwidth, a latency, a peak.

    Exits with 1 where no value within four orders of magnitude does.
    """
    from perfmodel import api

    report = api.solve(
        workload, hardware, path, wanted=wanted, strategy=job.strategy, sets=job.sets, **job.settings
    )  # fmt: skip
    write(report, form, output)
    if report.record["sense"] == "none":
        raise typer.Exit(NOTHING)
