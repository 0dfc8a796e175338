"""Kernels by their names, as libraries give them."""

from __future__ import annotations

import pytest

from perfmodel.traces.classes import CLASSES, COMPUTE, RULES, classify

NAMES = {
    "GEMM": [
        "volta_sgemm_128x64_nn", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", "nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>(Params)", "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256",
        "void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", "aten::addmm", "aten::bmm", "aten::mm", "aten::baddbmm",
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2", "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1", "gemm_fusion_dot_12", "dot.3",
    ],
    "convolution": [
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", "cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)", "void cudnn::detail::dgrad_engine<float, 512, 6>(int)",
        "void cudnn::ops::nchwToNhwcKernel<float, float>(Params)", "igemm_wrw_gtcx2_nhwc_bf16_bx0_ex1_bt256x128x16", "aten::mkldnn_convolution",
        "void fft2d_r2c_32x32<float, false, 5u, true>(float2*)",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<Traits>(Params)", "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(Params)", "kernel_unified_attention_2d",
    ],
    "normalisation": [
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)", "void cudnn::bn_bw_1C11_kernel_new<float>(float)",
        "void (anonymous namespace)::softmax_warp_forward<float>(float*)", "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long)", "MIOpenBatchNormBwdSpatial",
        "std::enable_if<vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>()",
    ],
    "embedding": [
        "void split_embedding_codegen_forward_unweighted_kernel<float>(at::Packed<fbgemm_gpu::x>)", "void permute_pooled_embs_kernel<float>(float)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 4>(int)", "void at::native::index_elementwise_kernel<128, 4>(int)",
        "void bounds_check_indices_kernel<long, false>(at::GenericPackedTensorAccessor<long>)",
    ],
    "elementwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)", "triton_poi_fused_add_cos_sin_0",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", "void at::native::reduce_kernel<512, 1>(int)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int)", "fbgemm_gpu::_float_to_hfp8_gpu_kernel_copy",
    ],
    "collective": [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "gloo:all_reduce", "all-reduce.7",
        "reduce-scatter.1", "all-to-all.2", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
    ],
    "memcpy": ["Memcpy HtoD (Pinned -> Device)", "Memset (Device)", "MemcpyD2D"],
    "other": ["void cub::DeviceRadixSortOnesweepKernel<long>(int*)", "", "?"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), [(name, kind) for kind, names in NAMES.items() for name in names])
def test_each_name_says_what_it_does(name: str, expected: str) -> None:
    assert classify(name) == expected


def test_every_class_has_a_rule_and_a_place() -> None:
    assert {kind for kind, _ in RULES} | {"other"} == set(CLASSES) == set(NAMES)
    assert set(CLASSES) - set(COMPUTE) == {"collective", "memcpy"}


def test_types_of_templates_far_behind_do_not_count() -> None:
    assert classify("void elementwise_kernel<" + "x" * 500 + "gemm") == "elementwise"
