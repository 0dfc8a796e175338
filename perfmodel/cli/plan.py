"""`plan`: every way to lay out a job, priced and ranked."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated, Any, Literal

import typer

from perfmodel.cli.options import FormatName, OutputFile, WorkloadName, assignments
from perfmodel.cli.writing import write

NOTHING = 1
"""Exit code where no plan keeps all bounds."""


def plan(
    workload: WorkloadName,
    hardware: Annotated[list[str], typer.Argument(metavar="HARDWARE...", help="Library names or YAML files of machines.")],
    devices: Annotated[str, typer.Option("--devices", metavar="N|A..B", help="Devices of the job; 8..1024 doubles, 64..256:64 goes by steps, 8,24 lists.")],
    batch: Annotated[str | None, typer.Option("--batch", metavar="N", help="Global batch in samples.")] = None,
    seq: Annotated[str | None, typer.Option("--seq", metavar="N", help="Sequence length in tokens.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", metavar="NAME", help="fp32, tf32, fp16, bf16, fp8 …")] = None,
    attention: Annotated[str | None, typer.Option("--attention", metavar="KIND", help="unfused, flash, flash-2, flash-1, flash-triton or cudnn.")] = None,
    objective: Annotated[str, typer.Option("--objective", metavar="WHAT", help="time, throughput, cost, energy or memory.")] = "time",
    constrain: Annotated[list[str] | None, typer.Option("--constrain", metavar="'FIGURE<=VALUE'", help="A bound, as 'memory.peak<=72 GiB' or 'mfu>=0.4'.")] = None,
    fix: Annotated[list[str] | None, typer.Option("--fix", metavar="AXIS=VALUE,…", help="Values that an axis keeps to, as tp=4,8 or recompute=full.")] = None,
    top: Annotated[int, typer.Option("--top", metavar="K", min=1, help="Plans to show.")] = 10,
    strategy: Annotated[str | None, typer.Option("--strategy", metavar="NAME", help="Software and habits; axes that it states are kept.")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override anything, in all plans.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw step time against memory of the plans that none beats.")] = None,
    *,
    max_batch: Annotated[bool, typer.Option("--max-batch", help="Find the largest global batch that fits without accumulation, and its best plans.")] = False,
    engine: Annotated[Literal["local", "dask"], typer.Option("--engine", help="Work in processes of this machine, or on a Dask cluster.")] = "local",
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", min=1, help="Processes; by default all cores where there are several machines or numbers of devices.")] = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", metavar="ADDRESS", help="Of a Dask cluster that is there; by default one is started here.")] = None,
    resume: Annotated[Path | None, typer.Option("--resume", metavar="FILE", help="Keep finished chunks here, and do not work on those that it has.")] = None,
    all_rows: Annotated[Path | None, typer.Option("--all-rows", metavar="FILE", help="Write every candidate with its figures: .csv or .parquet.")] = None,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Find the best way to lay out a job: every factorisation, priced by the model of `predict`.

    Lists the best plans, those that none beats in time, cost and memory, and what the best hangs on. Exits with 1 where
    nothing keeps all bounds, with the nearest plans and what they lack.
    """
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    given = {"batch": batch, "seq": seq, "precision": precision, "attention": attention}
    with progress_bar("planning") as progress:
        found = api.plan(
            workload, hardware, devices=devices, objective=objective, constrain=constrain or [], fix=_fixed(fix or []),
            top=top, strategy=strategy, sets=assignments(sets or []), plot=plot, max_batch=max_batch,
            engine=engine, workers=workers, scheduler=scheduler, resume=resume, all_rows=all_rows,
            progress=progress,
            **{name: _scalar(text) for name, text in given.items() if text is not None},
        )  # fmt: skip
    write(api.report(found), form, output)
    if not (found.plans or found.rescued):
        raise typer.Exit(NOTHING)


def _scalar(text: str) -> Any:
    from perfmodel.yamltext import scalar

    return scalar(text) if text.strip() else text


def _fixed(texts: list[str]) -> dict[str, Any]:
    """What --fix says, by axis; raises InputError for what is no assignment."""
    from perfmodel.errors import InputError, Place, Problem

    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise InputError([Problem(Place("--fix"), text, "must be axis=value, as in tp=4,8") for text in wrong])
    named = (text.partition("=") for text in texts)
    return {axis.strip(): [_scalar(value.strip()) for value in values.split(",")] for axis, _, values in named}
