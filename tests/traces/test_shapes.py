"""Operators with shapes as kernels of ours, and beside the operator model."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import pytest
from events import CONV, FIXTURES, GEMM, NCCL, RELU, kernel, op, read

from perfmodel.cost.compute import Processor
from perfmodel.graph.kernels import Convolution, FlashAttention, Gemm, Stream
from perfmodel.library import find
from perfmodel.timeline import duration
from perfmodel.traces.operators import traced_operators
from perfmodel.traces.reading import read_traces
from perfmodel.traces.shapes import CONVOLUTIONS, WORDS, expressed, outputs_of
from perfmodel.traces.trace import Signature
from perfmodel.validation.tables import InexpressibleError

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.graph.kernels import Kernel
    from perfmodel.specs import Hardware

BF16 = "c10::BFloat16"


def kernels_of(
    name: str,
    dims: tuple[Any, ...],
    kind: str = BF16,
    *,
    ran: str | tuple[str, ...] = "k",
    concrete: tuple[str, ...] = (),
) -> tuple[Kernel, ...]:
    signature = Signature(name, dims, tuple(kind if one else "" for one in dims), concrete)
    return expressed(signature, frozenset({ran} if isinstance(ran, str) else ran), {})[1].kernels


class TestProducts:
    @pytest.mark.parametrize(
        ("name", "dims", "sizes"),
        [
            ("aten::mm", ((3, 5), (5, 7)), (3, 7, 5, 1)),
            ("aten::addmm", ((7,), (3, 5), (5, 7)), (3, 7, 5, 1)),
            ("aten::bmm", ((2, 3, 8), (2, 8, 16)), (3, 16, 8, 2)),
            ("aten::baddbmm", ((2, 3, 16), (2, 3, 8), (2, 8, 16)), (3, 16, 8, 2)),
            ("aten::linear", ((2, 4, 5), (7, 5), (7,)), (8, 7, 5, 1)),
        ],
    )
    def test_have_rows_columns_depth_and_count(self, name: str, dims: tuple[Any, ...], sizes: tuple[int, ...]) -> None:
        [made] = kernels_of(name, dims)
        assert isinstance(made, Gemm)
        assert [made.rows, made.columns, made.depth, made.count] == list(sizes)
        assert made.element == 2
        assert made.operand is None

    @pytest.mark.parametrize(
        ("kind", "ran", "precision"),
        [("float", GEMM, "fp32"), ("float", "cutlass_80_tensorop_s1688gemm_64x64", "tf32"), ("float", "sm80_xmma_gemm_tf32f32", "tf32"),
         ("c10::Half", GEMM, "fp16"), ("double", GEMM, "fp64"), ("c10::Float8_e4m3fn", GEMM, "fp8")],
    )  # fmt: skip
    def test_know_tensor_cores_by_the_kernel(self, kind: str, ran: str, precision: str) -> None:
        signature = Signature("aten::mm", ((3, 5), (5, 7)), (kind, kind))
        assert expressed(signature, frozenset({ran} if isinstance(ran, str) else ran), {})[1].precision == precision

    def test_in_16_bits_whose_rows_begin_anywhere_leave_the_matrix_units_as_in_attention(self) -> None:
        aligned = [kernels_of("aten::bmm", ((2, 9, size), (2, size, 64)))[0] for size in (64, 197)]
        assert [made.aligned for made in aligned] == [True, False]  # type: ignore[union-attr]


class TestConvolutions:
    @pytest.mark.parametrize("name", sorted(CONVOLUTIONS))
    def test_take_the_output_from_padding_and_stride(self, name: str) -> None:
        padding, stride = CONVOLUTIONS[name]
        concrete = ["" for _ in range(9)]
        concrete[padding], concrete[stride] = "[3, 3]", "[2, 2]"
        [made] = kernels_of(name, ((32, 3, 224, 224), (64, 3, 7, 7)), concrete=tuple(concrete))
        assert isinstance(made, Convolution)
        assert (made.rows, made.columns, made.depth) == (32 * 112 * 112, 64, 3 * 49)

    def test_backward_give_both_gradients_unless_the_input_is_an_image(self) -> None:
        inner = kernels_of("aten::convolution_backward", ((8, 32, 28, 28), (8, 16, 28, 28), (32, 16, 3, 3)))
        image = kernels_of("aten::convolution_backward", ((8, 32, 28, 28), (8, 3, 28, 28), (32, 3, 3, 3)))
        asked = kernels_of("aten::convolution_backward", ((8, 32, 28, 28), (8, 16, 28, 28), (32, 16, 3, 3)),
                           concrete=("",) * 10 + ("[False, True, True]",))  # fmt: skip
        assert [[type(one).__name__ for one in made] for made in (inner, image, asked)] == [
            ["Convolution", "Convolution"], ["Convolution"], ["Convolution", "Stream"],
        ]  # fmt: skip

    def test_of_2021_learn_their_output_from_the_backward_pass(self) -> None:
        backward = Signature(
            "aten::cudnn_convolution_backward", ((8, 16, 28, 28), (8, 32, 14, 14), (32, 16, 3, 3)), ("float",) * 3
        )
        known = outputs_of(backward)
        assert known == (((8, 16, 28, 28), (32, 16, 3, 3)), (8, 32, 14, 14))
        forward = Signature("aten::cudnn_convolution", ((8, 16, 28, 28), (32, 16, 3, 3)), ("float",) * 2)
        [made] = expressed(forward, frozenset({CONV}), dict([known]))[1].kernels
        assert made.rows == 8 * 14 * 14  # type: ignore[union-attr]
        with pytest.raises(InexpressibleError, match="aten::cudnn_convolution without strides"):
            expressed(forward, frozenset({CONV}), {})

    def test_that_copy_their_maps_are_priced_with_the_copies(self) -> None:
        dims = ((8, 32, 28, 28), (8, 16, 28, 28), (32, 16, 3, 3))
        plain, copied = (
            kernels_of("aten::convolution_backward", dims, ran=ran)
            for ran in (CONV, "cudnn::ops::nchwToNhwcKernel<float>")
        )
        assert sum(one.traffic for one in copied) > sum(one.traffic for one in plain)

    def test_of_miopen_transpose_every_operand_and_the_result(self) -> None:
        """Where cuDNN copies the map that goes in alone; sums of a split depth are zeroed wide, and cast."""
        dims = ((8, 32, 28, 28), (8, 16, 28, 28), (32, 16, 3, 3))
        ran = ("igemm_bwd_gtcx3_nhwc_bf16", "igemm_wrw_gtcx3_nhwc_bf16", "batched_transpose_16x32_half")
        split = (*ran, "SubTensorOpWithScalar1d", "SubTensorOpWithCastTensor1d")
        whole, split_sums = (kernels_of("aten::convolution_backward", dims, ran=names) for names in (ran, split))
        out, entering, filters = (prod(shape) for shape in dims)
        copies = sum(float(one.traffic) for one in whole if "layout" in one.name)
        assert copies == 2 * 2 * (2 * out + 2 * entering + 2 * filters)
        assert len(split_sums) - len(whole) == 4
        sums = sum(float(one.traffic) for one in split_sums) - sum(float(one.traffic) for one in whole)
        assert sums == (4 + 6) * (entering + filters)

    def test_of_composable_kernel_transpose_what_the_result_held_too(self) -> None:
        dims = ((8, 32, 28, 28), (8, 16, 28, 28), (32, 16, 3, 3))
        ran, filters = ("batched_transpose_16x32_half", "igemm_wrw_gtcx3_nhwc"), prod(dims[2])
        other, composable = (
            kernels_of("aten::convolution_backward", dims, ran=(*ran, name))
            for name in ("igemm_bwd", "ck::kernel_batched_gemm_xdlops_bwd_weight")
        )
        [added] = [one for one in composable if one.name == "layout"][len([o for o in other if o.name == "layout"]) :]
        assert added.traffic == 2 * 2 * filters

    def test_of_single_pixels_with_a_stride_gather_and_scatter_them(self) -> None:
        dims, concrete = ((8, 16, 28, 28), (32, 16, 1, 1), ()), ("", "", "", "[0, 0]", "[2, 2]")
        ran = ("transpose_NCHW2CNHW_V2", "Cijk_Ailk", "transpose_CNHW2NCHW_V2")
        product, *copies = kernels_of("aten::miopen_convolution", dims, concrete=concrete, ran=ran)
        assert isinstance(product, Convolution)
        assert [one.traffic for one in copies] == [2 * 2 * 8 * 16 * 14 * 14, 2 * 2 * 8 * 32 * 14 * 14]

    def test_that_add_up_with_atomics_zero_the_gradient_of_the_input_before(self) -> None:
        dims = ((8, 32, 28, 28), (8, 16, 28, 28), (32, 16, 3, 3))
        ran = ("cudnn::ops::scalePackedTensor_kernel<float, float>", "cudnn::detail::dgrad_engine<float, 512>")
        [zeros] = [one for one in kernels_of("aten::convolution_backward", dims, ran=ran) if one.name == "zeros"]
        assert zeros.traffic == 2 * prod(dims[1])
        image = ((8, 32, 28, 28), (8, 3, 28, 28), (32, 3, 3, 3))
        assert not any(one.name == "zeros" for one in kernels_of("aten::convolution_backward", image, ran=ran))

    def test_in_groups_are_as_deep_as_a_group(self) -> None:
        made = kernels_of("aten::convolution_backward", ((8, 32, 28, 28), (8, 32, 28, 28), (32, 8, 3, 3)))
        assert {one.count for one in made if isinstance(one, Convolution)} == {4}


class TestAttention:
    DIMS = ((4, 16, 1024, 64),) * 3

    def test_is_causal_where_the_call_says_so(self) -> None:
        [whole], [half] = (
            kernels_of("aten::_scaled_dot_product_flash_attention", self.DIMS, concrete=("", "", "", "0.", causal))
            for causal in ("False", "True")
        )
        assert isinstance(whole, FlashAttention)
        assert isinstance(half, FlashAttention)
        assert half.keys < 0.6 * whole.keys
        assert whole.heads == 64

    def test_that_does_not_say_is_not_guessed(self) -> None:
        with pytest.raises(InexpressibleError, match="may be causal"):
            kernels_of("aten::_scaled_dot_product_flash_attention", self.DIMS)


class TestStreams:
    @pytest.mark.parametrize(
        ("name", "dims", "traffic"),
        [
            ("aten::add", ((10, 20), (20,)), 2 * (200 + 20 + 200)),
            ("aten::gelu", ((10, 20),), 2 * 400),
            ("aten::copy_", ((10, 20), (10, 20)), 2 * 400),
        ],
    )
    def test_read_each_tensor_and_write_one(self, name: str, dims: tuple[Any, ...], traffic: float) -> None:
        [made] = kernels_of(name, dims)
        assert isinstance(made, Stream)
        assert made.traffic == traffic

    def test_that_reduce_rows_are_reductions(self) -> None:
        assert kernels_of("aten::_softmax", ((10, 20), (), ()))[0].reduces  # type: ignore[union-attr]


@pytest.mark.parametrize("name", sorted(WORDS))
@pytest.mark.parametrize(
    "dims",
    [(), ((),), ((0, 3), (3, 0)), ((-1, 3), (3, 4)), ("x", 5, None), (((1, 2), (3,)), "..."), ((10**30,) * 4,) * 3],
)
def test_odd_shapes_are_a_reason_and_no_crash(name: str, dims: tuple[Any, ...]) -> None:
    signature = Signature(
        name, dims, ("float",) * 3, ("[1, 1]", "[0, 0]", "[[", "(" * 200, "[0, 0]", "__import__('os')")
    )
    with suppress(InexpressibleError):
        expressed(signature, frozenset(), {})


class TestBesideTheModel:
    def test_a_trace_as_the_model_predicts_has_no_error(self, tmp_path: Path, machine: Hardware) -> None:
        [product] = kernels_of("aten::mm", ((4096, 1024), (1024, 2048)), "c10::Half")
        time = 1e6 * float(duration(Processor(machine.device, "fp16", sustained=False).time(product)))
        call = op("aten::mm", 0, 5, [[4096, 1024], [1024, 2048]], **{"External id": 1})
        call["args"]["Input type"] = ["c10::Half"] * 2
        found = traced_operators(
            [read(tmp_path, [call, kernel(GEMM, 1, time, **{"External id": 1, "correlation": 9})])], machine.device
        )
        [one] = found.operators
        assert one.error == pytest.approx(0, abs=1e-6)
        assert found.covered == pytest.approx(1)

    def test_the_median_of_the_calls_counts_and_each_call_has_all_its_kernels(self, tmp_path: Path) -> None:
        events = []
        for i, time in enumerate((10, 12, 90)):
            events += [op("aten::mm", 200 * i, 5, [[4, 8], [8, 2]], **{"External id": i + 1}),
                       kernel(GEMM, 200 * i + 1, time, **{"External id": i + 1, "correlation": 50 + i}),
                       kernel("void splitKreduce_kernel<float>", 200 * i + 101, 3, **{"External id": i + 1, "correlation": 90 + i})]  # fmt: skip
        [one] = traced_operators([read(tmp_path, events)]).operators
        assert (one.calls, one.kind) == (3, "GEMM")
        assert one.time == pytest.approx(15e-6)
        assert one.total == pytest.approx(121e-6)
        assert one.predicted is None

    def test_kernels_beside_others_tell_nothing_of_one_alone(self, tmp_path: Path) -> None:
        found = traced_operators([read(tmp_path, [
            op("aten::mm", 0, 5, [[4, 8], [8, 2]], **{"External id": 1}), kernel(GEMM, 1, 10, **{"External id": 1, "correlation": 2}),
            kernel(NCCL, 5, 30, stream=9),
        ])])  # fmt: skip
        assert found.operators == ()
        assert found.reasons == {
            "kernels that ran beside others, which tell nothing of one alone": pytest.approx(10e-6)
        }

    def test_kernels_belong_to_the_innermost_operator_that_has_shapes_and_words(self, tmp_path: Path) -> None:
        dims = [[8, 16, 28, 28], [8, 32, 14, 14], [32, 16, 3, 3]]
        found = traced_operators([read(tmp_path, [
            op("aten::cudnn_convolution_backward", 0, 50, dims, **{"External id": 1}),
            op("aten::cudnn_convolution_backward_weight", 1, 20, [[], dims[1], dims[0]], **{"External id": 2}),
            kernel(CONV, 5, 10, **{"External id": 2, "correlation": 7}), kernel(RELU, 20, 1, **{"External id": 1, "correlation": 8}),
        ])])  # fmt: skip
        [one] = found.operators
        assert one.signature.op == "aten::cudnn_convolution_backward"
        assert one.time == pytest.approx(11e-6)

    def test_a_copy_before_a_product_is_no_product(self, tmp_path: Path) -> None:
        found = traced_operators([read(tmp_path, [op("aten::mm", 0, 5, [[4, 8], [8, 2]], **{"External id": 1}),
                                                  kernel(RELU, 1, 10, **{"External id": 1, "correlation": 2})])])  # fmt: skip
        assert list(found.reasons) == ["aten::mm that ran no kernel of its class"]

    def test_of_the_fixture_every_product_is_judged(self, machine: Hardware) -> None:
        found = traced_operators(read_traces([FIXTURES / "synthetic-rank0.json.gz"]), machine.device)
        products = [one for one in found.operators if one.kind == "GEMM"]
        assert len(products) == 5
        assert all(one.predicted for one in products)


def test_on_a_cpu_what_wraps_an_operator_is_not_judged_as_one(tmp_path: Path) -> None:
    """`linear` calls `addmm`, which does the work."""
    found = traced_operators([read(tmp_path, [
        op("aten::linear", 0, 100, [[4, 8], [2, 8], [2]]), op("aten::addmm", 10, 80, [[2], [4, 8], [8, 2]]),
    ])])  # fmt: skip
    [one] = found.operators
    assert one.signature.op == "aten::addmm"
    assert one.time == pytest.approx(80e-6)
    assert found.reasons == {"aten::linear around the operator that does its work": pytest.approx(20e-6)}


def test_operators_of_a_host_tell_nothing_of_a_gpu() -> None:
    traces = read_traces([FIXTURES / "live-mlp.json.gz"])
    found = traced_operators(traces, find("hardware", "dgx-h100").device)
    assert not found.operators
    assert [reason for reason in found.reasons if "operators of the CPU" in reason]
    assert traced_operators(traces, find("hardware", "xeon-8280-25gbe").device).operators
