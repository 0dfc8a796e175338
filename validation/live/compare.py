"""Train small models on this machine and hold the prediction against the clock.

    perfmodel calibrate here --processes 2 -o here.yaml
    python validation/live/compare.py here.yaml [--seconds 3] [--traces FOLDER] [--most 0.5] [--csv FILE]

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
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import perfmodel
from perfmodel.measuring.machine import load
from perfmodel.measuring.session import ALLOCATOR

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Case:
    """A model and how it is trained."""

    model: str
    batch: int
    """Of each process, or of a microbatch."""
    ranks: int = 1
    microbatches: int = 0
    """Of a pipeline of two; 0 where each process has the whole model."""

    @property
    def kind(self) -> str:
        """Alone, data or pipeline parallel."""
        return "pipeline" if self.microbatches else "data" if self.ranks > 1 else "alone"

    @property
    def degrees(self) -> dict[str, int | str]:
        """As options of `predict`."""
        if self.microbatches:
            batch = self.microbatches * self.batch
            return {"pp": self.ranks, "microbatch": self.batch, "batch": batch, "schedule": "gpipe"}
        return {"dp": self.ranks, "microbatch": self.batch, "batch": self.ranks * self.batch}


SAMPLES = {"mlp": (64, 256, 1024), "resnet": (8, 16), "gpt": (2, 8), "lstm": (8, 32), "dlrm": (512, 2048)}
"""Of each model, what one process takes in a step."""
CASES = (
    *(Case(model, batch, ranks) for ranks in (1, 2) for model, batches in SAMPLES.items() for batch in batches),
    Case("gpt", 2, 2, 4), Case("gpt", 4, 2, 4), Case("gpt", 4, 2, 8),
)  # fmt: skip
ENVIRONMENT = ALLOCATOR | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measured(case: Case, seconds: float, traces: Path | None = None) -> float:
    """Seconds of a step on the first of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        asked = asdict(case) | {"seconds": seconds, "store": f"{folder}/store"}
        started = [
            subprocess.Popen(  # noqa: S603 - this very interpreter, and numbers
                [sys.executable, str(FOLDER / "train.py"), json.dumps(asked | {"rank": rank, "trace": _trace(case, rank, traces)})],
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True, env=os.environ | ENVIRONMENT,
            )
            for rank in range(case.ranks)
        ]  # fmt: skip
        told, _ = started[0].communicate()
        failed = [worker.wait() for worker in started]
    if any(failed):
        raise SystemExit(f"{case} failed")
    return float(json.loads(told)["time"])


def _trace(case: Case, rank: int, folder: Path | None) -> str:
    return f"{folder}/live-{case.model}-{case.batch}-{case.kind}-rank{rank}.json.gz" if folder else ""


def predicted(case: Case, hardware: str) -> float:
    """Seconds of a step as the model says."""
    workload, strategy = FOLDER / "workloads" / f"{case.model}.yaml", FOLDER / "strategy.yaml"
    return float(perfmodel.predict(workload, hardware, strategy=strategy, **case.degrees).step_time)  # type: ignore[arg-type]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hardware")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", nargs="+", default=list(SAMPLES))
    parser.add_argument("--traces", type=Path, help="folder for a profiler trace of each process")
    parser.add_argument("--most", type=float)
    parser.add_argument("--csv", type=Path)
    asked = parser.parse_args()
    print(f"load average {load():.2f}")
    print(f"{'model':8}{'batch':>6}{'processes':>11}{'microbatches':>14}{'measured':>12}{'predicted':>12}{'error':>9}")
    cases = [case for case in CASES if case.model in asked.models and case.ranks in asked.processes]
    rows = [_row(case, asked) for case in cases]
    for what in ("alone", "data", "pipeline"):
        some = [abs(row["error"]) for row in rows if row["parallel"] == what]
        if some:
            print(f"{what}: median absolute error {median(some):.1%} over {len(some)} cases")
    errors = [abs(row["error"]) for row in rows]
    print(
        f"median absolute error {median(errors):.1%} over {len(errors)} cases, at most {max(errors):.0%}; load average {load():.2f}"
    )
    if asked.csv:
        with asked.csv.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return int(asked.most is not None and median(errors) > asked.most)


def _row(case: Case, asked: argparse.Namespace) -> dict[str, Any]:
    took, says = measured(case, asked.seconds, asked.traces), predicted(case, asked.hardware)
    error = says / took - 1
    print(
        f"{case.model:8}{case.batch:6}{case.ranks:11}{case.microbatches:14}{1e3 * took:9.2f} ms{1e3 * says:9.2f} ms{error:9.1%}",
        flush=True,
    )
    told = {"measured": f"{took:.4g}", "predicted": f"{says:.4g}", "error": round(error, 4)}
    return asdict(case) | {"parallel": case.kind} | told


if __name__ == "__main__":
    sys.exit(main())
