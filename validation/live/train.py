"""One process that trains a model and says how long its steps take.

python validation/live/train.py '{"model": "mlp", "batch": 64, "rank": 0, "ranks": 1, "seconds": 3}'
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from models import build
from pipeline import stage_of
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP, LEAST, MOST = 2, 5, 400
LEARNING_RATE = 0.01
TRACED = 3
"""Steps in a trace."""
OF_THE_MACHINE = {"host_name", "traceName"}


def main(
    model: str,
    batch: int,
    rank: int,
    ranks: int,
    seconds: float,
    microbatches: int = 0,
    store: str = "",
    trace: str = "",
) -> None:
    """Train on one thread and print the time of a step as JSON.

    Args:
        model: of `models.build`.
        batch: samples of this process; of a microbatch in a pipeline.
        rank: of this process.
        ranks: processes.
        seconds: to train, about.
        microbatches: of a pipeline of two, which only gpt has; 0 where each process has the whole model.
        store: a file through which the processes meet.
        trace: a file for a trace of some steps, .json.gz.
    """
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if ranks > 1:
        distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    step = _piped(rank, microbatches, batch) if microbatches else _replicated(model, batch, ranks)
    for _ in range(WARM_UP):
        step()
    # one process on one thread: the time of its processor, which leaves out what others run in between
    clock = time.process_time if ranks == 1 else time.perf_counter
    first = _timed(step, clock)
    times = [first, *(_timed(step, clock) for _ in range(_calls(seconds, first, ranks) - 1))]
    if trace:
        record(step, Path(trace))
    print(
        json.dumps(
            {
                "model": model,
                "batch": batch,
                "ranks": ranks,
                "steps": len(times),
                "time": median(times),
            }
        )
    )
    if ranks > 1:
        distributed.destroy_process_group()


def _replicated(model: str, batch: int, ranks: int) -> Callable[[], None]:
    """A step of the whole model on a share of the samples."""
    net, inputs, answers = build(model, batch)
    if ranks > 1:
        net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(net(inputs), answers).backward()
        optimizer.step()

    return step


def _piped(rank: int, microbatches: int, microbatch: int) -> Callable[[], None]:
    """A step of one half of a pipeline."""
    stage = stage_of(rank, microbatches, microbatch)
    optimizer = torch.optim.SGD(stage.half.parameters(), LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad()
        stage.passes()
        optimizer.step()

    return step


def _calls(seconds: float, once: float, ranks: int) -> int:
    """Steps that fit, the same number on all ranks."""
    longest = torch.tensor([once])
    if ranks > 1:
        distributed.all_reduce(longest, distributed.ReduceOp.MAX)
    return max(LEAST, min(MOST, int(seconds / float(longest))))


def _timed(step: Any, clock: Any) -> float:
    began = clock()
    step()
    return float(clock() - began)


def record(step: Any, path: Path) -> None:
    """A profiler trace with shapes, without the names of this machine and its folders."""
    plain = path.with_suffix("")

    def save(profiler: profile) -> None:
        profiler.export_chrome_trace(str(plain))

    plan = schedule(wait=0, warmup=1, active=TRACED, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan, on_trace_ready=save) as profiler:
        for _ in range(1 + TRACED):
            step()
            profiler.step()
    told = json.loads(plain.read_text(encoding="utf-8"))
    plain.unlink()
    kept = {key: value for key, value in told.items() if key not in OF_THE_MACHINE}
    path.write_bytes(gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
