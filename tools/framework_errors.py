"""Write into each strategy of the library how far the jobs that its framework ran lie from their predictions.

    python tools/framework_errors.py

Predicts the calibration rows of all studies. Sets `points`, `error` (median) and `error_80` (of the logarithms, 80th
percentile) in every strategy whose `framework`, by name, ran some, takes them out of the others, and prints what the constants
of `perfmodel.cost.interval` have to be: ALL_SOFTWARE of all rows together, NO_SOFTWARE of the same rows predicted as if no
software had been named, USUAL of the constants that they exposed, and HOST, which has the least loss of an 80 % quantile
where each framework's record is what hosts and constants leave of its errors.
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

from perfmodel.cost.interval import QUANTILE_80, constant_error
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
    constants: tuple[tuple[float, float], ...]
    """Of the other kinds of terms, the share of the step and the error of their constants."""


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
    shares = {kind: exposed / made.step_time for kind, (_, exposed) in made.kinds.items()}
    host = shares.pop("host", 0.0)
    constants = tuple((float(share), constant_error(kind, job.hardware)) for kind, share in shares.items())
    bare = _unnamed(rows[0])
    shift = 0.0 if bare is None else float(np.log(bare / made.step_time))
    name = framework.name if framework else ""
    logs = [float(np.log1p(e)) for e in found]
    return [Seen(name, e, None if bare is None else e + shift, float(host), constants) for e in logs]


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


def usual_error(rows: list[Seen]) -> float:
    """USUAL: root mean square of the errors of constants, by the exposed time that hangs on them."""
    return float(
        np.sqrt(
            np.mean(
                [np.average([e**2 for _, e in row.constants], weights=[s for s, _ in row.constants]) for row in rows]
            )
        )
    )


def of_the_host(rows: list[Seen], usual: float) -> float:
    """HOST: with records that hold 80 % of each framework's rows beside it, that whose quantile has the least loss."""
    error, share = np.abs([row.error for row in rows]), np.array([row.host for row in rows])
    excess = np.array([sum(s**2 * max(e**2 - usual**2, 0.0) for s, e in row.constants) for row in rows])
    frameworks, place = np.unique([row.framework for row in rows], return_inverse=True)

    def loss(host: float) -> float:
        beside = QUANTILE_80**2 * ((host * share) ** 2 + excess)
        kept = np.sqrt(np.maximum(error**2 - beside, 0.0))
        records = np.array([np.quantile(kept[place == at], 0.8) for at in range(len(frameworks))])
        left = error - np.sqrt(records[place] ** 2 + beside)
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
    run = [row for row in rows if row.framework]
    unnamed = [row.unnamed for row in run if row.unnamed is not None]
    usual = usual_error(run)
    print(f"ALL_SOFTWARE = {_most([row.error for row in rows]):.2f}  # {len(rows)} rows")
    print(f"NO_SOFTWARE = {_most(unnamed):.2f}  # {len(unnamed)} rows")
    print(f"USUAL = {usual:.2f}")
    print(f"HOST = {of_the_host(run, usual):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
