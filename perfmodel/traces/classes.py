"""What a kernel does, by its name: libraries, compilers and frameworks name their kernels after it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Class = Literal[
    "GEMM", "convolution", "attention", "normalisation", "embedding", "elementwise", "other", "collective", "memcpy"
]
CLASSES: tuple[Class, ...] = (
    "GEMM", "convolution", "attention", "normalisation", "embedding", "elementwise", "other", "collective", "memcpy",
)  # fmt: skip
"""In the order in which time that several share is given to one: computing hides messages, and both hide copies."""
COMPUTE = CLASSES[:7]

COPIES = r"^mem(cpy|set)|^memory (copy|set)|^(host|device)-?to-?(host|device)|^copy-?(start|done)|^(in|out)feed"
COLLECTIVES = (
    r"^(void )?(\S*::)?nccl|ncclDev|^rccl|^msccl|multimem_|symm_mem|cross_device_reduce|(one|two)_?shot_all_?reduce|"
    r"all-?_?(reduce|gather)(_|-|\.|\b|kernel)|reduce-?_?scatter|all-?_?to-?_?all|collective-permute|deep_ep::|nvshmem|^(gloo|mpi):"
)
NORMS = r"norm(?!al)|softmax|bn_(fw|bw)|GammaBeta|RowwiseMoments|(^|_)rms|(^|_)ln_(fwd|bwd)"
CONVOLUTIONS = (
    r"conv(?!ert)|cudnn|winograd|wgrad|dgrad|fprop|igemm_(fwd|bwd|wrw)|batched_transpose_\d+x\d+|implicit_?gemm|im2col|"
    r"xdlops_bwd_weight|fft2d_|nchwto|nhwcto"
)
EMBEDDINGS = (
    r"embedding|_embs?_|index_?(select|put|add|fill)|indexing_|index_elementwise|indexFunc|gather|scatter|permute_(1d|2d|indices)|"
    r"bounds_check_ind|linearize_index"
)
PRODUCTS = (
    r"(?<!fb)gemm|gemv|Cijk_|cutlass|nvjet|matmul|(^|_)bmm_|(^|[^a-z])(addb?|baddb?|b)?mm(_|\b)|::linear\b|splitK|cublas|xmma|"
    r"wgmma|mfma|(^|_|:)dot(_|\.|\b)"
)
STREAMS = (
    r"elementwise|multi_tensor|Functor|CatArray|triton_(poi|red|per)|copy|cast|transpose|fusion|vectorized|convert|activation|silu|gelu|"
    r"relu|dropout|adam|sgd|pool|reduce|add|mul|sum|scale|fill|sigmoid|tanh|clamp|threshold|SubTensorOp"
)
RULES: tuple[tuple[Class, str], ...] = (
    ("memcpy", COPIES), ("collective", COLLECTIVES), ("attention", r"flash|fmha|attention|attn|paged_?kv|mla_(fwd|decode)"),
    ("normalisation", NORMS), ("convolution", CONVOLUTIONS), ("embedding", EMBEDDINGS), ("GEMM", PRODUCTS), ("elementwise", STREAMS),
)  # fmt: skip
"""The first that matches decides: a cutlass convolution is a convolution, and a gather of rows no elementwise kernel."""
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in RULES)
LONGEST = 400
"""Characters of a name that are looked at: what follows are the types of templates, which name other kernels."""


@lru_cache(maxsize=100_000)
def classify(name: str) -> Class:
    """The class of a kernel.

    >>> classify("ampere_sgemm_128x64_nn"), classify("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)")
    ('GEMM', 'collective')
    >>> classify("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)")
    'elementwise'
    """
    head = name[:LONGEST]
    return next((one for one, pattern in _COMPILED if pattern.search(head)), "other")
