"""`perfmodel calibrate`: constants out of measurements."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated

import typer

from perfmodel.cli.options import FormatName, OutputFile  # noqa: TC001 - likewise
from perfmodel.cli.writing import write

calibrate = typer.Typer(no_args_is_help=True, help="Fit the constants of a device or of a network to measurements.")


@calibrate.command()
def ops(
    files: Annotated[list[str], typer.Argument(metavar="DATA...", help="Tables of timed kernels, CSV or CSV.gz.")],
    hardware: Annotated[str | None, typer.Option("--hardware", metavar="NAME|FILE", help="Machine that has the device; default by the device's name.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="Name of the device in the tables; default all rows.")] = None,
    source: Annotated[str, typer.Option("--source", help="Take rows whose source begins so.")] = "",
    library: Annotated[str, typer.Option("--library", help="Take rows whose library contains this.")] = "",
    precision: Annotated[str, typer.Option("--precision", help="Take rows of this precision alone.")] = "",
    yaml: Annotated[Path | None, typer.Option("-o", "--yaml", metavar="NEW.yaml", help="Write the machine with the fitted constants.")] = None,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Fit products, convolutions, attention and memory-bound kernels; judge them on timings held out."""
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    chosen = {"device": device, "source": source, "library": library, "precision": precision}
    with progress_bar("fitting") as progress:
        report = api.calibrate_ops(files, hardware, yaml=yaml, progress=progress, **chosen)
    write(report, form, output)


@calibrate.command()
def collectives(
    files: Annotated[list[str], typer.Argument(metavar="DATA...", help="Tables of timed collectives (CSV or CSV.gz), or what nccl-tests printed.")],
    hardware: Annotated[str, typer.Option("--hardware", metavar="NAME|FILE", help="Machine whose network it was.")],
    system: Annotated[str, typer.Option("--system", help="Take rows of a table whose hardware begins so.")] = "",
    source: Annotated[str, typer.Option("--source", help="Take rows whose source begins so.")] = "",
    library: Annotated[str, typer.Option("--library", help="Take rows whose library begins so.")] = "",
    collective: Annotated[str, typer.Option("--collective", help="Of a log that does not say it: all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv.")] = "",
    keep: Annotated[list[str] | None, typer.Option("--keep", metavar="CONSTANT", help="Constant that keeps its value; may be given several times.")] = None,
    yaml: Annotated[Path | None, typer.Option("-o", "--yaml", metavar="NEW.yaml", help="Write the machine with the fitted constants.")] = None,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Fit latencies, efficiencies and curves of the tiers that the collectives cross; judge them on sizes held out."""
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    chosen: dict[str, str | None] = {"system": system, "source": source, "library": library, "collective": collective}
    with progress_bar("fitting") as progress:
        report = api.calibrate_collectives(files, hardware, keep=keep or (), yaml=yaml, progress=progress, **chosen)
    write(report, form, output)
