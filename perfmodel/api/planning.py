"""Find the best layout, or what a machine must be for one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfmodel.planner.plan import Plan
    from perfmodel.reporting.report import Report


def plan(
    workload: str | Path,
    hardware: str | Path | Sequence[str | Path],
    *,
    devices: int | str | Sequence[int],
    objective: str = "time",
    constrain: Sequence[str] = (),
    fix: Mapping[str, Any] | None = None,
    top: int = 10,
    strategy: str | Path | None = None,
    sets: Mapping[str, Any] | None = None,
    max_batch: bool = False,
    engine: str = "local",
    workers: int | None = 1,
    scheduler: str | None = None,
    resume: str | Path | None = None,
    all_rows: str | Path | None = None,
    plot: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Plan:
    """Price every way to lay out a job, and find the best.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise, one machine or several.
        devices: of the job: a number, several, or a range: "8..1024" doubles, "64..256:64" goes by steps.
        objective: time, throughput, cost, energy or memory.
        constrain: bounds besides the memory of a device, as "memory.peak<=72 GiB" or "mfu>=0.4".
        fix: {axis: value or values} that the search keeps to: tp, cp, pp, dp, ep, etp, vpp, microbatch, shard_group,
            sequence_parallel, zero, recompute, schedule, order, stage_layers, offload, context; "all" is every value of one of
            the last seven.
        top: how many plans to return.
        strategy: what is no axis of the search (software, attention, overlap …); axes that it states stay as they are.
        sets: further overrides, {"hardware.network.0.latency": "3 us"}.
        max_batch: for the largest global batch that fits without accumulation: one microbatch on a replica, or in a pipeline one
            for each stage; a multiple of the devices, or where that is too much a divisor. Then time is that of a sample.
        engine: local or dask (needs the extra `dask`).
        workers: processes that share the chunks; several ask for ``if __name__ == "__main__":`` in a script. None is all cores
            where there are several questions.
        scheduler: address of a Dask cluster; by default one is started on this machine.
        resume: a file for finished chunks; those that it has are not worked on again.
        all_rows: a .csv or .parquet (extra `parquet`) for every candidate with its figures; this process then works alone.
        plot: a picture of the front to write.
        progress: told how much is done, of how much.
        settings: single overrides: batch, seq, precision, attention.

    Raises InputError with every fault of the request and of the files; that nothing fits is a result (`Plan.plans` is
    empty, and `Plan.rejected` says what the nearest lack).

    >>> import perfmodel
    >>> found = perfmodel.plan("gpt2-124m", "dgx-a100-80gb", devices=8, batch=64, fix={"zero": 0}, top=1)
    >>> found.evaluated > 100, found.plans[0].fits
    (True, True)
    """
    from collections.abc import Sequence

    from perfmodel.errors import InputError, Place, Problem
    from perfmodel.planner.allrows import require_kind
    from perfmodel.planner.engine import require_engine, workers_for
    from perfmodel.planner.largest import with_largest_batch
    from perfmodel.planner.limits import require_objective
    from perfmodel.planner.plan import Workshop
    from perfmodel.planner.plan import plan as search_all
    from perfmodel.planner.request import questions, require_count
    from perfmodel.planner.resume import require_store
    from perfmodel.reporting.plan_plot import plot_plan
    from perfmodel.reporting.plots import require_picture

    machines = [hardware] if isinstance(hardware, str) or not isinstance(hardware, Sequence) else list(hardware)
    goal, count = require_objective(objective), require_count(top)
    asked = questions(workload, machines, strategy, settings, sets, devices=devices, constrain=constrain, fix=fix or {})
    if max_batch:
        if settings.get("batch") is not None:
            raise InputError([Problem(Place("--max-batch"), "", "finds the batch itself; leave batch out")])
        asked, goal = tuple(map(with_largest_batch, asked)), "throughput" if goal == "time" else goal
    if plot is not None:
        require_picture(Path(plot))
    if all_rows is not None:
        require_kind(Path(all_rows))
    crew = workers_for(len(asked)) if workers is None else workers
    shop = Workshop(
        require_engine(engine, scheduler, crew), crew, scheduler, require_store(None if resume is None else Path(resume)),
        None if all_rows is None else Path(all_rows),
    )  # fmt: skip
    found = search_all(asked, goal, count, progress, shop)
    if plot is not None:
        plot_plan(found, Path(plot))
    return found


def solve(
    workload: str | Path,
    hardware: str | Path,
    path: str,
    *,
    wanted: Sequence[str],
    strategy: str | Path | None = None,
    sets: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Report:
    """What a number of the machine must be, so that a job reaches some figures.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise.
        path: of the number, as "hardware.network.1.bandwidth".
        wanted: bounds, as "mfu>=0.4" or "step_time<=2 s"; figures are those of `plan`.
        strategy: as of `predict`.
        sets: further overrides, {"hardware.network.0.latency": "3 us"}.
        settings: single overrides, as of `predict`.

    Raises InputError with every fault of the request and of the files; that no value suffices is a result.

    >>> import perfmodel
    >>> job = {"devices": 64, "strategy": "data-parallel", "microbatch": 8, "batch": 512}
    >>> found = perfmodel.solve("gpt2-1.5b", "dgx-a100-80gb", "hardware.network.1.bandwidth", wanted=["mfu>=0.4"], **job)
    >>> found.record["sense"]
    'at least'
    """
    from perfmodel.job import load_job
    from perfmodel.planner.inverse import solve as bisect
    from perfmodel.reporting.solve import solution_report

    return solution_report(bisect(load_job(workload, hardware, strategy, settings, sets), path, wanted))
