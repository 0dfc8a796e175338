"""Kernel tables: products, convolutions, attention, streams, recurrent cells, experts, as kernels of ours."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from perfmodel.cost.compute import Processor
from perfmodel.graph.kernels import Gemm, Kernel, Stream
from perfmodel.graph.ops import Attention, Conv2d, Experts, Lstm
from perfmodel.specs.common import ELEMENT_BYTES, STORED_BYTES, Precision
from perfmodel.timeline import duration
from perfmodel.validation.tables import InexpressibleError, Row, Table, machines, number, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.specs import Hardware
    from perfmodel.specs.hardware import Device

ATTENTION_KINDS = ("context", "encoder", "fwd", "sdp_fwd", "sdp_bwd")
REDUCTIONS = ("ln", "softmax", "rmsnorm/layernorm")
PASSES = {"bwd_data": "dgrad", "bwd_weights": "wgrad", "bwd_inputs": "dgrad"}
"""Other names of the passes fwd, dgrad and wgrad."""
PRECISIONS: dict[str, Precision] = {
    "fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "bfloat16": "bf16", "fp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4",
    "int8": "int8", "sq_int8": "int8", "tf32": "tf32", "fp32(TF32 likely)": "tf32", "fp16(storage,fp32 math)": "fp32",
    "FP16 tensor cores enabled": "fp16", "FP32 no tensor cores": "fp32", "BF16": "bf16", "FP8": "fp8",
}  # fmt: skip
"""What tables call the precisions whose products are as wide as their operands."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one row of a table timed."""

    op: str
    precision: Precision
    kernels: tuple[Kernel, ...]


def measured_time(measured: Measured, device: Device) -> float:
    """The time of its kernels, one after the other; raises InexpressibleError where the device lacks the precision."""
    if measured.precision not in device.compute.peak:
        raise InexpressibleError(f"no peak for {measured.precision} on {device.name}")
    processor = Processor(device, measured.precision, sustained=False)
    return float(sum(duration(processor.time(kernel)) for kernel in measured.kernels))


def _precision(row: Row) -> Precision:
    text = row["precision"]
    if text not in PRECISIONS:
        raise InexpressibleError(f"precision {text}")
    return PRECISIONS[text]


def _operand(precision: Precision) -> float | None:
    element, stored = ELEMENT_BYTES[precision], STORED_BYTES[precision]
    return element if element < stored else None


def seconds(row: Row) -> float:
    """The measured time; papers on attention print the rate of half the products where it is causal."""
    if row["time_us"] or row.get("kind") != "fwd":
        return number(row, "time_us", 0.0) * 1e-6
    sizes = (size(row, c) for c in ("batch", "heads", "q_len", "kv_len", "head_dim"))
    return 4 * prod(sizes) / (1 + number(row, "causal")) / (size(row, "tflops") * 1e12)


def gemm(row: Row) -> Measured:
    """One product, or a batch of them; where the timing holds the cast of an operand, that too."""
    precision = _precision(row)
    m, n, k = (size(row, c) for c in "mnk")
    stored, operand = STORED_BYTES[precision], _operand(precision)
    product = Gemm("gemm", m, n, k, stored, size(row, "batch", 1.0), operand)
    if operand is None or "quantis" not in row.get("notes", ""):
        return Measured("gemm", precision, (product,))
    return Measured("cast and gemm", precision, (Stream("cast", m * k * (stored + operand)), product))


def attention(row: Row) -> Measured:
    """Fused attention over whole sequences, forward or backward; decoding is inference."""
    kind = row["kind"]
    if kind not in ATTENTION_KINDS:
        raise InexpressibleError(f"attention of kind {kind}")
    precision = _precision(row)
    window = number(row, "window", 0.0)
    op = Attention(
        "attention", size(row, "batch"), size(row, "q_len"), size(row, "kv_len"), size(row, "heads"),
        size(row, "kv_heads"), size(row, "head_dim"), STORED_BYTES[precision],
        causal=bool(number(row, "causal", 0.0)), fused=True, dropout=False, window=window or None,
    )  # fmt: skip
    return Measured("attention", precision, op.backward() if kind == "sdp_bwd" else op.forward())


def convolution(row: Row) -> Measured:
    """One pass of a convolution."""
    kind = PASSES.get(row["pass"], row["pass"])
    if kind not in PASSES.values() and kind != "fwd":
        raise InexpressibleError(f"pass {row['pass']}")
    precision = _precision(row)
    h, w, r, s = (size(row, c) for c in ("h", "w", "r", "s"))
    out = [
        (extent + 2 * number(row, f"pad_{axis}", 0.0) - kernel) // size(row, f"stride_{axis}", 1.0) + 1
        for extent, kernel, axis in ((h, r, "h"), (w, s, "w"))
    ]
    if min(out) < 1:
        raise InexpressibleError("the kernel exceeds the map")
    op = Conv2d(
        "conv", size(row, "n"), size(row, "c"), size(row, "k"), out[0], out[1], h * w, r * s,
        ELEMENT_BYTES[precision], size(row, "groups", 1.0),
    )  # fmt: skip
    kernels = (*op.forward(), *op.backward())
    return Measured("convolution", precision, (kernels[("fwd", "dgrad", "wgrad").index(kind)],))


def stream(row: Row) -> Measured:
    """A kernel that moves the bytes that the table states."""
    reduces = row["op"] in REDUCTIONS
    kernel = Stream(row["op"], size(row, "bytes"), reduces=reduces)
    return Measured("reduction" if reduces else "stream", "fp32", (kernel,))


def recurrent(row: Row) -> Measured:
    """A recurrent layer: forward, or backward to its inputs or to its weights."""
    if row["cell"].lower() != "lstm":
        raise InexpressibleError(f"recurrent cell {row['cell']}")
    precision = _precision(row)
    hidden, batch, steps = (size(row, c) for c in ("hidden", "batch", "timesteps"))
    op = Lstm("lstm", batch, steps, hidden, hidden, ELEMENT_BYTES[precision])
    *inputs, weights = op.backward()
    passes = {"fwd": op.forward(), "dgrad": tuple(inputs), "wgrad": (weights,)}
    kind = PASSES.get(row["pass"], row["pass"])
    if kind not in passes:
        raise InexpressibleError(f"pass {row['pass']}")
    return Measured("recurrent", precision, passes[kind])


def experts(row: Row) -> Measured:
    """The feed-forward layer of a mixture on one rank: its experts, each of its products split over `tp`."""
    precision = _precision(row)
    held = size(row, "experts") / size(row, "ep")
    op = Experts(
        "experts", size(row, "tokens") * size(row, "topk") / size(row, "ep"), size(row, "hidden"),
        size(row, "inter") / size(row, "tp"), held, STORED_BYTES[precision], operand=_operand(precision),
    )  # fmt: skip
    return Measured("experts", precision, op.forward())


LONG_KINDS: dict[str, tuple[Callable[[Row], Measured], dict[str, str]]] = {
    "gemm": (gemm, {"M": "m", "N": "n", "K": "k"}),
    "conv2d": (convolution, {
        "N": "n", "C": "c", "H": "h", "W": "w", "K": "k", "R": "r", "S": "s", "pad_h": "pad_h", "pad_w": "pad_w",
        "Vertical_stride": "stride_h", "Horizontal_stride": "stride_w",
    }),
    "rnn LSTM": (recurrent, {"hidden": "hidden", "N": "batch", "T": "timesteps"}),
}  # fmt: skip
"""Kinds of a table that writes sizes as ``M=1024 N=512``: how they are read, and what the sizes are called elsewhere."""


def long(row: Row) -> Measured:
    """A row whose sizes stand in one column, as pairs."""
    if row["kind"] not in LONG_KINDS:
        raise InexpressibleError(f"kind {row['kind']}")
    express, names = LONG_KINDS[row["kind"]]
    sizes = dict(pair.partition("=")[::2] for pair in row["params"].split())
    cell = {"cell": "lstm"} if row["kind"].startswith("rnn") else {}
    return express(row | cell | {names[key]: value for key, value in sizes.items() if key in names})


EXPRESS: tuple[tuple[str, Callable[[Row], Measured]], ...] = (
    ("m n k batch", gemm),
    ("q_len kv_len heads head_dim kind", attention),
    ("n c h w k r s pass", convolution),
    ("op bytes", stream),
    ("cell hidden batch timesteps pass", recurrent),
    ("tokens hidden inter topk experts tp ep", experts),
    ("kind params pass", long),
)
"""Columns of sizes, and how a row of them is read."""
COMMON = frozenset({"device", "precision", "time_us"})


def _machine(row: Row) -> str | None:
    return machines().devices.get(row["device"])


def _table(columns: str, express: Callable[[Row], Measured]) -> Table:
    def predict(row: Row, hardware: Hardware) -> float:
        return measured_time(express(row), hardware.device) + machines().harness_of(row)

    def group(row: Row) -> str:
        name = row["kind"] if express is long else express.__name__
        return f"{name} {row['device']} {row['precision']}"

    return Table(COMMON | set(columns.split()), group, _machine, predict, seconds)


OPS = tuple(_table(columns, express) for columns, express in EXPRESS)
"""Kinds of kernel tables, by their columns."""


def express_of(header: frozenset[str] | set[str]) -> Callable[[Row], Measured] | None:
    """How the rows of a table with these columns are read."""
    return next((express for columns, express in EXPRESS if COMMON | set(columns.split()) <= header), None)
