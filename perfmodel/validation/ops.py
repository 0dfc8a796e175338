"""Kernel tables: products, convolutions, attention, streams, recurrent cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.cost.compute import Processor
from perfmodel.graph.kernels import Gemm, Kernel, Stream
from perfmodel.graph.ops import Attention, Conv2d, Lstm
from perfmodel.specs.common import ELEMENT_BYTES, STORED_BYTES
from perfmodel.timeline import duration
from perfmodel.validation.tables import InexpressibleError, Row, Table, machines, number, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.specs import Hardware

ATTENTION_KINDS = ("context", "encoder", "fwd", "sdp_fwd", "sdp_bwd")
REDUCTIONS = ("ln", "softmax", "rmsnorm/layernorm")
CONVOLUTION_PASSES = ("fwd", "dgrad", "wgrad")


def _processor(row: Row, hardware: Hardware) -> Processor:
    precision = row["precision"].partition("(")[0]
    if precision not in hardware.device.compute.peak:
        raise InexpressibleError(f"no peak for {row['precision']} on {hardware.device.name}")
    return Processor(hardware.device, precision)


def _time(kernels: tuple[Kernel, ...], processor: Processor) -> float:
    return float(sum(duration(processor.time(kernel)) for kernel in kernels))


def _element(processor: Processor) -> float:
    return ELEMENT_BYTES[processor.precision]


def gemm(row: Row, hardware: Hardware) -> float:
    """One product, or a batch of them."""
    processor = _processor(row, hardware)
    m, n, k = (size(row, c) for c in "mnk")
    element, stored = _element(processor), STORED_BYTES[processor.precision]
    operand = element if element < stored else None
    return _time((Gemm("gemm", m, n, k, stored, size(row, "batch", 1.0), operand),), processor)


def attention(row: Row, hardware: Hardware) -> float:
    """Fused attention over whole sequences, forward or backward; decoding is inference."""
    kind = row["kind"]
    if kind not in ATTENTION_KINDS:
        raise InexpressibleError(f"attention of kind {kind}")
    if number(row, "window", 0.0):
        raise InexpressibleError("windowed attention")
    processor = _processor(row, hardware)
    op = Attention(
        "attention", size(row, "batch"), size(row, "q_len"), size(row, "kv_len"), size(row, "heads"),
        size(row, "kv_heads"), size(row, "head_dim"), STORED_BYTES[processor.precision],
        causal=bool(number(row, "causal", 0.0)), fused=True, dropout=False,
    )  # fmt: skip
    return _time(op.backward() if kind == "sdp_bwd" else op.forward(), processor)


def convolution(row: Row, hardware: Hardware) -> float:
    """One pass of a convolution."""
    if row["pass"] not in CONVOLUTION_PASSES:
        raise InexpressibleError(f"pass {row['pass']}")
    processor = _processor(row, hardware)
    h, w, r, s = (size(row, c) for c in ("h", "w", "r", "s"))
    out = [
        (extent + 2 * number(row, f"pad_{axis}", 0.0) - kernel) // size(row, f"stride_{axis}", 1.0) + 1
        for extent, kernel, axis in ((h, r, "h"), (w, s, "w"))
    ]
    if min(out) < 1:
        raise InexpressibleError("the kernel exceeds the map")
    op = Conv2d(
        "conv", size(row, "n"), size(row, "c"), size(row, "k"), out[0], out[1], h * w, r * s,
        _element(processor), size(row, "groups", 1.0),
    )  # fmt: skip
    kernels = (*op.forward(), *op.backward())
    return _time((kernels[CONVOLUTION_PASSES.index(row["pass"])],), processor)


def stream(row: Row, hardware: Hardware) -> float:
    """A kernel that moves the bytes that the table states."""
    processor = Processor(hardware.device, next(iter(hardware.device.compute.peak)))
    return _time((Stream(row["op"], size(row, "bytes"), reduces=row["op"] in REDUCTIONS),), processor)


def recurrent(row: Row, hardware: Hardware) -> float:
    """A recurrent layer: forward, or backward to its inputs or to its weights."""
    if row["cell"] != "lstm":
        raise InexpressibleError(f"recurrent cell {row['cell']}")
    processor = _processor(row, hardware)
    hidden, batch, steps = (size(row, c) for c in ("hidden", "batch", "timesteps"))
    op = Lstm("lstm", batch, steps, hidden, hidden, _element(processor))
    *inputs, weights = op.backward()
    passes = {"fwd": op.forward(), "bwd_inputs": tuple(inputs), "bwd_weights": (weights,)}
    if row["pass"] not in passes:
        raise InexpressibleError(f"pass {row['pass']}")
    return _time(passes[row["pass"]], processor)


def _machine(row: Row) -> str | None:
    return machines().devices.get(row["device"])


def _table(op: str, columns: str, predict: Callable[[Row, Hardware], float]) -> Table:
    def group(row: Row) -> str:
        return f"{op} {row['device']} {row['precision'].partition('(')[0]}"

    return Table(frozenset({"device", "precision", "time_us", *columns.split()}), group, _machine, predict)


OPS = (
    _table("gemm", "m n k batch", gemm),
    _table("attention", "q_len kv_len heads head_dim kind", attention),
    _table("convolution", "n c h w k r s pass", convolution),
    _table("stream", "op bytes", stream),
    _table("recurrent", "cell hidden batch timesteps pass", recurrent),
)
"""Kinds of kernel tables, by their columns."""
