"""What is done about slow replicas: whose results a step waits for, what they cost, and the best parameters by search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.formulas.mitigation import coded_gradient_time
from perfmodel.origin import place_of
from perfmodel.specs import variation as specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.specs.variation import AnyMitigation

FEW = 64
"""Candidates that a search tries one by one; of more it tries a geometric selection."""
FEW_CODES = 8
"""Likewise of each of the two parameters of a gradient code."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to run a step on n replicas."""

    kind: str
    waited: float
    """Replicas (of replication: shares of the data) whose results a step needs."""
    load: float = 1.0
    """Work of each over that without redundancy."""
    reduction: float = 1.0
    """By which its gradient messages are shorter."""
    copies: int = 1
    """Replicas that do the same, of which the first counts."""
    deadline: float | None = None
    """Over the predicted time, at which all stop."""
    stragglers: float | None = None
    """Of a gradient code."""

    def record(self) -> dict[str, Any]:
        """What differs from waiting for all, for reports."""
        given = {"waited": self.waited, "stragglers": self.stragglers, "load": self.load, "reduction": self.reduction,
                 "copies": self.copies, "deadline": self.deadline}  # fmt: skip
        plain = {"load": 1.0, "reduction": 1.0, "copies": 1, "stragglers": None, "deadline": None}
        return {"kind": self.kind, **{k: v for k, v in given.items() if k not in plain or v != plain[k]}}


def plans(mitigation: AnyMitigation | None, replicas: int, cost: Callable[[Plan], float]) -> list[tuple[Plan, float]]:
    """The plan that a file asks for, with its share of the steps; several where it changes during the training.

    Args:
        mitigation: of the file; None waits for all.
        replicas: n.
        cost: time for each counted sample, by which parameters that are left out are chosen.

    Raises InputError where more replicas are waited for than there are, or more may be slow than exist.
    """
    if mitigation is None:
        return [(Plan("none", replicas), 1.0)]
    problems = list(_misfits(mitigation, replicas))
    if problems:
        raise InputError(problems)
    if isinstance(mitigation, specs.FastestK) and mitigation.phases:
        return [(Plan(mitigation.kind, int(phase.waited)), float(phase.share)) for phase in mitigation.phases]
    return [(_best(_candidates(mitigation, replicas), cost), 1.0)]


def best_gradient_code(
    workers: int, *, compute: float, compute_delay: float, communication: float, communication_delay: float
) -> tuple[int, int, int, float]:
    """Load, reduction and stragglers of the fastest gradient code, with its expected step; arguments as of the formula.

    >>> best_gradient_code(8, compute=1.6, compute_delay=1.25, communication=6.0, communication_delay=10.0)[:3]
    (4, 3, 1)
    """
    load, reduction = (grid.ravel() for grid in np.meshgrid(*[np.arange(1, workers + 1)] * 2, indexing="ij"))
    load, reduction = load[reduction <= load], reduction[reduction <= load]
    dropped = load - reduction
    times = coded_gradient_time(
        waited=workers - dropped, dropped=dropped, load=load, reduction=reduction, compute=compute,
        compute_delay=compute_delay, communication=communication, communication_delay=communication_delay,
    )  # fmt: skip
    best = int(np.argmin(times))
    return int(load[best]), int(reduction[best]), int(dropped[best]), float(np.asarray(times)[best])


def _misfits(mitigation: AnyMitigation, replicas: int) -> Iterator[Problem]:
    def problem(name: str, value: object, message: str) -> Problem:
        return Problem(place_of(value, Place("stragglers.mitigation")), f"stragglers.mitigation.{name}", message)

    match mitigation:
        case specs.BackupWorkers(backup=int(b)) if b >= replicas:
            yield problem("backup", b, f"{b} backup workers leave none of {replicas} replicas to wait for")
        case specs.FastestK() | specs.DataEncoding():
            waited = [mitigation.waited, *(phase.waited for phase in getattr(mitigation, "phases", ()))]
            for k in waited:
                if k is not None and k > replicas:
                    yield problem("waited", k, f"the fastest {k} of {replicas} replicas cannot be; at most {replicas}")
        case specs.GradientCoding():
            for name in ("stragglers", "load", "reduction"):
                value, most = getattr(mitigation, name), replicas - (name == "stragglers")
                if value is not None and value > most:
                    yield problem(name, value, f"{value} for {replicas} replicas cannot be; at most {most}")
        case specs.Replication(copies=int(r)) if replicas % r:
            yield problem("copies", r, f"{r} does not divide {replicas} replicas")
        case _:
            pass


def _candidates(mitigation: AnyMitigation, n: int) -> list[Plan]:
    match mitigation:
        case specs.BackupWorkers(backup=b):
            return [Plan(mitigation.kind, n - k) for k in ([int(b)] if b is not None else [*_some(0, n - 1)])]
        case specs.FastestK(waited=k):
            return [Plan(mitigation.kind, i) for i in ([int(k)] if k is not None else [n - j for j in _some(0, n - 1)])]
        case specs.GradientCoding():
            return list(_codes(mitigation, n))
        case specs.Replication(copies=r):
            copies = [int(r)] if r is not None else [c for c in _some(1, n) if n % c == 0]
            return [Plan(mitigation.kind, n // c, load=c, copies=c) for c in copies]
        case specs.DataEncoding(redundancy=beta, waited=k):
            return [Plan(mitigation.kind, int(k) if k is not None else int(np.ceil(n / beta)), load=float(beta))]
        case specs.PartialResults(deadline=at):
            deadlines = [float(at)] if at is not None else np.geomspace(0.5, 4.0, FEW).tolist()
            return [Plan(mitigation.kind, n, deadline=each) for each in deadlines]


def _codes(mitigation: specs.GradientCoding, n: int) -> Iterator[Plan]:
    """All codes with the given parameters; of each load and reduction the one that tolerates most, d = s + m."""
    for d in [int(mitigation.load)] if mitigation.load is not None else _some(1, n, FEW_CODES):
        for m in [int(mitigation.reduction)] if mitigation.reduction is not None else _some(1, d, FEW_CODES):
            s = d - m if mitigation.stragglers is None else int(mitigation.stragglers)
            exact = mitigation.load is not None or mitigation.stragglers is None or d == s + m
            if 0 <= s <= d - m and s < n and exact:
                yield Plan(mitigation.kind, n - s, load=d, reduction=m, stragglers=s)


def _some(least: int, most: int, few: int = FEW) -> list[int]:
    """All whole numbers of a range, or some in geometric steps where there are too many."""
    if most - least < few:
        return list(range(least, most + 1))
    return sorted({least, *np.unique(np.geomspace(max(least, 1), most, few).round().astype(int)).tolist()})


def _best(candidates: list[Plan], cost: Callable[[Plan], float]) -> Plan:
    if len(candidates) == 1:
        return replace(candidates[0])
    return min(candidates, key=cost)
