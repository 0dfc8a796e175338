"""Traces that others published, where the shared data folder is beside the checkout: all parse, and their sums agree.

`trace_summary.csv` holds what a reference parser read. Its classes follow from words in the names of kernels, some of
which mean something else; `MISREAD` lists them, and with them read as the reference does every sum agrees.
"""

from __future__ import annotations

import csv
import importlib
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from perfmodel.traces.classes import classify
from perfmodel.traces.reading import read_traces
from perfmodel.traces.summary import Summary

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside the checkout"),
]

COLUMNS = {
    "gemm_ms": {"GEMM"}, "conv_ms": {"convolution"}, "attention_ms": {"attention"}, "norm_softmax_ms": {"normalisation"},
    "embed_index_ms": {"embedding"}, "elementwise_other_ms": {"elementwise", "other"}, "memcpy_ms": {"memcpy"}, "comm_ms": {"collective"},
}  # fmt: skip
MISREAD: tuple[tuple[str, str, str], ...] = (
    ("multimem_all_reduce", "elementwise", "PyTorch's all-reduce in NVLink switches is a collective"),
    ("^bmm_", "normalisation", "TensorRT-LLM's products of experts"),
    ("routingRenormalize", "normalisation", "routing of experts"),
    ("_typeConvert", "convolution", "vLLM's norms convert types, they do not convolve"),
    ("MIOpenBatchNorm", "convolution", "batch norm of MIOpen"),
    ("GammaBeta|RowwiseMoments", "elementwise", "gradients and moments of layer norm"),
    ("fbgemm", "GEMM", "FBGEMM's embeddings, permutations and casts: the library is named after products, its types stand in names"),
    ("bounds_check_indices|permute_pooled_embs", "elementwise", "indices of FBGEMM's tables, and their rows put in order"),
    ("elementwise_kernel_with_index", "embedding", "arange, which looks nothing up"),
    ("normal_and_transform", "normalisation", "normally distributed random numbers"),
    ("_matmul_ogs", "elementwise", "Triton's products of experts"),
    ("xdlops_bwd_weight", "GEMM", "Composable Kernel's gradient of filters"),
)  # fmt: skip
"""Words in names, the reference's class, and what the kernel is."""
AGREES, LEAST = 0.02, 6e-6
"""Relative, and seconds below which the reference's three digits of milliseconds do not tell."""
EXTENSIONS = (".gz", ".json", ".pb", ".tgz")


@cache
def reference() -> dict[str, dict[str, str]]:
    with (SHARED / "trace_summary.csv").open(encoding="utf-8") as stream:
        return {row["trace"]: row for row in csv.DictReader(stream)}


def files() -> list[Path]:
    if not SHARED.is_dir():
        return []
    return sorted(path for path in SHARED.glob("*/*") if path.suffix in EXTENSIONS)


@cache
def summaries(path: Path) -> list[Summary]:
    return [Summary(trace) for trace in read_traces([path])]


def known(summary: Summary, path: Path) -> dict[str, str] | None:
    """The reference's row, where it read kernels."""
    row = reference().get(summary.trace.file.removeprefix(f"{path.parent}/"))
    return row if row and row["kernels"] and not summary.trace.on_host else None


def milliseconds(row: dict[str, str], column: str) -> float:
    return float(row[column] or 0) / 1e3


def close(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= max(AGREES * max(ours, theirs), LEAST)


every_file = pytest.mark.parametrize("path", files(), ids=lambda path: path.name[:60])


@every_file
def test_every_trace_can_be_read(path: Path) -> None:
    for summary in summaries(path):
        trace = summary.trace
        assert len(trace.kernels) or len(trace.calls) or trace.memory


@every_file
def test_spans_unions_and_exposed_communication_agree(path: Path) -> None:
    for summary in summaries(path):
        row = known(summary, path)
        if row is None or "multimem" in "".join(summary.trace.names):
            continue
        ours = {"gpu_span_ms": summary.span, "compute_union_ms": summary.computing, "comm_union_ms": summary.communicating,
                "exposed_comm_ms": summary.exposed, "overlap_ms": summary.overlap, "idle_ms": summary.idle}  # fmt: skip
        assert {c: t for c, t in ours.items() if not close(t, milliseconds(row, c))} == {}


@every_file
def test_sums_of_classes_agree_but_for_words_that_mean_something_else(path: Path) -> None:
    for summary in summaries(path):
        row = known(summary, path)
        if row is None:
            continue
        names, kernels = summary.trace.names, summary.trace.kernels
        total = np.bincount(kernels.name, weights=kernels.duration, minlength=len(names))
        exact, read = (defaultdict[str, float](float) for _ in range(2))
        for name, time in zip(names, total, strict=True):
            there = next((kind for word, kind, _ in MISREAD if re.search(word, name)), None)
            exact[classify(name)] += time
            read[there or classify(name)] += time
        for column, classes in COLUMNS.items():
            theirs = milliseconds(row, column)
            assert any(close(sum(sums[kind] for kind in classes), theirs) for sums in (exact, read)), (
                summary.trace.file,
                column,
            )


def test_every_word_that_means_something_else_is_needed() -> None:
    """Each occurs in a kernel that the reference puts elsewhere; where we learn to read like it, the word leaves the list."""
    names = {name for path in files() for one in summaries(path) if known(one, path) for name in one.trace.names}
    needed = {word for name in names for word, kind, _ in MISREAD if re.search(word, name) and classify(name) != kind}
    assert {word for word, _, _ in MISREAD} == needed


def test_most_classes_agree_as_they_are() -> None:
    agree = judged = 0
    for path in files():
        for summary in summaries(path):
            row = known(summary, path)
            for column, classes in COLUMNS.items() if row else ():
                ours = sum(one.total for name, one in summary.classes.items() if name in classes)
                agree += close(ours, milliseconds(row or {}, column))
                judged += 1
    assert judged > 250
    assert agree / judged > 0.83


@pytest.mark.parametrize(
    ("pattern", "hardware", "kind", "most"),
    [
        ("h100__facebook_timesformer*", "dgx-h100", "GEMM", 0.15),
        ("h100__Qwen*", "dgx-h100", "GEMM", 0.15),
        ("mi300__facebook_timesformer*", "mi300x-node", "GEMM", 0.15),
        ("mi300__Qwen*", "mi300x-node", "GEMM", 0.15),
        ("inference__sglang_prefilldecode*", "mi300x-node", "GEMM", 0.15),
        ("torch_compile_triton*", "mi300x-node", "GEMM", 0.15),
        ("tb_plugin__samples*", "dgx-1-v100", "convolution", 0.15),
        ("mi300__resnet*", "mi300x-node", "convolution", 0.15),
    ],
)
def test_operators_beside_the_model(pattern: str, hardware: str, kind: str, most: float) -> None:
    from perfmodel.library import find
    from perfmodel.traces.operators import traced_operators

    [path] = SHARED.glob(f"*/{pattern}")
    found = traced_operators(read_traces([path]), find("hardware", hardware).device)
    errors = [abs(one.error) for one in found.operators if one.kind == kind and one.error is not None]
    assert np.median(errors) < most


@pytest.mark.parametrize("kind", ["GEMM", "convolution"])
def test_operators_of_all_devices_with_constants_of_their_own(kind: str) -> None:
    """Those that take long enough for their launch not to rule."""
    tool = importlib.import_module("tools.trace_errors")
    found = [
        one
        for key, members in tool.by_constants(SHARED).items()
        if key[0] == kind and tool.fitted(*key)
        for one in members
    ]
    assert len(tool.long(found)) > 40
    assert np.median([abs(one.error) for one in tool.long(found)]) < 0.15
