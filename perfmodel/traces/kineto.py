"""Traces of the PyTorch profiler (Kineto, in the Chrome format).

The format differs by age: categories (`Operator` or `cpu_op`), keys (`Input dims` or `Input Dims`), microseconds as
whole or broken numbers, absolute or from a base. Kernels point to the operator that launched them by its external id;
in traces of 2021 and 2022 that number is the kernel's own correlation, and the launch tells the operator instead.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.traces.classes import classify
from perfmodel.traces.hostops import own_times
from perfmodel.traces.opening import fault
from perfmodel.traces.spans import callers, in_order
from perfmodel.traces.table import Numbered, Table
from perfmodel.traces.trace import Calls, Kernels, Memory, Message, Signature, Span, Trace, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

Event = dict[str, Any]
MICRO = 1e-6
NUMBERS = {int, float}
LATEST = 1e18
"""Microseconds: what is later is no time."""
KERNELS = {"kernel", "Kernel"}
COPIES = {"gpu_memcpy": "Memcpy", "Memcpy": "Memcpy", "gpu_memset": "Memset", "Memset": "Memset"}
OPERATORS = {"cpu_op", "Operator"}
LAUNCHES = {"cuda_runtime", "cuda_driver", "Runtime", "hip_runtime", "xpu_runtime"}
STEP = re.compile(r"^(ProfilerStep|train(ing)?[ _]step|iteration|step)[ #_:*]*\d*$", re.IGNORECASE)
MEMORY = "[memory]"
HEADER = ("deviceProperties", "distributedInfo")
"""Members of the file besides its events that are read."""


class KinetoReader:
    """Takes the events one by one and keeps what a summary needs."""

    def __init__(self, file: str) -> None:
        """Begin without events."""
        self.file, self.events = file, 0
        self.header: dict[str, Any] = {}
        self._origin: Any = None
        self._names, self._streams, self._threads = Numbered[str](), Numbered[Any](), Numbered[Any]()
        self._signatures, self._messages = Numbered[str](), Numbered[Message]()
        self._shapes: list[Signature] = []
        self._kernels = Table("ddiiqqi")  # start, duration, name, stream, correlation, external, message
        self._operators = Table("ddiiqi")  # start, duration, name, thread, external, signature
        self._launches = Table("diqq")  # start, thread, correlation, external
        self._memory = Table("ddd")  # time, allocated, reserved
        self._held = 0.0
        self._steps: list[Span] = []
        self._handlers = {
            **dict.fromkeys(KERNELS | COPIES.keys(), self._kernel), **dict.fromkeys(OPERATORS, self._operator),
            **dict.fromkeys(LAUNCHES, self._launch), "user_annotation": self._annotation,
        }  # fmt: skip

    def take(self, key: str, value: Any) -> None:
        """One member of the file, or one of its events; raises InputError where an event is none."""
        if key not in {"traceEvents", ""}:
            if key in HEADER:
                self.header[key] = value
            return
        self.events += 1
        if type(value) is not dict:
            raise fault(self.file, f"must be an object, not {type(value).__name__}", self._place())
        category = value.get("cat")
        handler = self._handlers.get(category) if type(category) is str else None
        if handler is not None and value.get("ph", "X") == "X":
            handler(value)
        elif value.get("name") == MEMORY:
            self._allocation(value)

    def _place(self) -> str:
        return f"event {self.events:,}"

    def _times(self, event: Event) -> tuple[float, float]:
        """Start and duration in seconds; the first event is at 0, since times since 1970 have no digits to spare."""
        start: Any = event.get("ts")
        duration: Any = event.get("dur", 0)
        if self._origin is None:
            self._origin = start
        if type(start) in NUMBERS and -LATEST < start < LATEST and type(duration) in NUMBERS and 0 <= duration < LATEST:
            return (start - self._origin) * MICRO, duration * MICRO
        if type(duration) in NUMBERS and duration < 0:
            raise fault(self.file, f"dur must not be negative, but is {duration}", self._place())
        what, value = ("dur", duration) if type(start) in NUMBERS and -LATEST < start < LATEST else ("ts", start)
        raise fault(self.file, f"{what} must be a number of microseconds, not {repr(value)[:40]}", self._place())

    def _name(self, event: Event) -> str:
        name = event.get("name")
        if type(name) is not str:
            raise fault(self.file, "name must be a text", self._place())
        return name

    def _arguments(self, event: Event) -> Event:
        arguments = event.get("args")
        return arguments if type(arguments) is dict else {}

    def _kernel(self, event: Event) -> None:
        start, duration = self._times(event)
        arguments, name = self._arguments(event), self._name(event)
        if event["cat"] in COPIES and classify(name) != "memcpy":
            name = f"{COPIES[event['cat']]} {name}"
        message = self._message(arguments) if "Collective name" in arguments else -1
        stream = (str(arguments.get("device", event.get("pid"))), str(arguments.get("stream", event.get("tid"))))
        self._kernels.add(
            start, duration, self._names[name], self._streams[stream],
            _id(arguments.get("correlation")), _external(arguments), message,
        )  # fmt: skip

    def _message(self, arguments: Event) -> int:
        made = Message(
            str(arguments["Collective name"]), str(arguments.get("Process Group Name", "")),
            _count(arguments.get("Group size")), _count(arguments.get("In msg nelems")),
            _count(arguments.get("Out msg nelems")), str(arguments.get("dtype", "")),
        )  # fmt: skip
        return self._messages[made]

    def _operator(self, event: Event) -> None:
        name = self._name(event)
        start, duration = self._times(event)
        if STEP.match(name):
            self._steps.append(Span(name, start, start + duration))
            return
        arguments = self._arguments(event)
        thread = (str(event.get("pid")), str(event.get("tid")))
        self._operators.add(
            start,
            duration,
            self._names[name],
            self._threads[thread],
            _external(arguments),
            self._shape(name, arguments),
        )

    def _shape(self, name: str, arguments: Event) -> int:
        dims = arguments.get("Input Dims") or arguments.get("Input dims")
        if not dims or type(dims) is not list:
            return -1
        types = arguments.get("Input type") or ()
        concrete = arguments.get("Concrete Inputs") or ()
        key = f"{name}{dims}{types}{concrete}"
        known = len(self._signatures)
        number = self._signatures[key]
        if number == known:
            self._shapes.append(Signature(name, frozen(dims), _texts(types), _texts(concrete)))
        return number

    def _launch(self, event: Event) -> None:
        arguments = self._arguments(event)
        correlation = _id(arguments.get("correlation"))
        if correlation >= 0:
            start, _ = self._times(event)
            thread = (str(event.get("pid")), str(event.get("tid")))
            self._launches.add(start, self._threads[thread], correlation, _external(arguments))

    def _annotation(self, event: Event) -> None:
        name = self._name(event)
        if STEP.match(name):
            start, duration = self._times(event)
            self._steps.append(Span(name, start, start + duration))

    def _allocation(self, event: Event) -> None:
        arguments = self._arguments(event)
        if not _count(arguments.get("Device Type")):
            return
        start, _ = self._times(event)
        size = arguments.get("Bytes")
        self._held += size if type(size) is int and abs(size) < 1e18 else 0
        total, reserved = arguments.get("Total Allocated"), arguments.get("Total Reserved")
        self._memory.add(
            start, self._held if total is None else _count(total), math.nan if reserved is None else _count(reserved)
        )

    def trace(self) -> Trace:
        """What was read; raises InputError where steps overlap, or nothing ran."""
        kernels, on_host = self._device_kernels(), False
        if not len(kernels) and len(self._operators):
            kernels, on_host = self._host_kernels(), True
        if not self.events:
            raise fault(self.file, "has no events")
        distributed = self.header.get("distributedInfo")
        about = distributed if type(distributed) is dict else {}
        return Trace(
            self.file, "Kineto", tuple(self._names), kernels, _device(self.header.get("deviceProperties")),
            _whole(about.get("rank")), _whole(about.get("world_size")), on_host, in_order(self._steps, self.file),
            tuple(self._shapes), tuple(self._messages), self._calls(), self._memory_timeline(), self.events,
        )  # fmt: skip

    def _calls(self) -> Calls:
        start, duration, name, thread, _, signature = self._operators.columns()
        return Calls(name, signature, callers(start, start + duration, thread).astype(np.int32))

    def _device_kernels(self) -> Kernels:
        start, duration, name, stream, correlation, external, message = self._kernels.columns()
        launched_at, launch_thread, launch_correlation, launch_external = self._launches.columns()
        row = _match(correlation, launch_correlation)
        launched, thread, by_launch = (
            np.where(row >= 0, column[row], missing) if len(column) else np.full(len(row), missing)
            for column, missing in ((launched_at, math.nan), (launch_thread, -1), (launch_external, -1))
        )
        numbers = self._operators.columns()[4]
        own = external if np.any(external != correlation) else by_launch
        op = _match(own, numbers)
        op = np.where(op >= 0, op, _match(by_launch, numbers))
        op = op if np.any(op >= 0) else self._launched_in(launched, thread)
        return Kernels(start, duration, name, stream, launched, op.astype(np.int32), message)

    def _launched_in(self, launched: Any, thread: Any) -> Any:
        """The innermost operator that runs when and where each kernel is launched."""
        start, duration, _, on, _, _ = self._operators.columns()
        begins, ends = (np.concatenate([column, launched]) for column in (start, start + duration))
        return callers(begins, ends, np.concatenate([on, thread]).astype(np.int64))[len(start) :]

    def _host_kernels(self) -> Kernels:
        start, duration, name, thread, _, _ = self._operators.columns()
        return own_times(start, duration, name, thread)

    def _memory_timeline(self) -> Memory | None:
        moment, allocated, reserved = self._memory.columns()
        order = np.argsort(moment, kind="stable")
        return Memory(moment[order], allocated[order], reserved[order]) if len(moment) else None


def _match(wanted: Any, given: Any) -> Any:
    """The last row of ``given`` that holds each wanted number; -1 where none does, and for negative numbers."""
    if not len(given):
        return np.full(len(wanted), -1)
    order = np.argsort(given, kind="stable")
    place = np.searchsorted(given, wanted, side="right", sorter=order) - 1
    row = order[np.maximum(place, 0)]
    return np.where((wanted >= 0) & (place >= 0) & (given[row] == wanted), row, -1)


def _id(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**62 else -1


def _external(arguments: Event) -> int:
    return _id(arguments.get("External id", arguments.get("external id")))


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**62 else 0


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list | tuple) else ()


def _device(properties: Any) -> str:
    """The name of the first device."""
    first: Iterable[Any] = properties if isinstance(properties, list) else ()
    names = [one.get("name") for one in first if isinstance(one, dict)]
    return str(names[0]) if names and names[0] else ""
