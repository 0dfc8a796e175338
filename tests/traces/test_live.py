"""A real trace of ours, of a perceptron that `validation/live/train.py` trained on a CPU, and the scripts around it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from events import FIXTURES

import perfmodel
from perfmodel.graph import expand
from perfmodel.library import find
from perfmodel.measuring.session import has_torch
from perfmodel.traces.operators import traced_operators
from perfmodel.traces.reading import read_traces
from perfmodel.traces.summary import Summary

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
