"""What the user asked of a plan, read and checked."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from perfmodel.errors import InputError, Place, Problem
from perfmodel.job import load_job
from perfmodel.planner.axes import AXES, axes_of
from perfmodel.planner.limits import limits_of
from perfmodel.planner.search import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

MOST_DEVICES, MOST_COUNTS = 10**7, 1000
"""Devices of a job, and numbers of them in one request, beyond which a slip of the pen is likelier than the question."""
MOST_PLANS = 1000
"""That are shown: each is predicted in full and played."""


def device_counts(asked: int | str | Sequence[int]) -> tuple[int, ...]:
    """Numbers of devices: one, several, or a range, whose upper end counts.

    Raises InputError for what is none.

    >>> device_counts(512), device_counts("8,24"), device_counts("8..64"), device_counts("64..256:64")
    ((512,), (8, 24), (8, 16, 32, 64), (64, 128, 192, 256))
    """
    words = str(asked).split(",") if isinstance(asked, int | str) else list(map(str, asked))
    found: list[int] = []
    problems: list[Problem] = []
    for word in words:
        try:
            found.extend(_counts(word.strip()))
        except ValueError as error:
            problems.append(Problem(Place("--devices"), "", f"{word.strip()!r} {error}"))
    if problems:
        raise InputError(problems)
    return tuple(dict.fromkeys(found))


def _counts(word: str) -> Sequence[int]:
    """Of one number or range; raises ValueError for what is none, or too much."""
    match = re.fullmatch(r"([1-9]\d*)(?:\.\.([1-9]\d*)(?::([1-9]\d*))?)?", word)
    if not match:
        raise ValueError("must be a whole number above 0, or a range: 8..1024 doubles, 64..256:64 goes by steps")
    # as floats, since whole numbers of thousands of digits are refused in words of Python's own
    first, last = float(match[1]), float(match[2] or match[1])
    if max(first, last) > MOST_DEVICES:
        raise ValueError(f"is more than {MOST_DEVICES:,} devices")
    if last < first:
        raise ValueError("goes down; write the smaller number first")
    if match[3] is None:
        return tuple(int(first) << power for power in range(int(last // first).bit_length()))
    counts = range(int(first), int(last) + 1, int(min(float(match[3]), MOST_DEVICES)))
    if len(counts) > MOST_COUNTS:
        raise ValueError(
            f"has {len(counts):,} numbers; at most {MOST_COUNTS:,} are planned at once, so take larger steps"
        )
    return counts


def questions(
    workload: str | Path,
    hardware: Sequence[str | Path],
    strategy: str | Path | None,
    settings: Mapping[str, Any],
    sets: Mapping[str, Any] | None,
    *,
    devices: int | str | Sequence[int],
    constrain: Sequence[str],
    fix: Mapping[str, Any],
) -> tuple[Question, ...]:
    """A question for each machine and number of devices that it joins.

    Args:
        workload: a name of the library or a YAML file.
        hardware: likewise, of each machine.
        strategy: likewise; None leaves everything to the search.
        settings: single overrides, of which axes of the search are fixed.
        sets: further overrides.
        devices: as in `device_counts`.
        constrain: bounds.
        fix: axes that keep to some values.

    Raises InputError with the faults of all of them.
    """
    faults = _Faults()
    counts = faults.of(lambda: device_counts(devices)) or ()
    limits = faults.of(lambda: limits_of(constrain)) or ()
    own = {name: value for name, value in settings.items() if name in AXES and value is not None}
    others = {name: value for name, value in settings.items() if name not in AXES}
    loaded = [faults.of(partial(load_job, workload, name, strategy, others, sets)) for name in hardware]
    jobs = [job for job in loaded if job is not None]
    axes = faults.of(lambda: axes_of(jobs[0].strategy, {**own, **fix}, jobs[0].workload.model)) if jobs else None
    most = max((job.hardware.reach for job in jobs), default=0)
    if jobs and counts and min(counts) > most:
        message = f"{', '.join(map(str, counts))} are more than the {most} that {jobs[0].hardware.name} joins"
        faults.problems.append(Problem(Place("--devices"), "", message))
    if faults.problems or axes is None:
        raise InputError(dict.fromkeys(faults.problems))
    return tuple(
        Question(job.workload, job.hardware, job.strategy, count, axes, limits)
        for job in jobs for count in counts if count <= job.hardware.reach
    )  # fmt: skip


def require_count(top: object) -> int:
    """How many plans to show; raises InputError for what is no number of them."""
    if not isinstance(top, int) or isinstance(top, bool) or top < 1:
        raise InputError([Problem(Place("--top"), "", f"must be a whole number above 0, not {top!r}")])
    if top > MOST_PLANS:
        message = f"shows at most {MOST_PLANS:,} plans; --all-rows FILE writes every candidate"
        raise InputError([Problem(Place("--top"), "", message)])
    return top


class _Faults:
    """Problems of several readings."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def of(self, read: Callable[[], T]) -> T | None:
        """What a reading gives; None where it has faults, which are kept."""
        try:
            return read()
        except InputError as error:
            self.problems.extend(error.problems)
            return None
