"""Operators of a trace, each distinct one timed, beside what the operator model says of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.compute import Processor
from perfmodel.timeline import duration
from perfmodel.traces.classes import Class, classify
from perfmodel.traces.shapes import KINDS, WORDS, expressed, outputs_of
from perfmodel.traces.spans import shared
from perfmodel.validation.tables import InexpressibleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device
    from perfmodel.specs.strategy import Attention as AttentionKind
    from perfmodel.traces.shapes import Known
    from perfmodel.traces.trace import Signature, Trace
    from perfmodel.validation.ops import Measured

DEEPEST = 12
"""Operators within one another that are looked through."""
BESIDE = 0.1
"""Share of its time for which a kernel may run beside others; some begin before the one ahead has ended."""
KERNELS: tuple[tuple[AttentionKind, str], ...] = (
    ("cudnn", "cudnn"),
    ("flash-2", "flash_fwd"),
    ("flash-2", "flash_bwd"),
)
"""Which kernel of attention it was, by what its name contains."""
NEVER = frozenset({"memcpy", "collective"})
"""Classes of kernels that do not count to the operator that launched them."""


@dataclass(frozen=True, slots=True)
class TracedOperator:
    """Calls of one operator with the same shapes."""

    signature: Signature
    kind: Class
    measured: Measured
    calls: int
    time: float
    """Of all kernels of a call, the median over the calls."""
    total: float
    predicted: float | None = None
    """None where the device lacks the precision."""

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one."""
        return None if self.predicted is None else self.predicted / self.time - 1


@dataclass(frozen=True, slots=True)
class TracedOperators:
    """What the shapes of a trace tell."""

    operators: tuple[TracedOperator, ...]
    reasons: Counter[str]
    """Why kernels do not count, with their time in seconds."""
    time: float
    """Of all kernels that compute."""

    @property
    def covered(self) -> float:
        """Share of that time that the operators take."""
        return sum(one.total for one in self.operators) / self.time if self.time else 0.0


def traced_operators(traces: Sequence[Trace], device: Device | None = None) -> TracedOperators:
    """Operators with shapes that we have words for.

    Args:
        traces: of one or more ranks.
        device: predicts the time of each; None only reads them.
    """
    times: dict[tuple[Signature, Precision], list[float]] = defaultdict(list)
    words: dict[tuple[Signature, Precision], tuple[Class, Measured, frozenset[str]]] = {}
    reasons: Counter[str] = Counter()
    whole = 0.0
    for trace in traces:
        outputs = dict(known for one in trace.signatures if (known := outputs_of(one)))
        for call in _calls(trace):
            whole += call.time
            try:
                _on(device, trace)
                signature, kind, measured = _judged(call, outputs, on_host=trace.on_host)
            except InexpressibleError as error:
                reasons[str(error)] += call.time  # type: ignore[assignment]
                continue
            key = (signature, measured.precision)
            times[key].append(call.time)
            words[key] = kind, measured, call.kernels
    made = [_operator(key[0], *words[key], given, device) for key, given in times.items()]
    return TracedOperators(tuple(sorted(made, key=lambda one: -one.total)), reasons, whole)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an operator."""

    signature: Signature | None
    """None where no operator with shapes launched the kernels."""
    kernels: frozenset[str]
    time: float
    beside: bool
    """Others ran at the same time."""
    around: bool = False
    """On a CPU: it called another of its kind, and its own time is what it spent around that."""


def _on(device: Device | None, trace: Trace) -> None:
    """Raise InexpressibleError where the operators ran on a host and the device is none: their time is that of dispatching."""
    if trace.on_host and device is not None and device.kind != "cpu":
        raise InexpressibleError(f"operators of the CPU, which tell nothing of {device.name}")


def _judged(call: _Call, outputs: Known, *, on_host: bool) -> tuple[Signature, Class, Measured]:
    """What a call executes; raises InexpressibleError where it tells nothing of one operator."""
    if call.signature is None:
        raise InexpressibleError("kernels without the shapes of an operator")
    if call.around:
        raise InexpressibleError(f"{call.signature.op} around the operator that does its work")
    if call.beside:
        raise InexpressibleError("kernels that ran beside others, which tell nothing of one alone")
    kind, measured = expressed(call.signature, call.kernels, outputs)
    if not _runs(kind, call.kernels, on_host=on_host):
        raise InexpressibleError(f"{call.signature.op} that ran no kernel of its class")
    return call.signature, kind, measured


def _operator(
    signature: Signature,
    kind: Class,
    measured: Measured,
    kernels: frozenset[str],
    times: list[float],
    device: Device | None,
) -> TracedOperator:
    predicted = None
    if device is not None and (
        measured.precision in device.compute.peak or kind not in {"GEMM", "convolution", "attention"}
    ):
        kernel: AttentionKind = next((k for k, mark in KERNELS if any(mark in name for name in kernels)), "flash")
        precision = measured.precision if measured.precision in device.compute.peak else next(iter(device.compute.peak))
        processor = Processor(device, precision, kernel, sustained=False)
        predicted = float(sum(duration(processor.time(one)) for one in measured.kernels))
    return TracedOperator(signature, kind, measured, len(times), float(np.median(times)), sum(times), predicted)


def _runs(kind: Class, kernels: frozenset[str], *, on_host: bool) -> bool:
    """Whether the kernels are those of the operator, and not only a copy before it."""
    found = {classify(name) for name in kernels}
    return (
        on_host
        or kind in found
        or (kind == "convolution" and "GEMM" in found)
        or kind in {"elementwise", "normalisation"}
    )


def _calls(trace: Trace) -> list[_Call]:
    """Calls with the kernels that they ran, in order; those that belong to none are together.

    A kernel belongs to the innermost operator around its launch that we have words for: cuDNN's gradients are launched by
    operators without shapes, within one that has them.
    """
    kernels = trace.kernels
    counts = np.array([classify(name) not in NEVER for name in trace.names], dtype=bool)
    rows = np.flatnonzero(counts[kernels.name]) if len(kernels) else np.zeros(0, np.int64)
    owners, beside = _owners(trace), shared(kernels.start, kernels.end) > BESIDE * kernels.duration
    around = _around(trace)
    by_call: dict[int, list[int]] = defaultdict(list)
    for row, op in zip(rows.tolist(), kernels.op[rows].tolist(), strict=True):
        by_call[int(owners[op]) if op >= 0 else -1].append(row)
    return [
        _Call(
            trace.signatures[trace.calls.signature[op]] if op >= 0 else None,
            frozenset(trace.names[kernels.name[row]] for row in members) if op >= 0 else frozenset(),
            float(kernels.duration[members].sum()),
            not trace.on_host and bool(np.any(beside[members])),
            trace.on_host and op >= 0 and bool(around[op]),
        )
        for op, members in sorted(by_call.items())
    ]


def _good(trace: Trace) -> NDArray[np.bool_]:
    """Of each call, whether we have words for its operator."""
    known = np.array([signature.op in WORDS for signature in trace.signatures] or [False])
    return np.asarray((trace.calls.signature >= 0) & known[trace.calls.signature], dtype=bool)


def _around(trace: Trace) -> NDArray[np.bool_]:
    """Of each call, whether it called another of its kind: `linear` leaves the product to `addmm`, which copies its bias first."""
    found = np.zeros(len(trace.calls), dtype=bool)
    for names in KINDS:
        named = np.array([signature.op in names for signature in trace.signatures] or [False])
        of_kind = (trace.calls.signature >= 0) & named[trace.calls.signature]
        inner = np.flatnonzero(of_kind)
        for _ in range(DEEPEST):
            inner = trace.calls.caller[inner].astype(np.int64)
            inner = np.unique(inner[inner >= 0])
            found[inner] |= of_kind[inner]
    return found


def _owners(trace: Trace) -> NDArray[np.int64]:
    """Of each call, the innermost around it whose operator we have words for; itself where none is, -1 without shapes."""
    calls = trace.calls
    good = _good(trace)
    itself = np.where(calls.signature >= 0, np.arange(len(calls)), -1)
    owner = np.where(good, np.arange(len(calls)), calls.caller.astype(np.int64))
    for _ in range(DEEPEST):
        on = (owner >= 0) & ~good[owner] if len(calls) else np.zeros(0, bool)
        if not np.any(on):
            break
        owner[on] = calls.caller[owner[on]]
    return np.where((owner >= 0) & good[owner], owner, itself) if len(calls) else owner
