"""What a trace spent its time on: by class of kernel, hidden and exposed, idle, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.traces.classes import CLASSES, COMPUTE, Class, classify
from perfmodel.traces.spans import exclusive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfmodel.traces.trace import Array, Kernels, Trace

COLLECTIVE, GEMM, CONVOLUTION = (CLASSES.index(name) for name in ("collective", "GEMM", "convolution"))
CALLERS = 4
"""Operators within one another that are looked through."""


@dataclass(frozen=True, slots=True)
class ClassTime:
    """All kernels of one class."""

    count: int
    total: float
    """Added up over all streams."""
    exposed: float
    """While nothing of an earlier class runs; these add up to the time in which anything runs."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of training."""

    name: str
    time: float
    computing: float
    """Time in which kernels that compute run, of those that the step launched."""
    communicating: float
    exposed: float
    """Communication that no computing hides."""


@dataclass(frozen=True)
class Summary:
    """One rank."""

    trace: Trace

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """The class of each kernel, as its place in `CLASSES`."""
        of_name = np.array([CLASSES.index(classify(name)) for name in self.trace.names], dtype=np.int64)
        return of_name[self.trace.kernels.name] if len(of_name) else np.zeros(0, np.int64)

    @cached_property
    def classes(self) -> Mapping[Class, ClassTime]:
        """Classes that occur."""
        return _by_class(self.trace.kernels, self.group)

    @property
    def span(self) -> float:
        """From the first kernel to the end of the last."""
        kernels = self.trace.kernels
        return float(kernels.end.max() - kernels.start.min()) if len(kernels) else 0.0

    @property
    def busy(self) -> float:
        """Time in which anything runs, copies included."""
        return sum(one.exposed for one in self.classes.values())

    @property
    def idle(self) -> float:
        """Time in which nothing runs."""
        return max(self.span - self.busy, 0.0)

    @property
    def computing(self) -> float:
        """Time in which at least one kernel computes."""
        return sum(one.exposed for name, one in self.classes.items() if name in COMPUTE)

    @cached_property
    def communicating(self) -> float:
        """Time in which at least one collective runs."""
        return _union(self.trace.kernels, self.group == COLLECTIVE)

    @property
    def exposed(self) -> float:
        """Communication that no computing hides."""
        return self.classes["collective"].exposed if "collective" in self.classes else 0.0

    @property
    def overlap(self) -> float:
        """Communication while something computes."""
        return max(self.communicating - self.exposed, 0.0)

    @cached_property
    def step_of(self) -> NDArray[np.int64]:
        """The step that launched each kernel, as its place in the trace's steps; -1 is none.

        Where the trace does not tell when a kernel was launched, the step in which it starts.
        """
        kernels, steps = self.trace.kernels, self.trace.steps
        moment = np.where(np.isnan(kernels.launched), kernels.start, kernels.launched)
        place = np.searchsorted([step.start for step in steps], moment, side="right") - 1
        ends = np.array([step.end for step in steps] or [-np.inf])
        return np.where((place >= 0) & (moment < ends[place]), place, -1)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Each step of the trace."""
        return tuple(self._step(number) for number in range(len(self.trace.steps)))

    @property
    def step_time(self) -> float | None:
        """The median step; None where the trace marks none."""
        return float(np.median([step.time for step in self.steps])) if self.steps else None

    def _step(self, number: int) -> Step:
        mask = self.step_of == number
        classes = _by_class(self.trace.kernels.where(mask), self.group[mask])
        span = self.trace.steps[number]
        return Step(
            span.name, span.end - span.start,
            sum(one.exposed for name, one in classes.items() if name in COMPUTE),
            _union(self.trace.kernels, mask & (self.group == COLLECTIVE)),
            classes["collective"].exposed if "collective" in classes else 0.0,
        )  # fmt: skip

    @cached_property
    def per_step(self) -> tuple[float, Mapping[Class, ClassTime]]:
        """The mean step: its time, and the classes of what the steps launched; of a trace without steps, all of it.

        The host may run ahead of the device, so that marks on the host are closer than steps are: the time counts from the
        first mark to the last, or to the end of the last kernel that a step launched, whichever is later.
        """
        marks = self.trace.steps
        if not marks:
            return self.span, _by_class(self.trace.kernels, self.by_operator)
        mask = self.step_of >= 0
        kernels = self.trace.kernels.where(mask)
        end = max(marks[-1].end, float(kernels.end.max()) if len(kernels) else 0.0)
        return (end - marks[0].start) / len(marks), {
            name: ClassTime(round(one.count / len(marks)), one.total / len(marks), one.exposed / len(marks))
            for name, one in _by_class(kernels, self.by_operator[mask]).items()
        }

    @cached_property
    def by_operator(self) -> NDArray[np.int64]:
        """As `group`, but products that a convolution launches are convolutions: a prediction counts them so."""
        trace, group = self.trace, self.group.copy()
        convolves = np.array([classify(name) == "convolution" for name in trace.names] or [False])
        call = trace.kernels.op.astype(np.int64)
        for _ in range(CALLERS):
            known = call >= 0
            if not np.any(known):
                break
            inside = known & (group == GEMM)
            inside[known] &= convolves[trace.calls.name[call[known]]]
            group[inside] = CONVOLUTION
            call[known] = trace.calls.caller[call[known]]
        return group

    @property
    def peak_memory(self) -> float | None:
        """Bytes allocated at most; None where the trace does not say."""
        memory = self.trace.memory
        return None if memory is None else float(memory.allocated.max())


def _union(kernels: Kernels, mask: NDArray[np.bool_]) -> float:
    chosen = kernels.where(mask)
    return float(exclusive(chosen.start, chosen.end, np.zeros(len(chosen), np.int64), 1)[0])


def _by_class(kernels: Kernels, group: NDArray[np.int64]) -> dict[Class, ClassTime]:
    alone: Array = exclusive(kernels.start, kernels.end, group, len(CLASSES))
    count = np.bincount(group, minlength=len(CLASSES))
    total = np.bincount(group, weights=kernels.duration, minlength=len(CLASSES))
    return {
        name: ClassTime(int(count[i]), float(total[i]), float(alone[i])) for i, name in enumerate(CLASSES) if count[i]
    }
