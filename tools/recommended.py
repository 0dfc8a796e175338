"""Layouts that vendors recommend beside those of the planner: where each comes in the search, what it loses, and by what.

    python tools/recommended.py [--top N] [--jobs] [STUDY...]

A job is one model, machine, number of devices, batch, sequence, precision and software of which a study has one layout. The
planner searches the same job, with that software, within 85 % of the memory of a device, or within what the recommended layout takes
by prediction, should that be more: it ran.

* place: of the recommended layout among all candidates that fit, by predicted time; *of layouts*: among those that differ in tp, cp, pp, ep
  or etp, each by its fastest candidate
* loses: predicted time of the recommended layout / that of the planner's first - 1
* error: of the model on the recommended layout as its vendor measured it; where the model has it too slow by what it loses, the
  planner's first may be no better
* why: the losses (`perfmodel predict --why`) by which the two differ most, in shares of the recommended layout's step: with a minus,
  what the planner's first saves
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from regret import OVERRIDDEN, configurations_by_job, lines  # noqa: E402 - the checkout, not an installed package

from perfmodel.errors import InputError  # noqa: E402
from perfmodel.job import load_job  # noqa: E402
from perfmodel.library import library_name  # noqa: E402
from perfmodel.planner.axes import AXES, DEFAULT, axes_of  # noqa: E402
from perfmodel.planner.limits import Limit, capacity  # noqa: E402
from perfmodel.planner.search import LEAD_ERROR, Outcome, Question, search  # noqa: E402
from perfmodel.prediction import Prediction, predict  # noqa: E402
from perfmodel.reporting.layout_text import choices_text, layout_text  # noqa: E402
from perfmodel.validation.cases import job_of, judge  # noqa: E402
from perfmodel.validation.study import load_studies  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.job import Job
    from perfmodel.specs import Strategy
    from perfmodel.specs.measurement import Row
    from perfmodel.validation.study import Study

STUDIES = ("nemo-docs", "megatron-bridge", "dgxc-benchmarking")
"""NVIDIA's own: documentation, performance recipes, benchmarks of its cloud."""
SHARE = 0.85
"""Of a device's memory: predicted memory leaves out the reserve that recommended layouts keep."""
KEPT = 5_000
"""Best candidates that are looked at for the place."""
ROUNDING = 1 + 1e-9
"""By which the search and a prediction may differ in a sum."""
NAMED = 0.01
"""Share of a step above which the difference of a loss is named."""
MOST_NAMED = 4


@dataclass(frozen=True)
class Recommended:
    """One job with the layout that its vendor recommends, and the planner's."""

    study: str
    id: str
    job: Job
    """As recommended."""
    outcome: Outcome
    """Of the search."""
    error: float
    """Predicted / measured time of the recommended layout - 1, the mean of its runs; not a number where none of them counts."""

    @cached_property
    def theirs(self) -> Prediction:
        """The recommended layout."""
        return predict(self.job.workload, self.job.hardware, self.job.strategy)

    @cached_property
    def ours(self) -> Prediction:
        """The planner's first."""
        return predict(self.job.workload, self.job.hardware, self.outcome.best[0].strategy)

    @property
    def is_first(self) -> bool:
        """Whether nothing that fits beats it."""
        return self.theirs.fits and not self.faster

    @property
    def loss(self) -> float:
        """What the recommended layout loses by prediction."""
        return max(0.0, self.theirs.step_time / self.ours.step_time - 1)

    @property
    def faster(self) -> list[Strategy]:
        """Candidates that fit and beat it by prediction, best first."""
        return [row.strategy for row in self.outcome.best if row.rank * ROUNDING < self.theirs.step_time]

    @property
    def place(self) -> int:
        """Among all candidates."""
        return 1 + len(self.faster)

    @property
    def layouts(self) -> list[Strategy]:
        """Of those that beat it the fastest of each layout, without its own."""
        first: dict[tuple[int, ...], Strategy] = {}
        for strategy in self.faster:
            first.setdefault(_degrees(strategy), strategy)
        first.pop(_degrees(self.job.strategy), None)
        return list(first.values())

    @property
    def why(self) -> str:
        """The losses by which the two differ most."""
        ours, theirs = self.ours.losses, self.theirs.losses
        names = dict.fromkeys([*theirs, *ours])
        shares = {name: (ours.get(name, 0.0) - theirs.get(name, 0.0)) / self.theirs.step_time for name in names}
        told = sorted((name for name in shares if abs(shares[name]) > NAMED), key=lambda name: -abs(shares[name]))
        return ", ".join(f"{name} {100 * shares[name]:+.0f} %" for name in told[:MOST_NAMED])


def _degrees(strategy: Strategy) -> tuple[int, ...]:
    return (strategy.tp, strategy.cp, strategy.pp, strategy.ep, strategy.etp or strategy.tp)


def recommended(study: Study) -> Iterator[Recommended]:
    """Jobs of a study of which it has one layout that can be predicted."""
    for configurations in configurations_by_job(study).values():
        rows = [rows[0] for rows in configurations]
        jobs = [job_of(row, study.folder) for row in rows]
        if len({(*_degrees(job.strategy), job.strategy.vpp, job.strategy.microbatch) for job in jobs}) > 1:
            continue
        try:
            outcome = _searched(rows[0], study.folder, jobs[0])
        except InputError as refused:
            sys.stderr.write(f"{rows[0].measurement.id}: {refused.problems[0].message}\n")
            continue
        judged = (outcome for rows in configurations for outcome in judge(rows, study.name, study.folder))
        errors = [one.error for one in judged if one.counts and one.metric != "peak_memory" and one.error is not None]
        error = float(np.mean(errors)) if errors else np.nan
        yield Recommended(study.name, rows[0].measurement.id.split("#")[0], jobs[0], outcome, error)


def _searched(row: Row, folder: Path, job: Job) -> Outcome:
    """The search of the job, with the software of the recommended layout."""
    m, made = row.measurement, predict(job.workload, job.hardware, job.strategy)
    settings = {name: value for name, value in m.settings.items() if name not in {*AXES, "devices"}}
    sets = {path: value for path, value in m.sets.items() if not path.startswith(tuple(n[:-1] for n in OVERRIDDEN))}
    open_job = load_job(
        library_name("workloads", m.workload, folder), library_name("hardware", m.hardware, folder),
        library_name("strategies", m.strategy, folder) if m.strategy else None, settings, sets,
    )  # fmt: skip
    stages = list(dict.fromkeys([*DEFAULT["stage_layers"], str(job.strategy.stage_layers)]))
    axes = axes_of(open_job.strategy, {"stage_layers": stages})
    room = max(SHARE * capacity(job.hardware).bound, made.memory_peak * ROUNDING)
    limits = (Limit("memory.peak", "<=", room, f"memory.peak<={room:g} B"),)
    question = Question(open_job.workload, open_job.hardware, open_job.strategy, int(made.devices), axes, limits)
    return search(question, "time", KEPT)


def summary(found: Sequence[Recommended]) -> str:
    """How many are where."""
    fitting = [one for one in found if one.theirs.fits]
    losses = np.array([one.loss for one in fitting])
    counts = {
        "first": sum(one.is_first for one in fitting), "among the first five candidates": sum(one.place <= 5 for one in fitting),
        "among the first five layouts": sum(len(one.layouts) < 5 for one in fitting),
        f"within the planner's error of {LEAD_ERROR:.0%}": int(np.sum(losses <= LEAD_ERROR)),
    }  # fmt: skip
    named = "; ".join(f"{count} {text}" for text, count in counts.items())
    return f"{len(found)} jobs, {len(found) - len(fitting)} whose layout does not fit by prediction; of the others {named}; median loss {100 * np.median(losses):.1f} %, worst {100 * losses.max():.0f} %"


HEADER = ("row", "place", "of layouts", "loses", "error", "job", "recommended", "first of the planner", "why")


def rows_of(found: Sequence[Recommended]) -> Iterator[tuple[str, ...]]:
    """One line for each job."""
    for one in found:
        w, h = one.job.workload, one.job.hardware
        job = f"{w.name}, {one.theirs.devices:g} x {h.name}, batch {w.training.batch:g}"
        ours = ", ".join(filter(None, (layout_text(one.ours.strategy), choices_text(one.ours.strategy))))
        places = (
            f"{one.place}" if one.place <= KEPT else f"> {KEPT}",
            str(1 + len(one.layouts)),
            f"{100 * one.loss:.0f} %",
        )
        yield (
            one.id, *(places if one.theirs.fits else ("does not fit", "", "")), f"{100 * one.error:+.0f} %" if np.isfinite(one.error) else "",
            job, layout_text(one.job.strategy), *(("the same", "") if one.is_first else (ours, one.why)),
        )  # fmt: skip


def main() -> None:
    """Print the table, and with --top the first plans of each job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=0, help="list so many of the planner's layouts of each job")
    parser.add_argument("studies", nargs="*", metavar="STUDY", default=STUDIES)
    options = parser.parse_args()
    for study in load_studies(options.studies):
        found = sorted(recommended(study), key=lambda one: one.place)
        sys.stdout.write(f"{study.name}: {summary(found)}\n\n" + "\n".join(lines(HEADER, rows_of(found))) + "\n\n")
        for one in found if options.top else ():
            best = [f"{layout_text(each)}, {choices_text(each)}" for each in one.layouts[: options.top]]
            sys.stdout.write(
                "\n".join([f"{one.id}: {layout_text(one.job.strategy)}", *(f"  {text}" for text in best)]) + "\n"
            )


if __name__ == "__main__":
    main()
