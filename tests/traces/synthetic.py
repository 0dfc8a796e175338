"""Synthetic traces in the format of the PyTorch profiler: nobody ran this, the times are made up.

`python tests/traces/synthetic.py FOLDER` writes the fixtures `synthetic-rank0.json.gz` and `synthetic-rank1.json.gz`: three steps
of a small network of products and a convolution on two ranks, with gradients summed while the backward pass goes on; and
`synthetic-products.json.gz`: many distinct products; and `perceptron-rank0.json.gz`, `perceptron-rank1.json.gz`: steps of
`perceptron.yaml`, whose products take as long as those of the former.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Event = dict[str, Any]
DEVICE = "NVIDIA A100-SXM4-80GB"
SHAPES = [
    (2048, 4096, 1024),
    (2048, 1024, 4096),
    (4096, 4096, 1024),
    (1000, 3000, 500),
    (8192, 2048, 2048),
    (512, 512, 512),
]
"""Rows, columns and depth of the products of a step."""
RATE, LAUNCH = 200e6, 6.0
"""FLOP for each microsecond of a product, and its least time: round numbers, of no device."""
DRAIN = 100
"""Of the inner dimension, that filling and draining take."""
CONV = ([32, 64, 56, 56], [64, 64, 3, 3])
BYTES_PER_US = 1.2e6


class Recorder:
    """A host that launches, and a device with two streams that runs what was launched."""

    def __init__(self, rank: int) -> None:
        self.rank, self.events, self.number, self.host = rank, list[Event](), 0, 0.0
        self.stream = {7: 0.0, 20: 0.0}
        self.memory = 2**30

    def event(self, category: str, name: str, start: float, duration: float, **args: Any) -> None:
        on_device = category in {"kernel", "gpu_memcpy"}
        place = {"pid": 0, "tid": args["stream"]} if on_device else {"pid": 4242, "tid": 4242}
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                **place,
                "ts": round(start, 3),
                "dur": round(duration, 3),
                "args": args,
            }
        )

    def run(self, op: str, kernel: str, time: float, dims: list[Any], *, kind: str = "float", stream: int = 7, category: str = "kernel",
            concrete: list[str] | None = None, **more: Any) -> None:  # fmt: skip
        """One operator that launches one kernel."""
        self.number += 1
        types = [kind if dim else "" for dim in dims]
        self.event("cpu_op", op, self.host, 5.0, **{"External id": self.number, "Input Dims": dims, "Input type": types,
                   "Concrete Inputs": concrete or [""] * len(dims)})  # fmt: skip
        self.event(
            "cuda_runtime",
            "cudaLaunchKernel",
            self.host + 1,
            3.0,
            **{"External id": self.number, "correlation": self.number},
        )
        start = max(self.host + 5.0, self.stream[stream])
        self.event(category, kernel, start, time, stream=stream, device=0,
                   **{"External id": self.number, "correlation": self.number}, **more)  # fmt: skip
        self.stream[stream] = start + time
        self.host += 6.0

    def allocate(self, size: int) -> None:
        self.memory += size
        self.events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 4242, "tid": 4242, "ts": round(self.host, 3),
                            "args": {"Device Type": 1, "Device Id": 0, "Bytes": size, "Total Allocated": self.memory,
                                     "Total Reserved": 2**32}})  # fmt: skip

    def wait(self) -> None:
        """The host waits for the device."""
        self.host = max(self.host, *self.stream.values())


def step(r: Recorder, number: int) -> None:
    """Forward and backward of a few layers, one sum of gradients beside it and one after it, an update."""
    began = r.host
    r.run(
        "aten::copy_",
        "Memcpy HtoD (Pinned -> Device)",
        40.0,
        [[32, 3, 224, 224], [32, 3, 224, 224]],
        category="gpu_memcpy",
    )
    for m, n, k in SHAPES:
        r.allocate(4 * m * n)
        r.run("aten::addmm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", 2 * m * n * k / RATE + LAUNCH,
              [[n], [m, k], [k, n]], kind="c10::BFloat16")  # fmt: skip
        r.run("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>", 4 * m * n / BYTES_PER_US + 2,
              [[m, n]], kind="c10::BFloat16")  # fmt: skip
    r.run("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", 130.0, [*CONV, []],
          kind="c10::BFloat16", concrete=["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"])  # fmt: skip
    r.run("aten::native_layer_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>", 60.0,
          [[8192, 2048], [], [2048]], kind="c10::BFloat16")  # fmt: skip
    early: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 2, "In msg nelems": 4194304, "Out msg nelems": 4194304,
             "dtype": "BFloat16"}  # fmt: skip
    r.stream[20] = max(r.stream[20], r.stream[7] - 200.0)
    r.run("nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 150.0 + 30.0 * r.rank, [], stream=20,
          **early)  # fmt: skip
    r.stream[20] = max(r.stream[20], r.stream[7])
    r.run("nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 90.0 + 15.0 * number * (1 - r.rank),
          [], stream=20, **early)  # fmt: skip
    r.stream[7] = max(r.stream[7], r.stream[20])
    r.run(
        "aten::_foreach_add_",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>",
        120.0,
        [],
    )
    for m, n, _ in SHAPES:
        r.allocate(-4 * m * n)
    r.wait()
    r.event("user_annotation", f"ProfilerStep#{number}", began, r.host - began)
    r.host += 10.0


def product_time(m: int, n: int, k: int) -> float:
    """Of a device that nothing but filling and launching slows down."""
    return 2 * m * n * (k + DRAIN) / RATE + LAUNCH


def perceptron(r: Recorder, number: int) -> None:
    """A step of `perceptron.yaml`: three products, rectifiers, a loss, their gradients, which are summed meanwhile, an update."""
    began, rows, kind = r.host, 8192, "c10::BFloat16"
    layers = [(1024, 4096), (4096, 4096), (4096, 1024)]

    def product(op: str, m: int, n: int, k: int) -> None:
        dims = [[m, k], [k, n]] if op == "aten::mm" else [[n], [m, k], [k, n]]
        r.run(op, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", product_time(m, n, k), dims, kind=kind)

    def moved(op: str, name: str, elements: int, dims: list[Any]) -> None:
        r.run(op, f"void at::native::{name}", 2 * elements / BYTES_PER_US + 2, dims, kind=kind)

    for inputs, outputs in layers:
        product("aten::addmm", rows, outputs, inputs)
        if outputs == 4096:
            moved("aten::relu", "vectorized_elementwise_kernel<4, ReluFunctor>", 2 * rows * outputs, [[rows, outputs]])
    moved("aten::_log_softmax", "softmax_warp_forward<c10::BFloat16>", 3 * rows * 1024, [[rows, 1024], [], []])
    moved(
        "aten::_log_softmax_backward_data",
        "softmax_warp_backward<c10::BFloat16>",
        4 * rows * 1024,
        [[rows, 1024], [rows, 1024], []],
    )
    for inputs, outputs in reversed(layers):
        product("aten::mm", inputs, outputs, rows)
        if inputs == 4096:
            product("aten::mm", rows, inputs, outputs)
            moved(
                "aten::threshold_backward",
                "vectorized_elementwise_kernel<4, ThresholdFunctor>",
                3 * rows * inputs,
                [[rows, inputs]] * 2,
            )
    gradients: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 2, "In msg nelems": 25165824,
                                 "Out msg nelems": 25165824, "dtype": "BFloat16"}  # fmt: skip
    r.stream[20] = max(r.stream[20], r.stream[7] - 150.0)
    r.run("nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 240.0 + 15.0 * r.rank * number, [],
          stream=20, **gradients)  # fmt: skip
    r.stream[7] = max(r.stream[7], r.stream[20])
    r.run(
        "aten::_foreach_add_",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<BinaryOpListAlphaFunctor>",
        150.0,
        [],
    )
    r.wait()
    r.event("user_annotation", f"ProfilerStep#{number}", began, r.host - began)
    r.host += 10.0


def trace(rank: int, steps: int = 3, of: Callable[[Recorder, int], None] = step) -> dict[str, Any]:
    """The JSON of one rank."""
    recorder = Recorder(rank)
    for number in range(1, steps + 1):
        of(recorder, number)
    return {
        "schemaVersion": 1, "synthetic": "made by tests/traces/synthetic.py of perfmodel; nobody ran this",
        "deviceProperties": [{"id": 0, "name": DEVICE}], "record_shapes": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}, "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1700000000000000000, "traceEvents": recorder.events,
    }  # fmt: skip


def products() -> dict[str, Any]:
    """The JSON of a run of many distinct products, each twice, as a sweep over the layers of some networks gives."""
    recorder = Recorder(0)
    sizes = [(m, n, k) for m in (1024, 3000, 4096, 8192) for n in (1024, 2560, 5000) for k in (768, 1024, 3072, 4096)]
    for m, n, k in sizes * 2:
        recorder.run("aten::mm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", product_time(m, n, k),
                     [[m, k], [k, n]], kind="c10::BFloat16")  # fmt: skip
    return {
        "schemaVersion": 1, "synthetic": "made by tests/traces/synthetic.py of perfmodel; nobody ran this",
        "deviceProperties": [{"id": 0, "name": DEVICE}], "record_shapes": 1, "displayTimeUnit": "ms", "traceEvents": recorder.events,
    }  # fmt: skip


def large(size: int) -> Iterator[str]:
    """The text of a trace of about so many bytes, spaced as the profiler does, in pieces."""
    events = [event for event in trace(0)["traceEvents"] if event["cat"] != "user_annotation"]
    length = max(event["ts"] for event in events) + 1000
    whole = sum(len(json.dumps(event, indent=2)) for event in events)
    yield '{"schemaVersion": 1, "traceEvents": [\n'
    for number in range(max(1, size // whole)):
        moved = (event | {"ts": event["ts"] + number * length} for event in events)
        yield (",\n" if number else "") + ",\n".join(json.dumps(event, indent=2) for event in moved)
    yield "]}\n"


def main() -> None:
    """Write the fixtures."""
    folder = Path(sys.argv[1])
    for rank in range(2):
        raw = json.dumps(trace(rank), separators=(",", ":")).encode()
        (folder / f"synthetic-rank{rank}.json.gz").write_bytes(gzip.compress(raw, 9, mtime=0))
        raw = json.dumps(trace(rank, of=perceptron), separators=(",", ":")).encode()
        (folder / f"perceptron-rank{rank}.json.gz").write_bytes(gzip.compress(raw, 9, mtime=0))
    raw = json.dumps(products(), separators=(",", ":")).encode()
    (folder / "synthetic-products.json.gz").write_bytes(gzip.compress(raw, 9, mtime=0))


if __name__ == "__main__":
    main()
