"""What a trace of one rank holds, whatever wrote it: columns of what the device ran, in seconds from its first event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Index = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Span:
    """A named stretch of time, such as a step."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator as the framework called it: shapes, types and scalar arguments of its inputs."""

    op: str
    dims: tuple[Any, ...]
    types: tuple[str, ...] = ()
    concrete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """What a collective moves, as far as the trace says."""

    collective: str
    group: str = ""
    ranks: int = 0
    elements_in: int = 0
    elements_out: int = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Kernels:
    """What the device ran: one row for each kernel, copy or collective."""

    start: Array
    duration: Array
    name: Index
    """In `Trace.names`."""
    stream: Index
    """Numbered from 0; of a trace of a CPU, its threads."""
    launched: Array
    """When the host launched it; NaN where the trace does not say."""
    op: Index
    """The call of an operator that it belongs to, in `Trace.calls`; -1 is none."""
    message: Index
    """In `Trace.messages`; -1 is none."""

    @property
    def end(self) -> Array:
        """When each ended."""
        return self.start + self.duration

    def __len__(self) -> int:
        return len(self.start)

    def where(self, mask: NDArray[np.bool_]) -> Kernels:
        """Some of the rows."""
        return Kernels(*(getattr(self, name)[mask] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Calls:
    """Operators as the framework called them: one row for each call."""

    name: Index
    """In `Trace.names`."""
    signature: Index
    """In `Trace.signatures`; -1 where the trace has no shapes."""
    caller: Index
    """The call that it was made in; -1 is none."""

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True)
class Memory:
    """Device memory over time."""

    time: Array
    allocated: Array
    reserved: Array
    """Bytes that the allocator holds; NaN where the trace does not say."""


def empty() -> Kernels:
    """No rows."""
    none, index = np.zeros(0), np.zeros(0, np.int32)
    return Kernels(none, none, index, index, none, index, index)


def no_calls() -> Calls:
    """No rows."""
    index = np.zeros(0, np.int32)
    return Calls(index, index, index)


@dataclass(frozen=True, slots=True)
class Trace:
    """One rank."""

    file: str
    form: str
    """What wrote it: "Kineto", "execution trace", "Nsight Systems", "XLA xplane", "memory timeline"."""
    names: tuple[str, ...] = ()
    kernels: Kernels = field(default_factory=empty)
    device: str = ""
    rank: int | None = None
    ranks: int | None = None
    on_host: bool = False
    """The kernels are the operators of a CPU, each without those that it called."""
    steps: tuple[Span, ...] = ()
    """In order; they do not overlap."""
    signatures: tuple[Signature, ...] = ()
    messages: tuple[Message, ...] = ()
    calls: Calls = field(default_factory=no_calls)
    memory: Memory | None = None
    events: int = 0
    notes: tuple[str, ...] = ()


def frozen(value: Any, depth: int = 4) -> Any:
    """Nested lists as nested tuples, which can be compared and counted; what is nested deeper becomes text."""
    if not isinstance(value, list):
        return value if isinstance(value, int | float | str | None) else str(type(value))
    return tuple(frozen(one, depth - 1) for one in value) if depth else "..."
