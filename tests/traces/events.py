"""Events of the PyTorch profiler, as tests want them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.traces.reading import read_traces

if TYPE_CHECKING:
    from perfmodel.traces.trace import Trace

Event = dict[str, Any]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"
GEMM, CONV, RELU, NCCL = (
    "ampere_sgemm_128x64_nn",
    "cudnn_ampere_scudnn_128x64_relu",
    "void at::native::elementwise_kernel<4>",
    "ncclDevKernel_AllReduce",
)


def kernel(name: str, start: float, duration: float, *, stream: int = 7, **args: Any) -> Event:
    return event("kernel", name, start, duration, pid=0, tid=stream, args={"stream": stream, "device": 0} | args)


def op(name: str, start: float, duration: float, dims: list[Any] | None = None, **args: Any) -> Event:
    kinds = ["float" if one else "" for one in dims or []]
    shapes = {"Input Dims": dims, "Input type": kinds} if dims else {}
    return event("cpu_op", name, start, duration, args=shapes | args)


def step(number: int, start: float, duration: float) -> Event:
    return event("user_annotation", f"ProfilerStep#{number}", start, duration)


def event(category: str, name: str, start: float, duration: float, **more: Any) -> Event:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "ts": start,
        "dur": duration,
        "pid": 1,
        "tid": 1,
        "args": {},
    } | more


def written(folder: Path, events: Any, name: str = "run.json", **header: Any) -> Path:
    path = folder / name
    text = json.dumps({"schemaVersion": 1} | header | {"traceEvents": events}).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def read(folder: Path, events: Any, **header: Any) -> Trace:
    [trace] = read_traces([written(folder, events, **header)])
    return trace
