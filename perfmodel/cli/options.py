"""Options that several commands share."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

WorkloadName = Annotated[str, typer.Argument(metavar="WORKLOAD", help="Library name or YAML file of the model.")]
HardwareName = Annotated[str, typer.Argument(metavar="HARDWARE", help="Library name or YAML file of the machine.")]
FormatName = Annotated[
    Literal["table", "json", "csv", "markdown"], typer.Option("--format", help="How to write the result.")
]


def _writable(output: Path | None) -> Path | None:
    """Refuse a folder that is not there before the work, not after it."""
    if output is not None and not output.parent.is_dir():
        from perfmodel.errors import InputError, Place, Problem

        raise InputError([Problem(Place("--output"), str(output), f"there is no folder {output.parent}")])
    return output


OutputFile = Annotated[
    Path | None, typer.Option("--output", help="Write here instead of to standard output.", callback=_writable)
]


StragglersName = Annotated[
    str | None,
    typer.Option(
        "--stragglers", metavar="NAME", help="Library name or YAML file of delays: slow devices, messages, nodes."
    ),
]
FailuresName = Annotated[
    str | None,
    typer.Option("--failures", metavar="NAME", help="Library name or YAML file of failures and checkpoints."),
]
LengthsName = Annotated[
    str | None,
    typer.Option(
        "--lengths",
        metavar="NAME",
        help="Lengths of the sequences: library name, YAML or CSV file, or lognormal:median=500,sigma=0.8.",
    ),
]
SimulatedSteps = Annotated[
    int,
    typer.Option(
        "--simulate",
        metavar="N",
        min=0,
        max=10_000_000,
        help="Draw N steps to check --stragglers, --failures and --lengths.",
    ),
]
SeedNumber = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the random numbers of --simulate.")]


def _text(name: str, metavar: str, help_text: str) -> Any:
    return Annotated[str | None, typer.Option(name, metavar=metavar, help=help_text)]


_JOB: dict[str, Any] = {
    "strategy": _text(
        "--strategy", "NAME", "Library name or YAML file of the strategy; the options below override it."
    ),
    "devices": _text("--devices", "N", "Devices of the job; dp follows where it is not given."),
    "tp": _text("--tp", "N", "Tensor parallel degree."),
    "pp": _text("--pp", "N", "Pipeline parallel degree."),
    "vpp": _text("--vpp", "N", "Virtual pipeline stages (model chunks) on each stage."),
    "dp": _text("--dp", "N", "Data parallel replicas."),
    "cp": _text("--cp", "N", "Context parallel degree."),
    "ep": _text("--ep", "N", "Expert parallel degree."),
    "zero": _text("--zero", "0-3", "ZeRO stage: states sharded over the replicas; or three letters, as IIG."),
    "shard_group": _text("--shard-group", "N", "Replicas over which ZeRO shards."),
    "offload": _text(
        "--offload", "STATE=TIER,…", "What leaves the devices: optimizer=host,activations=host; tiers host, nvme."
    ),
    "microbatch": _text("--microbatch", "N", "Samples that a replica works on at a time."),
    "batch": _text("--batch", "N", "Global batch in samples."),
    "seq": _text("--seq", "N", "Sequence length in tokens."),
    "precision": _text("--precision", "NAME", "fp32, tf32, fp16, bf16, fp8 …"),
    "tokens": _text(
        "--tokens", "N", "Tokens of the whole training, as 400e9: says how long it takes and what it costs."
    ),
    "samples": _text("--samples", "N", "Likewise in samples."),
    "recompute": _text("--recompute", "POLICY", "none, selective or full."),
    "attention": _text("--attention", "KIND", "unfused, flash, flash-2, flash-1, flash-triton or cudnn."),
    "schedule": _text(
        "--schedule", "NAME", "1f1b, gpipe, breadth-first, zero-bubble-h1, -h2 or -v, dual-pipe, pipedream, 3f1b …"
    ),
    "sync": _text("--sync", "NAME", "all-reduce, parameter-server or peer-to-peer."),
    "servers": _text("--servers", "N", "Parameter servers; default one for each host of workers."),
    "sequence_parallel": Annotated[
        bool | None,
        typer.Option("--sequence-parallel/--no-sequence-parallel", help="Split norms and residuals over tp."),
    ],
    "sets": Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Override anything, as hardware.network.0.latency='3 us'."),
    ],
}


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What the options of a job said."""

    strategy: str | None
    sets: dict[str, Any]
    settings: dict[str, Any]


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command(…, job: JobOptions)`` the options of a job in place of its parameter ``job``."""

    @wraps(command)
    def run(**given: Any) -> None:
        job = {name: given.pop(name) for name in _JOB}
        strategy, sets = job.pop("strategy"), job.pop("sets") or []
        command(**given, job=JobOptions(strategy, assignments(sets), _values(job)))

    kept = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "job"]
    added = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=a) for n, a in _JOB.items()]
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in kept]
    run.__signature__ = inspect.Signature([*keyword, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*keyword, *added)}
    return run


def _values(texts: dict[str, Any]) -> dict[str, Any]:
    from perfmodel.yamltext import scalar

    # an empty text is a fault, not an option that was left out: think of --tp "$TP"
    return {name: scalar(text) if isinstance(text, str) and text.strip() else text for name, text in texts.items()}


def assignments(texts: list[str]) -> dict[str, Any]:
    """What --set says, by path; raises InputError for what is no assignment."""
    from perfmodel.errors import InputError, Place, Problem
    from perfmodel.yamltext import scalar

    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise InputError([Problem(Place("--set"), text, "must be path=value") for text in wrong])
    return {path.strip(): scalar(value.strip()) for path, _, value in (text.partition("=") for text in texts)}
