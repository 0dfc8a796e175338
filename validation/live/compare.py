"""Train small models on this machine and hold the prediction against the clock.

    perfmodel calibrate here --processes 2 -o here.yaml
    python validation/live/compare.py here.yaml [--seconds 3] [--most 0.5] [--csv FILE]

Needs PyTorch. With ``--most`` exits with 1 where the median error is larger: a smoke test.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import perfmodel
from perfmodel.measuring.session import ALLOCATOR

FOLDER = Path(__file__).parent
CASES = (
    ("mlp", 64), ("mlp", 256), ("mlp", 1024), ("resnet", 8), ("resnet", 16), ("gpt", 2), ("gpt", 8), ("lstm", 8), ("lstm", 32),
    ("dlrm", 512), ("dlrm", 2048),
)  # fmt: skip
"""Models and samples of one process."""
ENVIRONMENT = ALLOCATOR | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measured(model: str, batch: int, ranks: int, seconds: float) -> float:
    """Seconds of a step on the first of some processes."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {"model": model, "batch": batch, "ranks": ranks, "seconds": seconds, "store": f"{folder}/store"}
        started = [
            subprocess.Popen(  # noqa: S603 - this very interpreter, and numbers
                [sys.executable, str(FOLDER / "train.py"), json.dumps(asked | {"rank": rank})],
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True, env=os.environ | ENVIRONMENT,
            )
            for rank in range(ranks)
        ]  # fmt: skip
        told, _ = started[0].communicate()
        failed = [worker.wait() for worker in started]
    if any(failed):
        raise SystemExit(f"{model} on {ranks} processes failed")
    return float(json.loads(told)["time"])


def predicted(model: str, batch: int, ranks: int, hardware: str) -> float:
    """Seconds of a step as the model says."""
    job = {"dp": ranks, "microbatch": batch, "batch": ranks * batch}
    made = perfmodel.predict(FOLDER / "workloads" / f"{model}.yaml", hardware, strategy=FOLDER / "strategy.yaml", **job)
    return float(made.step_time)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hardware")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", nargs="+", default=sorted({model for model, _ in CASES}))
    parser.add_argument("--most", type=float)
    parser.add_argument("--csv", type=Path)
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'model':8}{'batch':>6}{'processes':>11}{'measured':>12}{'predicted':>12}{'error':>9}")
    for ranks in asked.processes:
        for model, batch in CASES:
            if model in asked.models:
                rows.append(_row(model, batch, ranks, asked.hardware, asked.seconds))
    errors = [abs(row["error"]) for row in rows]
    for ranks in asked.processes:
        some = [abs(row["error"]) for row in rows if row["processes"] == ranks]
        print(f"{ranks} processes: median absolute error {median(some):.1%} over {len(some)} cases")
    print(f"median absolute error {median(errors):.1%} over {len(errors)} cases, at most {max(errors):.0%}")
    if asked.csv:
        with asked.csv.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return int(asked.most is not None and median(errors) > asked.most)


def _row(model: str, batch: int, ranks: int, hardware: str, seconds: float) -> dict[str, Any]:
    took, says = measured(model, batch, ranks, seconds), predicted(model, batch, ranks, hardware)
    error = says / took - 1
    print(f"{model:8}{batch:6}{ranks:11}{1e3 * took:9.2f} ms{1e3 * says:9.2f} ms{error:9.1%}", flush=True)
    return {
        "model": model,
        "batch": batch,
        "processes": ranks,
        "measured": f"{took:.4g}",
        "predicted": f"{says:.4g}",
        "error": round(error, 4),
    }


if __name__ == "__main__":
    sys.exit(main())
