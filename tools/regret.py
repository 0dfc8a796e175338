"""How good the planner's choices are: among measured configurations of one job, what its pick loses to the best measured.

    python tools/regret.py [--groups] [--most DEVICES] [--scatter SHARE ...] [STUDY...]

A group is one model, machine, number of devices, batch, sequence and software of one study, of which several layouts were
measured. The pick is the layout that the model predicts to be fastest, among those that it predicts to fit.

* regret: measured time of the pick / least measured time - 1; by chance: that of a layout picked blindly
* rank: Spearman's correlation of predicted and measured times, in groups of three or more
* ratio error: median over pairs of |log of the predicted ratio of their times - log of the measured one|, of layouts that
  are predicted within a quarter of the fastest: what `perfmodel plan` calls a tie

With --scatter the predicted times stand for the measured ones, each shape (hidden, tp, microbatch) off by one draw from a lognormal
of that standard deviation: what a model would reach that is right but for that.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from perfmodel.planner.axes import AXES  # noqa: E402 - the checkout, not an installed package
from perfmodel.prediction import predict  # noqa: E402
from perfmodel.validation.cases import job_of, judge  # noqa: E402
from perfmodel.validation.study import load_studies  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfmodel.specs.measurement import Row
    from perfmodel.validation.study import Study

PADDED = "workload.model.vocabulary="
"""Frameworks pad the vocabulary to a multiple of tp, so that it may differ in a group."""

OVERRIDDEN = tuple(f"strategy.{name}=" for name in ("etp", "order", "stage_layers"))
"""Axes of a layout that a row has no column for."""

STACK = re.compile(r"(?:HF|Megatron) \+ Deepspeed")
"""How titles of tables name software that a row's strategy does not tell apart: BigScience ran ZeRO 3 under both."""

NEAR = 1.25
"""Of the time of the layout predicted to be fastest: those among which a planner has to choose."""


@dataclass(frozen=True, slots=True)
class Run:
    """One layout, measured and predicted."""

    id: str
    measured: float
    """Seconds of a step."""
    predicted: float
    fits: bool
    """As predicted."""
    layout: tuple[object, ...] = ()
    shape: tuple[object, ...] = ()
    """What decides the kernels of a layer: hidden units, tp, microbatch."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layouts of one job."""

    study: str
    name: str
    devices: int
    runs: tuple[Run, ...]

    @property
    def pick(self) -> Run:
        """Of the layouts that are predicted to fit, or where none is, of all: the one predicted to be fastest."""
        return min(self.runs, key=lambda run: (not run.fits, run.predicted))

    @property
    def regret(self) -> float:
        """What the pick loses."""
        return self.pick.measured / min(run.measured for run in self.runs) - 1

    @property
    def chance(self) -> float:
        """What a blind pick loses on average."""
        return float(np.mean([run.measured for run in self.runs]) / min(run.measured for run in self.runs) - 1)

    @property
    def rank(self) -> float | None:
        """Correlation of ranks; None for two runs, where it is one or minus one."""
        if len(self.runs) < 3:
            return None
        from scipy.stats import spearmanr

        times = ([run.measured for run in self.runs], [run.predicted for run in self.runs])
        return None if min(len(set(each)) for each in times) == 1 else float(spearmanr(*times)[0])

    @property
    def ratio_error(self) -> float | None:
        """Of the ratio of two layouts' times, where both are predicted to be near the fastest; None where one alone is."""
        least = min(run.predicted for run in self.runs)
        near = [run for run in self.runs if run.predicted <= NEAR * least]
        pairs = combinations(near, 2)
        errors = [abs(np.log(a.predicted / b.predicted * b.measured / a.measured)) for a, b in pairs]
        return float(np.median(errors)) if errors else None


def groups_of(study: Study) -> Iterator[Group]:
    """Jobs of a study with several measured layouts; of one that was measured several times, the mean counts."""
    for key, configurations in configurations_by_job(study).items():
        if len({_written(rows[0]) for rows in configurations}) > 1:
            runs = merged([run for rows in configurations for run in _run(rows, study)])
            if len(runs) > 1:
                name = " ".join(str(part) for part in key[:5] if part is not None)
                yield Group(study.name, name, configurations[0][0].measurement.devices or 1, runs)


def configurations_by_job(study: Study) -> dict[tuple[object, ...], list[tuple[Row, ...]]]:
    """Measured configurations of each model, machine, number of devices, batch, sequence and software."""
    found: dict[tuple[object, ...], list[tuple[Row, ...]]] = defaultdict(list)
    for rows in study.configurations:
        found[_job(rows[0])].append(rows)
    return found


def merged(runs: Sequence[Run]) -> tuple[Run, ...]:
    """One run for each layout."""
    by_layout: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in runs:
        by_layout[run.layout].append(run)
    return tuple(
        replace(same[0], measured=float(np.mean([run.measured for run in same]))) for same in by_layout.values()
    )


def _job(row: Row) -> tuple[object, ...]:
    m = row.measurement
    overrides = tuple(text for text in _overrides(row) if not text.startswith((PADDED, *OVERRIDDEN)))
    stack = STACK.match(m.table or "")
    software = (m.strategy, stack and stack[0])
    return (
        m.workload,
        m.hardware,
        m.devices,
        m.global_batch,
        m.strategy,
        m.seq_len,
        m.precision,
        m.attention,
        software,
        overrides,
    )


def _written(row: Row) -> tuple[object, ...]:
    """A layout as the row says it; what it leaves out takes defaults."""
    columns = (getattr(row.measurement, name, None) for name in AXES)
    return (*columns, *(text for text in _overrides(row) if text.startswith(OVERRIDDEN)))


def _overrides(row: Row) -> list[str]:
    return sorted(text.strip() for text in row.measurement.overrides.split(";"))


def _run(rows: tuple[Row, ...], study: Study) -> Iterator[Run]:
    """The measured time of a configuration, where a row of it counts."""
    for outcome in judge(rows, study.name, study.folder):
        if outcome.counts and outcome.metric != "peak_memory" and outcome.error is not None and outcome.step_time:
            job = job_of(rows[0], study.folder)
            made = predict(job.workload, job.hardware, job.strategy)
            layout = tuple(getattr(job.strategy, name) for name in AXES if name not in {"dp", "shard_group"})
            time = outcome.step_time / (1 + outcome.error)
            yield Run(
                outcome.id, time, outcome.step_time, made.fits, (*layout, made.layout.dp, made.layout.shard_group),
                (getattr(job.workload.model, "hidden", None), job.strategy.tp, job.strategy.microbatch),
            )  # fmt: skip
            return


def summary(groups: Sequence[Group]) -> tuple[str, ...]:
    """One line of figures."""
    regrets = np.array([group.regret for group in groups])
    ranks = [group.rank for group in groups if group.rank is not None]
    errors = [group.ratio_error for group in groups if group.ratio_error is not None]
    shares = (np.median(regrets), np.mean(regrets), np.max(regrets), np.mean([group.chance for group in groups]))
    return (
        str(len(groups)), str(sum(len(group.runs) for group in groups)), *(f"{100 * value:.1f} %" for value in shares),
        f"{np.mean(regrets < 1e-9):.0%}", f"{np.mean(ranks):.2f}" if ranks else "", f"{np.median(ranks):.2f}" if ranks else "",
        f"{100 * np.median(errors):.1f} %" if errors else "",
    )  # fmt: skip


HEADER = ("study", "groups", "runs", "median regret", "mean", "worst", "by chance", "best picked", "mean rank", "median rank", "ratio error")  # fmt: skip


def table(groups: Sequence[Group]) -> str:
    """Studies in Markdown, and all of them together."""
    by_study: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_study[group.study].append(group)
    rows = [(name, *summary(own)) for name, own in sorted(by_study.items())]
    rows += [("all", *summary(groups))] if len(by_study) > 1 else []
    return "\n".join(lines(HEADER, rows))


def lines(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table in Markdown."""
    names = list(header)
    yield "| " + " | ".join(names) + " |"
    yield "|" + "|".join(["---", *["--:"] * (len(names) - 1)]) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


DRAWS = 40


def scattered(groups: Sequence[Group], spread: float) -> tuple[str, ...]:
    """Mean regret, the worst with what eight draws of ten stay between, mean rank: means over draws."""
    shapes = sorted({run.shape for group in groups for run in group.runs}, key=str)
    random = np.random.default_rng(0)
    found: list[tuple[float, float, float]] = []
    for _ in range(DRAWS):
        off = dict(zip(shapes, np.exp(spread * random.standard_normal(len(shapes))), strict=True))
        drawn = [
            replace(g, runs=tuple(replace(run, measured=run.predicted * off[run.shape]) for run in g.runs))
            for g in groups
        ]
        regrets = [group.regret for group in drawn]
        ranks = [g.rank for g in drawn if g.rank is not None]
        found.append((float(np.mean(regrets)), max(regrets), float(np.mean(ranks))))
    mean, worst, rank = np.array(found).mean(axis=0)
    least, most = np.quantile([draw[1] for draw in found], (0.1, 0.9))
    return f"{spread:.0%}", f"{mean:.1%}", f"{worst:.0%} ({100 * least:.0f} to {100 * most:.0f})", f"{rank:.2f}"


def main() -> None:
    """Print the table, and with --groups each group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", action="store_true", help="list the groups, largest regret first")
    parser.add_argument("--most", type=int, metavar="DEVICES", help="groups of at most so many devices alone")
    parser.add_argument("--scatter", type=float, action="append", default=[], metavar="SHARE", help="of each shape")
    parser.add_argument("studies", nargs="*", metavar="STUDY")
    options = parser.parse_args()
    groups = [group for study in load_studies(options.studies) for group in groups_of(study)]
    groups = [group for group in groups if options.most is None or group.devices <= options.most]
    if options.groups:
        rows = [
            (g.study, g.name, str(len(g.runs)), f"{100 * g.regret:.1f} %", "" if g.rank is None else f"{g.rank:.2f}", g.pick.id)
            for g in sorted(groups, key=lambda group: -group.regret)
        ]  # fmt: skip
        sys.stdout.write("\n".join(lines(("study", "group", "runs", "regret", "rank", "pick"), rows)) + "\n\n")
    sys.stdout.write(table(groups) + "\n")
    if options.scatter:
        drawn = [scattered(groups, spread) for spread in options.scatter]
        sys.stdout.write(
            "\n" + "\n".join(lines(("scatter", "mean regret", "worst (8 of 10 draws)", "mean rank"), drawn)) + "\n"
        )


if __name__ == "__main__":
    main()
