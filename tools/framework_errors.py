"""Write into each strategy of the library how far the jobs that its framework ran lie from their predictions.

    python tools/framework_errors.py

Predicts the calibration rows of all studies. Sets `points`, `error` (median) and `error_80` (of the logarithms, 80th
percentile) in every strategy whose `framework`, by name, ran some, takes them out of the others, and prints what the constants
of `perfmodel.cost.interval` have to be: ALL_SOFTWARE of all rows together, NO_SOFTWARE of the same rows predicted as if no
software had been named, and HOST, which has the least loss of an 80 % quantile where records are given.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perfmodel.cost.interval import QUANTILE_80
from perfmodel.errors import InputError
from perfmodel.job import load_job
from perfmodel.prediction import predict
from perfmodel.validation.cases import job_of, judge
from perfmodel.validation.study import load_studies

if TYPE_CHECKING:
    from perfmodel.specs.measurement import Row
    from perfmodel.validation.study import Study

ROOT = Path(__file__).resolve().parent.parent
RECORD = ("points", "error", "error_80")


class Seen(NamedTuple):
    """One calibration row."""

    framework: str
    error: float
    """Logarithm of the predicted over the measured time."""
    unnamed: float | None
    """The same where no software is named; None where the job cannot be laid out then."""
    host: float
    """Share of the step that devices wait for the host."""


def seen(study: Study) -> list[Seen]:
    """All calibration rows of one study that count."""
    return [row for rows in study.configurations for row in _seen(rows, study)]


def _seen(rows: tuple[Row, ...], study: Study) -> list[Seen]:
    if all(row.measurement.split != "calibration" for row in rows):
        return []
    outcomes = [o for o in judge(rows, study.name, study.folder) if o.counts and o.metric != "peak_memory"]
    found = [o.error for o in outcomes if o.split == "calibration" and o.error is not None]
    if not found:
        return []
    job = job_of(rows[0], study.folder)
    made = predict(job.workload, job.hardware, job.strategy)
    framework = job.strategy.framework
    host = made.kinds.get("host", (0.0, 0.0))[1] / made.step_time
    bare = _unnamed(rows[0])
    shift = None if bare is None else float(np.log(bare / made.step_time))
    name = framework.name if framework else ""
    return [Seen(name, float(np.log1p(e)), None if shift is None else float(np.log1p(e)) + shift, host) for e in found]


def _unnamed(row: Row) -> float | None:
    """Step time of the same job without a preset, nor what the row overrides of it."""
    m = row.measurement
    sets = {path: value for path, value in m.sets.items() if not path.startswith("strategy.")}
    try:
        job = load_job(m.workload, m.hardware, None, m.settings, sets)
        return predict(job.workload, job.hardware, job.strategy).step_time
    except InputError:
        return None


def record(found: list[float]) -> dict[str, str]:
    """The lines of one framework."""
    if not found:
        return {}
    median = np.median(np.abs(np.expm1(found)))
    return {"points": str(len(found)), "error": f"{median:.3f}", "error_80": f"{_most(found):.3f}"}


def _most(found: list[float]) -> float:
    """What 80 % stay within."""
    return float(np.quantile(np.abs(found), 0.8))


def of_the_host(rows: list[Seen], records: dict[str, list[float]]) -> float:
    """HOST, by the loss that a quantile of 80 % makes least."""
    error, share = np.abs([row.error for row in rows]), np.array([row.host for row in rows])
    known = np.array([_most(records[row.framework]) for row in rows])

    def loss(host: float) -> float:
        left = error - np.hypot(known, QUANTILE_80 * host * share)
        return float(np.mean(np.where(left > 0, 0.8 * left, -0.2 * left)))

    return float(minimize_scalar(loss, bounds=(0.0, 3.0), method="bounded").x)


def with_record(text: str, lines: dict[str, str]) -> str:
    """A strategy's text with these lines in its framework, behind its status."""
    head, block, tail = re.split(r"(^framework:\n(?:  .*\n)+)", text, maxsplit=1, flags=re.MULTILINE)
    kept = [line for line in block.splitlines() if line.split(":")[0].strip() not in RECORD]
    at = next(i for i, line in enumerate(kept) if line.startswith("  status:")) + 1
    kept[at:at] = [f"  {key}: {value}" for key, value in lines.items()]
    return head + "\n".join(kept) + "\n" + tail


def main() -> int:
    """Write all records, and print the constants."""
    with ProcessPoolExecutor() as pool:
        rows = [row for study in pool.map(seen, load_studies()) for row in study]
    records: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        records[row.framework].append(row.error)
    for path in sorted((ROOT / "strategies").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if named := re.search(r"^framework:\n  name: (.*)$", text, re.MULTILINE):
            path.write_text(with_record(text, record(records.get(named[1], []))), encoding="utf-8")
    unnamed = [row.unnamed for row in rows if row.framework and row.unnamed is not None]
    print(f"ALL_SOFTWARE = {_most([row.error for row in rows]):.2f}  # {len(rows)} rows")
    print(f"NO_SOFTWARE = {_most(unnamed):.2f}  # {len(unnamed)} rows")
    print(f"HOST = {of_the_host(rows, records):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
