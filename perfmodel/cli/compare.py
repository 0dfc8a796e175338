"""`compare`: strategies over numbers of devices, or reports of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.options import FormatName, OutputFile, assignments
from perfmodel.cli.writing import write

NOTHING = 1
"""Exit code where no point can run."""


def compare(
    things: Annotated[list[str], typer.Argument(metavar="WORKLOAD HARDWARE | REPORT...", help="A workload and a machine, or JSON files that predict wrote, or one and profiler traces.")],
    strategies: Annotated[str, typer.Option("--strategies", metavar="A,B,…", help="Library names or YAML files.")] = "",
    devices: Annotated[str, typer.Option("--devices", metavar="N,N,…", help="Numbers of devices.")] = "",
    batch_per_device: Annotated[str | None, typer.Option("--batch-per-device", metavar="N", help="Samples of a device in a step: weak scaling.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", metavar="N", help="Samples of the job in a step: strong scaling.")] = None,
    microbatch: Annotated[str | None, typer.Option("--microbatch", metavar="N", help="Samples that a replica works on at a time; default all of its own.")] = None,
    seq: Annotated[str | None, typer.Option("--seq", metavar="N", help="Sequence length in tokens.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", metavar="NAME", help="fp32, tf32, fp16, bf16, fp8 …")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override anything, in all points.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw step time and throughput over devices.")] = None,
    *,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Compare strategies for one workload and machine over numbers of devices, or reports term by term.

    `compare WORKLOAD HARDWARE --strategies A,B --devices 2,4,8 --batch-per-device N` predicts every point and names the
    crossovers. `compare A.json B.json …` takes reports that `predict --format json` wrote, differences to the first; where the others are
    profiler traces, their mean step stands beside the first. Exits with 1 where no point can run.
    """
    from perfmodel import api
    from perfmodel.yamltext import scalar

    if any(thing.endswith(".json") for thing in things):
        _refuse({"--strategies": strategies, "--devices": devices, "--batch": batch, "--batch-per-device": batch_per_device,
                 "--microbatch": microbatch, "--seq": seq, "--precision": precision, "--set": sets, "--plot": plot})  # fmt: skip
        from perfmodel.traces.opening import is_trace

        traced = len(things) > 1 and all(is_trace(Path(thing)) for thing in things[1:])
        write(api.compare_trace(things[0], things[1:]) if traced else api.compare_reports(things), form, output)
        return
    workload, hardware = _two(things)

    def number(text: str | None) -> object:
        return None if text is None else scalar(text)

    report = api.compare(
        workload, hardware, strategies=_words(strategies), devices=[scalar(word) for word in _words(devices)],  # type: ignore[misc]
        batch=number(batch), batch_per_device=number(batch_per_device), sets=assignments(sets or []), plot=plot,  # type: ignore[arg-type]
        microbatch=number(microbatch), seq=number(seq), precision=number(precision),
    )  # fmt: skip
    write(report, form, output)
    if not any(point["fits"] for point in report.record["points"]):
        raise typer.Exit(NOTHING)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _refuse(options: dict[str, object]) -> None:
    """Options that reports of predictions have no use for."""
    from perfmodel.errors import InputError, Place, Problem

    given = [name for name, value in options.items() if value]
    if given:
        message = "is for comparing strategies; reports are compared as they stand"
        raise InputError([Problem(Place(name), "", message) for name in given])


def _two(things: list[str]) -> tuple[str, str]:
    if len(things) != 2:
        from perfmodel.errors import InputError, Place, Problem

        message = "needs a workload and a machine, or two or more JSON files that predict wrote"
        raise InputError([Problem(Place("compare"), "", f"{message}; not {len(things)} names")])
    return things[0], things[1]
