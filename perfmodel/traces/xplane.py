"""Profiles of XLA (xplane.pb), read by their published message layout, so without TensorFlow.

Each plane of a device is a rank. On GPUs the lines of streams hold kernels; on TPUs the line of operations does,
beside one for those that run asynchronously.

References:
    OpenXLA, xla/tsl/profiler/protobuf/xplane.proto. https://github.com/openxla/xla
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.traces.opening import fault
from perfmodel.traces.protobuf import LARGEST, WireError, inner, message, number, text
from perfmodel.traces.spans import in_order
from perfmodel.traces.table import Numbered, Table
from perfmodel.traces.trace import Kernels, Span, Trace

if TYPE_CHECKING:
    from perfmodel.traces.opening import Source

GPU = "/device:GPU"
DEVICE = (GPU, "/device:TPU")
STREAM, OPERATIONS, STEPS = "Stream", {"XLA Ops", "Async XLA Ops"}, "Steps"
NANO, PICO = 1e-9, 1e-12


@dataclass
class _Plane:
    name: str = ""
    lines: list[memoryview] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def began(self) -> int:
        """Nanoseconds at which the first line begins."""
        given = (number(value) for line in self.lines for key, value in message(line) if key == 3)
        return min(given, default=0)


def read_xplane(source: Source) -> list[Trace]:
    """One trace for each device; raises InputError where the file is no such profile."""
    raw = source.stream.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise fault(source.name, f"is larger than {LARGEST // 2**30} GB, too large for an XLA profile")
    try:
        planes = [_plane(inner(value)) for number_, value in message(memoryview(raw)) if number_ == 1]
        devices = [plane for plane in planes if plane.name.startswith(DEVICE)]
        read = [_trace(source.name, plane, rank, len(devices)) for rank, plane in enumerate(devices)]
    except WireError as error:
        raise fault(source.name, "is neither JSON, SQLite nor an XLA profile (xplane.pb), or is cut off") from error
    traces = [trace for trace in read if len(trace.kernels)]
    if not traces:
        held = ", ".join(plane.name for plane in planes[:4]) or "nothing"
        raise fault(source.name, f"holds no plane of a GPU or TPU that ran anything, but {held}")
    return traces


def _plane(data: memoryview) -> _Plane:
    plane = _Plane()
    for key, value in message(data):
        if key == 2:
            plane.name = text(value)
        elif key == 3:
            plane.lines.append(inner(value))
        elif key == 4:
            _name(plane, inner(value))
    return plane


def _name(plane: _Plane, entry: memoryview) -> None:
    """An entry of the map from numbers to kinds of events."""
    fields = dict(message(entry))
    about = dict(message(inner(fields.get(2, memoryview(b"")))))
    plane.names[number(fields.get(1, 0))] = text(about.get(4) or about.get(2, memoryview(b"")))


def _trace(file: str, plane: _Plane, rank: int, ranks: int) -> Trace:
    kernels, steps, names = Table("ddii"), list[Span](), Numbered[str]()
    streams, origin = 0, plane.began
    for line in plane.lines:
        fields = list(message(line))
        title = next((text(value) for key, value in fields if key == 2), "")
        ran = title.startswith(STREAM) if plane.name.startswith(GPU) else title in OPERATIONS
        if not ran and title != STEPS:
            continue
        began = next((number(value) for key, value in fields if key == 3), origin) - origin
        streams += ran
        for name, offset, lasted in (_event(inner(value), plane, file) for key, value in fields if key == 4):
            begins = began * NANO + offset
            if ran:
                kernels.add(begins, lasted, names[name], streams - 1)
            else:
                steps.append(Span(f"step {name}", begins, begins + lasted))
    start, duration, name_of, stream = kernels.columns()
    none = np.full(len(start), -1, np.int32)
    columns = Kernels(start, duration, name_of, stream, np.full(len(start), np.nan), none, none)
    return Trace(
        f"{file}:{plane.name}" if ranks > 1 else file, "XLA xplane", tuple(names), columns, plane.name, rank, ranks,
        steps=in_order(steps, file), events=len(start),
    )  # fmt: skip


def _event(data: memoryview, plane: _Plane, file: str) -> tuple[str, float, float]:
    """Name, offset from the line's beginning and duration."""
    fields = {key: value for key, value in message(data) if key <= 3}
    name = plane.names.get(number(fields.get(1, 0)), "unnamed")
    offset, duration = (number(fields.get(key, 0)) * PICO for key in (2, 3))
    if duration < 0:
        raise fault(file, f"duration_ps must not be negative, but is of {name}", plane.name)
    return name, offset, duration
