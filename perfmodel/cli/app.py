"""The commands, and what happens around them: output, exit codes, errors without tracebacks."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from perfmodel.cli.calibrate_here import calibrate
from perfmodel.cli.compare import compare
from perfmodel.cli.options import (
    FailuresName,
    FormatName,
    HardwareName,
    JobOptions,
    LengthsName,
    OutputFile,
    SeedNumber,
    SimulatedSteps,
    StragglersName,
    WorkloadName,
    with_job_options,
)
from perfmodel.cli.plan import plan
from perfmodel.cli.solve import solve
from perfmodel.cli.trace import trace
from perfmodel.cli.writing import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.prediction import Prediction
    from perfmodel.reporting.report import Report

    _Table = Callable[[Prediction], Report]

FAILED, BAD_INPUT, INTERNAL, INTERRUPTED = 1, 2, 70, 130
TABLES: dict[str, Literal["ops", "collectives"]] = {"ops": "ops", "collectives": "collectives"}
"""Words after `validate` that mean a kind of table, not a study."""
SYSTEMS = "systems"
"""Likewise, of the published systems."""

app = typer.Typer(
    no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None,
    help="Predict how fast a distributed deep-learning job runs, and what memory, money and energy it takes.",
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        from perfmodel import __version__

        sys.stdout.write(f"perfmodel {__version__}\n")
        raise typer.Exit


@app.callback()
def _common(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback where something breaks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options of all commands; ``main`` reads --debug itself, before anything can break."""


@app.command()
@with_job_options
def predict(
    workload: WorkloadName, hardware: HardwareName, job: JobOptions,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw the kernels under the roofline.")] = None,
    plot_pipeline: Annotated[Path | None, typer.Option("--plot-pipeline", metavar="PNG", help="Draw the passes of each stage over time.")] = None,
    timeline: Annotated[Path | None, typer.Option("--timeline", metavar="JSON", help="Write the step as a trace for Perfetto or Chrome.")] = None,
    *,
    ops: Annotated[bool, typer.Option("--ops", help="List the kernels by time, with their place under the roofline.")] = False,
    bubbles: Annotated[bool, typer.Option("--bubbles", help="List when each pipeline stage is idle, and its free memory.")] = False,
    losses: Annotated[bool, typer.Option("--losses", help="Say why it is not faster: losses that add up to the step.")] = False,
    stragglers: StragglersName = None, failures: FailuresName = None, lengths: LengthsName = None,
    simulate: SimulatedSteps = 0, seed: SeedNumber = 0,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Predict one training step: time, throughput, MFU, memory per stage, bounds, breakdown.

    Exits with 1 where the job does not fit in memory.
    """
    from perfmodel import api

    chosen = {"--ops": (ops, api.operators), "--losses": (losses, api.losses), "--bubbles": (bubbles, api.bubbles)}
    tables = _one_of({option: table for option, (wanted, table) in chosen.items() if wanted}, api.report)
    prediction = api.predict(
        workload, hardware, strategy=job.strategy, sets=job.sets, stragglers=stragglers, failures=failures,
        lengths=lengths, simulate=simulate, seed=seed, **job.settings,
    )  # fmt: skip
    if plot is not None:
        api.plot_roofline(prediction, plot)
    if plot_pipeline is not None:
        api.plot_pipeline(prediction, plot_pipeline)
    if timeline is not None:
        api.write_timeline(prediction, timeline)
    write(tables(prediction), form, output)
    if not prediction.fits:
        raise typer.Exit(FAILED)


def _one_of(chosen: dict[str, _Table], default: _Table) -> _Table:
    """What the one given option stands for; raises InputError where several contradict one another."""
    if len(chosen) > 1:
        from perfmodel.errors import InputError, Place, Problem

        *others, last = chosen
        raise InputError([Problem(Place(last), "", f"stands beside {' and '.join(others)}; give one of them")])
    return next(iter(chosen.values()), default)


@app.command()
@with_job_options
def explain(
    workload: WorkloadName, hardware: HardwareName, job: JobOptions,
    term: Annotated[str | None, typer.Argument(metavar="TERM", help="Only terms whose name contains this.")] = None,
    stragglers: StragglersName = None, lengths: LengthsName = None,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Trace each term of a prediction to its equation, its inputs with file and line, and its reference."""
    from perfmodel import api

    prediction = api.predict(
        workload, hardware, strategy=job.strategy, sets=job.sets, stragglers=stragglers, lengths=lengths, **job.settings
    )
    write(api.explain(prediction, term), form, output)


app.command()(compare)
app.command()(plan)
app.command()(solve)


@app.command("list")
def list_items(
    kind: Annotated[Literal["hardware", "workloads", "strategies", "variations"] | None, typer.Argument(metavar="KIND")] = None,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """List what the library holds: hardware, workloads, strategies, variations."""
    from perfmodel import api

    write(api.list_items(kind), form, output)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Library name or YAML file.")],
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Show one item with every value, its line, its status and its source."""
    from perfmodel import api

    write(api.show(name), form, output)


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML files or library names.")],
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Lint YAML files: every fault with file, line, column and remedy."""
    from perfmodel import api

    write(api.check(files), form, output)


@app.command()
def validate(
    studies: Annotated[list[str] | None, typer.Argument(metavar="[STUDY|CSV]...", help="Default: all studies.")] = None,
    worst: Annotated[int, typer.Option("--worst", metavar="K", min=0, help="Cases to list by name.")] = 10,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw measured against predicted.")] = None,
    hardware: Annotated[str | None, typer.Option("--hardware", help="Machine of an ops or collectives table.")] = None,
    *,
    update_budgets: Annotated[bool, typer.Option("--update-budgets", help="Lower the budgets to what was reached.")] = False,
    form: FormatName = "table", output: OutputFile = None,
) -> None:  # fmt: skip
    """Predict measured cases, compare, and hold the errors of each study to its budget.

    `validate ops FILE...` and `validate collectives FILE...` compare tables of kernels and of collectives;
    `validate systems [NAME...]` checks published systems against their figures and limits.
    Exits with 1 where a budget is exceeded.
    """
    from perfmodel import api
    from perfmodel.cli.progress import progress_bar

    kind, *files = studies or [""]
    table = TABLES.get(kind)
    if table:
        write(api.validate_tables(table, files, hardware=hardware), form, output)
        return
    if hardware is not None:
        from perfmodel.errors import InputError, Place, Problem

        message = "is for tables of ops and collectives; each row of a measurement CSV names its own"
        raise InputError([Problem(Place("--hardware"), "", message)])
    with progress_bar("validating") as progress:
        if kind == SYSTEMS:
            result = api.validate_systems(files, progress=progress)
        else:
            result = api.validate(
                studies or (), progress=progress, update_budgets=update_budgets, plot=plot, worst=worst
            )
    write(result.report, form, output)
    if not result.passed:
        raise typer.Exit(FAILED)


app.command()(trace)
app.add_typer(calibrate, name="calibrate")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. Faults go to standard error, one line each."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    rest = [word for word in given if word != "--debug"]
    from perfmodel.errors import PerfModelError, StoppedError

    try:
        code = app(rest, prog_name="perfmodel", standalone_mode=False)
        return _interrupted() if code == INTERRUPTED else code if isinstance(code, int) else 0
    except StoppedError as error:
        return _interrupted(f"; {error}")
    except PerfModelError as error:
        if debug:
            raise
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    except BrokenPipeError:
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except Exception as error:
        if hasattr(error, "format_message"):
            return _usage(error)
        if debug:
            raise
        return _broken(error)


def _interrupted(said: str = "") -> int:
    """Typer takes most interruptions itself, and leaves a code alone; ``said`` is how a search goes on."""
    sys.stderr.write(f"perfmodel: interrupted{said}\n")
    return INTERRUPTED


def _broken(error: Exception) -> int:
    """A file that cannot be opened, or written to the end, is the user's to mend; all else is ours."""
    if isinstance(error, OSError) and error.filename is not None:
        sys.stderr.write(f"{error.filename}: cannot be used: {error.strerror}\n")
        return BAD_INPUT
    sys.stderr.write(f"perfmodel: internal error: {error!r}; --debug shows where\n")
    return INTERNAL


def _usage(error: Exception) -> int:
    message = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if type(error).__name__ != "NoArgsIsHelpError":
        message = f"perfmodel: {message.replace('Value error, ', '').rstrip('.')}"
        message += f"; see {context.command_path} --help" if context else ""
    sys.stderr.write(f"{message}\n")
    return BAD_INPUT
