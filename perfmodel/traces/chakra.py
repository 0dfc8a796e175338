"""Execution traces: of PyTorch (operators with shapes, no times) and of MLCommons Chakra (nodes with a runtime)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.traces.opening import fault
from perfmodel.traces.protobuf import WireError, delimited, inner, message, number, text
from perfmodel.traces.table import Numbered, Table, time
from perfmodel.traces.trace import Calls, Kernels, Signature, Trace, frozen

if TYPE_CHECKING:
    from perfmodel.traces.opening import Source

FORM = "execution trace"
MICRO = 1e-6
UNTIMED = "records no times: operators are counted; with --hardware their times are predicted"
UNPLACED = "records how long nodes ran, not when: they are laid end to end, so nothing overlaps"


class ExecutionTraceReader:
    """Takes the nodes of a JSON file one by one."""

    def __init__(self, file: str) -> None:
        """Begin without nodes."""
        self.file, self.nodes = file, 0
        self._names, self._keys = Numbered[str](), Numbered[str]()
        self._signatures: list[Signature] = []
        self._calls = Table("ii")  # name, signature
        self._timed = Table("di")

    def take(self, key: str, value: Any) -> None:
        """One member of the file, or one of its nodes; raises InputError where a node is none."""
        if key not in {"nodes", "workload_graph"}:
            return
        self.nodes += 1
        if not isinstance(value, dict):
            raise fault(self.file, f"must be an object, not {type(value).__name__}", f"node {self.nodes:,}")
        if key == "nodes":
            self._operator(value)
        else:
            self.timed(value.get("Name", ""), value.get("runtime", 0), on_host=value.get("is_cpu_op") is True)

    def _operator(self, node: dict[str, Any]) -> None:
        """Keys changed with version 1.0.2: shapes moved into the inputs."""
        name, inputs = node.get("name"), node.get("inputs")
        if not isinstance(name, str) or "::" not in name:
            return
        nested = inputs if isinstance(inputs, dict) else {
            "shapes": node.get("input_shapes"), "types": node.get("input_types"), "values": inputs,
        }  # fmt: skip
        shapes, types, values = (_list(nested.get(key)) for key in ("shapes", "types", "values"))
        concrete = ["" if _is_tensor(one) else str(one) for one in types]
        concrete = [str(value) if kind else "" for kind, value in zip(concrete, values, strict=False)]
        key = f"{name}{shapes}{types}{concrete}"
        known = len(self._keys)
        row = self._keys[key]
        if row == known:
            self._signatures.append(Signature(name, frozen(shapes), tuple(map(_type, types)), tuple(concrete)))
        self._calls.add(self._names[name], row)

    def timed(self, name: Any, runtime: Any, *, on_host: bool) -> None:
        """A node with a runtime; those of the host overlap with what they launch and are left out."""
        place = f"node {self.nodes:,}"
        duration = time(runtime, MICRO, "runtime", self.file, place)
        if duration < 0:
            raise fault(self.file, f"runtime must not be negative, but is {runtime}", place)
        if not on_host:
            self._timed.add(duration, self._names[str(name)])

    def trace(self) -> Trace:
        """What was read; raises InputError where there is nothing."""
        if not self.nodes:
            raise fault(self.file, "has no nodes")
        duration, name = self._timed.columns()
        end = np.cumsum(duration)
        none, zero = np.full(len(end), -1, np.int32), np.zeros(len(end), np.int32)
        kernels = Kernels(end - duration, duration, name, zero, np.full(len(end), np.nan), none, none)
        of, signature = self._calls.columns()
        return Trace(
            self.file, FORM, tuple(self._names), kernels, signatures=tuple(self._signatures),
            calls=Calls(of, signature, np.full(len(of), -1, np.int32)), events=self.nodes, notes=(UNPLACED if len(end) else UNTIMED,),
        )  # fmt: skip


def read_chakra(source: Source) -> Trace:
    """A Chakra trace as messages (.et): nodes with name (field 2), microseconds (7) and attributes (10)."""
    reader = ExecutionTraceReader(source.name)
    try:
        for index, data in enumerate(delimited(source.stream)):
            if index:
                reader.nodes += 1
                _node(reader, data)
    except WireError as error:
        raise fault(source.name, "is no Chakra execution trace, or is cut off") from error
    return reader.trace()


def _node(reader: ExecutionTraceReader, data: memoryview) -> None:
    name, runtime, on_host = "", 0, False
    for key, value in message(data):
        if key == 2:
            name = text(value)
        elif key == 7:
            runtime = number(value)
        elif key == 10:
            attribute = list(message(inner(value)))
            if any(k == 1 and text(v) == "is_cpu_op" for k, v in attribute):
                on_host = any(k > 2 and v == 1 for k, v in attribute)
    reader.timed(name, runtime, on_host=on_host)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_tensor(kind: Any) -> bool:
    return isinstance(kind, str) and "Tensor" in kind


def _type(kind: Any) -> str:
    """What Kineto calls it: "float" for "Tensor(float)"."""
    return str(kind).removeprefix("Tensor(").removesuffix(")")
