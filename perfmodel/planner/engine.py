"""Where chunks are worked on: in this process, in several, or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Literal, get_args

from perfmodel.errors import InputError, Place, Problem
from perfmodel.planner.work import Chunk
from perfmodel.processes import deaf_to_interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfmodel.planner.search import Outcome

Engine = Literal["local", "dask"]
ANSWER = 5
"""Seconds that a scheduler has to answer."""
ATTEMPTS = 3
"""Of a chunk whose process dies, which may be the chunk's own fault: it may need more memory than there is."""


def require_engine(name: str, scheduler: str | None, workers: int) -> Engine:
    """An engine by its name; raises InputError where there is none, or options do not go with it."""
    if name not in get_args(Engine):
        raise InputError(
            [Problem(Place("--engine"), "", f"{name!r} is no engine; they are {', '.join(get_args(Engine))}")]
        )
    if scheduler is not None and name != "dask":
        raise InputError([Problem(Place("--scheduler"), "", "is of a Dask cluster; take --engine dask")])
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise InputError([Problem(Place("--workers"), "", f"must be a whole number above 0, not {workers!r}")])
    return name  # type: ignore[return-value]


def workers_for(questions: int) -> int:
    """Processes that are worth their start: all cores for several questions; a single one is done before they run."""
    return os.cpu_count() or 1 if questions > 1 else 1


def work(
    chunks: Mapping[int, Chunk], engine: Engine, *, workers: int, scheduler: str | None
) -> Iterator[tuple[int, Outcome]]:
    """Chunks as they are done, by their number.

    Args:
        chunks: what is to do.
        engine: local, with processes where there are several workers, or dask.
        workers: processes; of a Dask cluster that is started for this plan alone likewise.
        scheduler: address of a Dask cluster that is there; None starts one on this machine.

    A process or a Dask worker that dies takes nothing along: its chunks are worked on again.
    """
    if engine == "dask":
        return _on_dask(chunks, workers, scheduler)
    if workers == 1 or len(chunks) == 1:
        return ((number, chunk.work()) for number, chunk in chunks.items())
    return _in_processes(chunks, workers)


def _in_processes(chunks: Mapping[int, Chunk], workers: int) -> Iterator[tuple[int, Outcome]]:
    left, attempts = dict(chunks), 0
    while left:
        before = len(left)
        pool = ProcessPoolExecutor(min(workers, len(left)), multiprocessing.get_context("spawn"))
        try:
            with deaf_to_interrupts():
                running = {pool.submit(Chunk.work, chunk): number for number, chunk in left.items()}
            for done in as_completed(running):
                yield running[done], done.result()
                del left[running[done]]
        except BrokenProcessPool:
            attempts = attempts + 1 if len(left) == before else 0
            if attempts == ATTEMPTS:
                raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _on_dask(chunks: Mapping[int, Chunk], workers: int, scheduler: str | None) -> Iterator[tuple[int, Outcome]]:
    client, cluster = _client(workers, scheduler)
    try:
        from distributed import as_completed as as_done

        running = {
            client.submit(Chunk.work, chunk, key=f"perfmodel-{chunk.key}"): number for number, chunk in chunks.items()
        }
        for done in as_done(running):
            yield running[done], done.result()
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


def _client(workers: int, scheduler: str | None) -> tuple[Any, Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        message = "needs Dask; pip install 'perfmodel[dask]', or take --engine local"
        raise InputError([Problem(Place("--engine"), "dask", message)]) from None
    cluster = None
    if scheduler is None:
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    try:
        return Client(cluster or scheduler, timeout=ANSWER), cluster
    except (OSError, TimeoutError, ValueError) as error:
        message = (
            f"no scheduler answers there ({error}); give the address that dask-scheduler printed, as tcp://host:8786"
        )
        raise InputError([Problem(Place("--scheduler"), str(scheduler), message)]) from None
