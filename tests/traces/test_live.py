"""A real trace of ours, of a perceptron that `validation/live/train.py` trained on a CPU, and the scripts around it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from events import FIXTURES

import perfmodel
from perfmodel.graph import expand
from perfmodel.library import find
from perfmodel.measuring.session import has_torch
from perfmodel.traces.job import job
from perfmodel.traces.operators import traced_operators
from perfmodel.traces.reading import read_traces
from perfmodel.traces.summary import Summary

if TYPE_CHECKING:
    from perfmodel.traces.trace import Trace

LIVE = Path(__file__).parents[2] / "validation" / "live"
MODELS = sorted(path.stem for path in (LIVE / "workloads").glob("*.yaml"))
TRACES = {"mlp": 64}
"""Models that were traced, and their batches."""


def fixture(model: str) -> Path:
    return FIXTURES / f"live-{model}.json.gz"


@pytest.mark.parametrize("model", sorted(TRACES))
def test_steps_and_classes_of_a_real_trace(model: str) -> None:
    [trace] = read_traces([fixture(model)])
    summary = Summary(trace)
    assert trace.on_host
    assert [step.name for step in summary.steps] == [f"ProfilerStep#{number}" for number in (1, 2, 3)]
    assert max(summary.classes, key=lambda name: summary.classes[name].total) == "GEMM"
    assert summary.busy <= summary.span


@pytest.mark.parametrize(("name", "kind"), [("lstm-8", "GEMM"), ("dlrm-512", "GEMM"), ("resnet-8", "convolution")])
def test_traces_of_other_models_tell_what_they_compute(name: str, kind: str) -> None:
    [trace] = read_traces([FIXTURES / f"live-{name}-alone-rank0.json.gz"])
    summary = Summary(trace)
    assert len(summary.steps) == 3
    classes = {one: times.total for one, times in summary.classes.items()}
    recurrent = sum(d for n, d in zip(trace.names, _by_name(trace), strict=True) if "mkldnn_rnn" in n)
    assert max(classes, key=lambda one: classes[one]) == kind or recurrent > max(classes.values()) / 2


def _by_name(trace: Trace) -> list[float]:
    """Seconds of each kind of kernel."""
    kernels = trace.kernels
    return [float(time) for time in np.bincount(kernels.name, weights=kernels.duration, minlength=len(trace.names))]


@pytest.mark.parametrize("name", ["mlp-64-data", "gpt-2-pipeline"])
def test_two_processes_are_one_job(name: str) -> None:
    """Each rank computes and exchanges; replicas compute alike, and a collective ends on both."""
    ranks = job(read_traces([FIXTURES / f"live-{name}-rank{rank}.json.gz" for rank in (0, 1)])).ranks
    assert [len(one.steps) for one in ranks] == [3, 3]
    assert all("collective" in one.classes for one in ranks)
    assert max(one.span for one in ranks) < 1.3 * min(one.span for one in ranks)


def test_ddp_copies_its_gradients_into_buckets_and_back() -> None:
    """What `gradient_buckets: copies` counts: every gradient once each way, in the first step as in the last."""
    [trace] = read_traces([FIXTURES / "live-mlp-64-data-rank0.json.gz"])
    calls = Counter(name for name in (trace.names[i] for i in trace.calls.name))
    tensors = 2 * 4
    assert (
        calls["torch::distributed::reducer::mul_out"]
        == calls["torch.distributed.ddp.reducer::copy_bucket_to_grad"]
        == 3 * tensors
    )


def test_products_of_a_real_step_are_those_of_its_layers() -> None:
    """Forward, backward to the inputs and to the weights, each in every one of three steps."""
    found = traced_operators(read_traces([fixture("mlp")]), find("hardware", "cloud-cpu-8core").device)
    products = [one for one in found.operators if one.kind == "GEMM"]
    layers = [(784, 1024), (1024, 1024), (1024, 1024), (1024, 10)]
    assert sum(one.calls for one in products) == 3 * (3 * len(layers) - 1)
    assert {one.signature.op for one in products} == {"aten::addmm", "aten::mm"}
    flops = sum(one.calls * float(kernel.flops) for one in products for kernel in one.measured.kernels)
    samples = 3 * TRACES["mlp"]
    assert flops == samples * (6 * sum(a * b for a, b in layers) - 2 * 784 * 1024)
    assert all(one.error is not None and abs(one.error) < 3 for one in products if one.time > 1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_each_model_has_a_workload_that_can_be_predicted(model: str) -> None:
    """On one CPU and on two, which never takes less for as much work each."""
    times = [
        perfmodel.predict(LIVE / "workloads" / f"{model}.yaml", "epyc-7742-100gbe", strategy=LIVE / "strategy.yaml", dp=dp, microbatch=8,
                          batch=8 * dp).step_time
        for dp in (1, 2)
    ]  # fmt: skip
    assert 0 < times[0] <= times[1]


@pytest.mark.slow
@pytest.mark.skipif(not has_torch(), reason="needs torch")
def test_a_live_run_is_within_a_factor(tmp_path: Path) -> None:
    """A smoke test: other work on the machine may slow it many times."""
    machine = tmp_path / "here.yaml"
    perfmodel.calibrate_here(yaml=machine, budget=5)
    command = [
        sys.executable,
        str(LIVE / "compare.py"),
        str(machine),
        "--models",
        "mlp",
        "--processes",
        "1",
        "--seconds",
        "0.5",
        "--most",
        "4",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not has_torch(), reason="needs torch")
def test_the_models_have_as_many_parameters_as_their_workloads(tmp_path: Path) -> None:
    code = (
        f"import sys, json; sys.path.insert(0, {str(LIVE)!r}); from models import build; "
        f"print(json.dumps({{m: sum(p.numel() for p in build(m, 2)[0].parameters()) for m in {MODELS!r}}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)  # noqa: S603 - a constant
    for model, parameters in json.loads(done.stdout).items():
        graph = expand(find("workloads", LIVE / "workloads" / f"{model}.yaml"), microbatch=1, fused=True)
        assert float(graph.parameters) == pytest.approx(parameters, rel=0.001), model
