"""Studies, their errors and their worst cases."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import quantity, share
from perfmodel.specs.measurement import METRIC_UNIT
from perfmodel.validation.statistics import Summary, summarise, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.validation.cases import Outcome
    from perfmodel.validation.run import Judged


LEGEND = (
    "median, p90: of the absolute error of time. bias: median of the signed error, negative is too fast. test: rows on which no "
    "constant was fitted. rank: Spearman correlation within one workload on one machine. inside: measurements within the 80 % "
    "interval. budget: median / p90 that may not be exceeded."
)
MOST_REASONS = 20


def validation_report(judged: Sequence[Judged], worst_count: int = 10, *, missing: int = 0) -> Report:
    """All studies: table, worst cases by name, and why cases do not count; ``missing`` studies were interrupted."""
    outcomes = [o for one in judged for o in one.outcomes]
    cases = [_case(o) for o in outcomes]
    record = {"schema": 1, "studies": [study_record(one, worst_count) for one in judged], "cases": cases}
    sections = (
        _studies("Step time, errors in %", judged, memory=False),
        _studies("Peak memory, errors in %", judged, memory=True),
        _worst(outcomes, worst_count),
        _uncounted(judged),
        _reasons(judged, 2 * worst_count),
    )
    failed = [one.study.name for one in judged if one.passed is False]
    cut = [f"interrupted: {missing} of {len(judged) + missing} studies are missing here"] if missing else []
    notes = (LEGEND, *([f"over budget: {', '.join(failed)}"] if failed else ()), *cut)
    return Report(record, cases, tuple(s for s in sections if s.rows), notes)


def tables_report(outcomes: Sequence[Outcome]) -> Report:
    """Kernels or collectives: errors by device and operation, and the rows that the model cannot express."""
    groups: dict[str, list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault(o.study, []).append(o)
    summaries = {name: summarise(group) for name, group in sorted(groups.items())}
    tested = {name: summarise([o for o in group if o.split == "test"]) for name, group in groups.items()}
    rows = tuple((name, *_cells(s), *_cells(tested[name])[:3]) for name, s in summaries.items() if s)
    reasons = Counter(o.reason for o in outcomes if not o.counts)
    records = [
        {"name": name, **_numbers(s), "test": _numbers(tested[name]) or None} for name, s in summaries.items() if s
    ]
    header = ("table", "rows", "median", "p90", "bias", "test rows", "median", "p90")
    left = [(str(n), reason) for reason, n in reasons.most_common(MOST_REASONS)]
    rest = sum(reasons.values()) - sum(int(n) for n, _ in left)
    left += [(str(rest), f"{len(reasons) - MOST_REASONS} further reasons, which --format json lists")] if rest else []
    sections = (
        Section(
            "Time of kernels and collectives, errors in %", header, rows, frozenset(range(1, 8)), frozenset(range(1, 8))
        ),
        Section("Rows that do not count", ("rows", "reason"), tuple(left), frozenset({0})),
    )
    record = {"schema": 1, "studies": records, "reasons": dict(reasons.most_common())}
    return Report(record, [_case(o) for o in outcomes], tuple(s for s in sections if s.rows))


def study_record(one: Judged, worst_count: int) -> dict[str, Any]:
    """One study in JSON; errors are relative."""
    states = Counter(o.state for o in one.outcomes)
    budget = one.study.budget
    return {
        "name": one.study.name,
        "cases": one.time.cases if one.time else 0,
        **_numbers(one.time),
        "test": _numbers(one.errors("test")) or None,
        "memory": _numbers(one.memory) or None,
        "worst": [o.id for o in worst(one.outcomes, worst_count)],
        "repeated": states["repeated"],
        "inconsistent": states["inconsistent"],
        "inexpressible": states["inexpressible"],
        "skipped": len(one.study.skipped),
        "budget": None if budget is None else {"rows": budget.rows, "median": budget.limit.median, "p90": budget.limit.p90, "date": budget.date.isoformat()},
        "passed": one.passed,
    }  # fmt: skip


def _numbers(s: Summary | None) -> dict[str, Any]:
    if s is None:
        return {}
    return {
        "count": s.cases, "median_absolute_error": s.median, "p90_absolute_error": s.p90, "mean_absolute_error": s.mean,
        "bias": s.bias, "interval_coverage": s.coverage, "rank_correlation": s.rank, "ranked": s.ranked,
    }  # fmt: skip


def _case(o: Outcome) -> dict[str, Any]:
    return {
        "study": o.study, "id": o.id, "metric": o.metric, "split": o.split, "measured": o.measured,
        "predicted": o.predicted, "error": o.error, "skipped": not o.counts, "state": o.state, "reason": o.reason,
    }  # fmt: skip


def _studies(title: str, judged: Sequence[Judged], *, memory: bool) -> Section:
    header = ("study", "cases", "median", "p90", "bias", "test", "median", "p90", "rank", "inside", "budget")
    rows = []
    for one in judged:
        summary = one.memory if memory else one.time
        if summary is None:
            continue
        tested = summarise([o for o in one.outcomes if o.split == "test" and (o.metric == "peak_memory") is memory])
        rows.append(
            (one.study.name, *_cells(summary), *_cells(tested)[:3], *_extra(summary), "" if memory else _budget(one))
        )
    total = summarise([o for one in judged for o in one.outcomes if (o.metric == "peak_memory") is memory])
    tested = summarise(
        [o for one in judged for o in one.outcomes if (o.metric == "peak_memory") is memory and o.split == "test"]
    )
    if len(rows) > 1:
        rows.append(("all", *_cells(total), *_cells(tested)[:3], *_extra(total), ""))
    return Section(title, header, tuple(rows), frozenset(range(1, 10)), frozenset(range(11)))


def _cells(s: Summary | None) -> tuple[str, str, str, str]:
    if s is None:
        return ("0", "", "", "")
    return (str(s.cases), f"{100 * s.median:.1f}", f"{100 * s.p90:.1f}", f"{100 * s.bias:+.1f}")


def _extra(s: Summary | None) -> tuple[str, str]:
    if s is None:
        return ("", "")
    rank = "" if s.rank is None else f"{s.rank:.2f}"
    return (rank, "" if s.coverage is None else f"{100 * s.coverage:.0f} %")


def _budget(one: Judged) -> str:
    budget = one.study.budget
    if budget is None:
        return "none"
    verdict = "" if one.passed else " EXCEEDED"
    return f"{100 * budget.limit.median:.1f} / {100 * budget.limit.p90:.1f}{verdict}"


def _worst(outcomes: Sequence[Outcome], count: int) -> Section:
    rows = tuple(
        (
            o.id,
            o.workload,
            o.hardware,
            _value(o, o.measured),
            _value(o, o.predicted or 0.0),
            f"{100 * (o.error or 0.0):+.1f} %",
        )
        for o in worst(outcomes, count)
    )
    return Section(
        "Worst cases",
        ("case", "workload", "hardware", "measured", "predicted", "error"),
        rows,
        frozenset({3, 4, 5}),
        frozenset({0}),
    )


def _value(o: Outcome, value: float) -> str:
    unit = METRIC_UNIT[o.metric]
    return share(value) if unit == "1" else quantity(value, unit)


def _uncounted(judged: Sequence[Judged]) -> Section:
    header = ("study", "repeated", "inconsistent", "not expressible", "not tabulated")
    rows = []
    for one in judged:
        states = Counter(o.state for o in one.outcomes)
        counts = (states["repeated"], states["inconsistent"], states["inexpressible"], len(one.study.skipped))
        if any(counts):
            rows.append((one.study.name, *map(str, counts)))
    return Section("Figures that do not count", header, tuple(rows), frozenset({1, 2, 3, 4}), frozenset({0}))


def _reasons(judged: Sequence[Judged], count: int) -> Section:
    reasons: Counter[tuple[str, str]] = Counter()
    for one in judged:
        for o in one.outcomes:
            if o.state in {"inconsistent", "inexpressible"}:
                reasons[one.study.name, o.reason] += 1
        reasons.update((one.study.name, reason) for _, reason in one.study.skipped)
    rows = tuple((study, str(n), reason) for (study, reason), n in reasons.most_common(count))
    return Section(
        "Why: the most frequent reasons", ("study", "figures", "reason"), rows, frozenset({1}), frozenset({0})
    )
