"""The order of maps in memory: who copies them, how batch norm reads them, and which algorithm multiplies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfmodel.cost.compute import Processor
from perfmodel.graph import expand
from perfmodel.graph.kernels import Convolution, Stream
from perfmodel.graph.ops import Conv2d, Norm
from perfmodel.library import find
from perfmodel.prediction import predict
from perfmodel.specs import Strategy
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from perfmodel.graph import Graph
    from perfmodel.specs import Workload
    from perfmodel.specs.common import Precision


def resnet(precision: Precision = "fp16") -> Workload:
    workload: Workload = find("workloads", "resnet-50", {"training.precision": (precision, "test")})
    return workload


def graph(precision: Precision, *, channels_last: bool, persistent: bool = True) -> Graph:
    return expand(resnet(precision), microbatch=1, fused=False, channels_last=channels_last, persistent=persistent)


def copies(made: Graph) -> int:
    kernels = [k for b in made.body for op in b.ops for k in (*op.forward(), *op.backward())]
    return sum(isinstance(k, Stream) and k.name.endswith("layout") for k in kernels)


def passes(made: Graph) -> set[float]:
    return {float(op.passes) for b in made.body for op in b.ops if isinstance(op, Norm)}


def conv(*, kernel: int = 9, copied: bool = False, element: float = 2.0) -> Conv2d:
    return Conv2d("conv", 32, 64, 128, 28, 28, 28 * 28, kernel, element, copied=copied)


def test_only_half_precision_with_channels_first_is_copied() -> None:
    assert copies(graph("fp16", channels_last=False))
    assert not copies(graph("fp16", channels_last=True))
    assert not copies(graph("fp32", channels_last=False))
    assert not copies(graph("tf32", channels_last=False))


def test_copies_read_and_write_what_goes_in() -> None:
    x, y = 2 * 32 * 64 * 28 * 28, 2 * 32 * 128 * 28 * 28
    op = conv(copied=True)
    moved = [k.traffic for k in (*op.forward(), *op.backward()) if isinstance(k, Stream)]
    assert moved == [2 * x, 2 * y, 2 * (x + y)]


def test_batch_norm_reads_a_map_once_where_it_stays_on_the_chip() -> None:
    (streamed,) = passes(graph("fp16", channels_last=False))
    (kept,) = passes(graph("fp16", channels_last=True))
    assert kept < streamed
    assert passes(graph("fp16", channels_last=True, persistent=False)) == {streamed}
    assert passes(graph("fp32", channels_last=True)) == {streamed}


def test_channels_last_is_faster_in_half_precision_only() -> None:
    machine = find("hardware", "dgx-a100-80gb")

    def time(precision: Precision, layout: str) -> float:
        strategy = Strategy.model_validate({"layout": layout, "microbatch": 256, "dp": 1})
        return predict(resnet(precision), machine, strategy).step_time

    assert time("fp16", "channels-last") < 0.9 * time("fp16", "channels-first")
    assert time("tf32", "channels-last") == time("tf32", "channels-first")


def test_winograd_saves_multiplications_of_windows_one_pixel_apart() -> None:
    savings = {area: conv(kernel=area).forward()[0] for area in (1, 9, 25)}
    assert [k.saving for k in savings.values() if isinstance(k, Convolution)] == pytest.approx(
        [1, 2.25, 2.78], rel=1e-2
    )


@pytest.mark.parametrize(("machine", "spares"), [("rtx-3090-8gpu-pcie", True), ("dgx-a100-80gb", False)])
def test_tf32_leaves_windows_to_plain_units_where_these_are_as_fast(machine: str, spares: bool) -> None:
    """A GeForce board multiplies fp32 and tf32 at one rate; tensor cores of A100 are eight times as fast."""
    (kernel,) = conv(element=4.0).forward()
    assert isinstance(kernel, Convolution)
    part = Processor(find("hardware", machine).device, "tf32").time(kernel)
    assert (part.inputs["depth"] < kernel.depth) is spares  # type: ignore[union-attr]


def test_the_gradient_of_few_filters_keeps_all_cores_busy() -> None:
    """64 x 64 filters are one tile: not split, one core of 108 would add up the pixels of the whole batch."""
    op = Conv2d("conv", 256, 64, 64, 56, 56, 56 * 56, 1, 2.0)
    processor = Processor(find("hardware", "dgx-a100-80gb").device, "fp16")
    forward, gradient = op.forward()[0], op.backward()[-1]
    assert duration(processor.time(gradient)) < 3 * duration(processor.time(forward))


def test_a_precision_may_state_one_share_alone() -> None:
    efficiency = find("hardware", "dgx-a100-80gb").device.efficiency
    assert efficiency.products("tf32").matmul == efficiency.matmul
    assert efficiency.products("tf32").convolution != efficiency.convolution
    assert efficiency.products("fp16") is efficiency
