"""Kernels under the roofline: their factors multiply to what is reached, in `predict --ops`, `explain` and a picture."""

from __future__ import annotations

import csv
import io
import json
from math import prod
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfmodel
from perfmodel import api
from perfmodel.cli import main
from perfmodel.cost.compute import Processor
from perfmodel.cost.position import Position, position
from perfmodel.formulas.split import split_product
from perfmodel.graph.kernels import Convolution, FlashAttention, Fused, Gemm, Stream
from perfmodel.library import find
from perfmodel.timeline import Term, leaves, term

if TYPE_CHECKING:
    from pathlib import Path

    from perfmodel.graph.kernels import Kernel
    from perfmodel.prediction import Prediction
    from perfmodel.specs import Hardware

JOBS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt3": ("gpt3-175b", "dgx-a100-80gb", {"devices": 1024, "tp": 8, "pp": 16, "recompute": "full"}),
    "gpt3 fp8": ("gpt3-175b", "dgx-h100", {"devices": 1024, "tp": 8, "pp": 16, "precision": "fp8"}),
    "resnet": ("resnet-50", "dgx-1-v100-16gb", {"precision": "fp16", "microbatch": 64}),
    "resnet fp32": ("resnet-50", "dgx-1-v100-16gb", {"precision": "fp32", "microbatch": 64}),
    "small bert": ("bert-base", "dgx-h100", {"batch": 1}),
    "unfused bert": ("bert-base", "dgx-a100-80gb", {"batch": 1, "attention": "unfused"}),
}
COMMAND = ["predict", "bert-base", "dgx-a100-80gb", "--batch", "8", "--microbatch", "8"]
GAINS = {"parts"}
"""Factors that may exceed one: cores that splitting fills."""
CLOSE = 1 + 1e-9
SIZE = st.integers(1, 5000)


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest) -> Prediction:
    workload, hardware, settings = JOBS[request.param]
    return perfmodel.predict(workload, hardware, **settings)


def placed(job: Prediction) -> list[tuple[Term, Position]]:
    found = [(leaf, position(leaf)) for leaf, _, _ in job.terms]
    return [(leaf, where) for leaf, where in found if where and where.traffic]


def reached(where: Position) -> float:
    if where.bound == "computing" or (where.bound == "launch" and where.peak):
        return where.of_peak
    return where.of_bandwidth


def wrong(where: Position) -> list[str]:
    faults = [name for name, value in where.factors.items() if not 0 < value <= CLOSE and name not in GAINS]
    return faults + ["product"] * (prod(where.factors.values()) != pytest.approx(reached(where), rel=1e-9))


class TestFactors:
    def test_multiply_to_what_is_reached_and_none_gains(self, job: Prediction) -> None:
        faults = {leaf.name: wrong(where) for leaf, where in placed(job)}
        assert {name: fault for name, fault in faults.items() if fault} == {}

    def test_stay_below_the_roof(self, job: Prediction) -> None:
        above = [leaf.name for leaf, where in placed(job) if max(where.of_peak, where.of_bandwidth) > CLOSE]
        assert above == []

    @given(SIZE, SIZE, SIZE, st.integers(1, 64))
    def test_of_any_product(self, machine: Hardware, m: int, n: int, k: int, count: int) -> None:
        assert wrong(on(machine, Gemm("any", m, n, k, 2, count))) == []

    @given(st.integers(1, 512), SIZE, SIZE, st.sampled_from([64, 128, 320]))
    def test_of_any_attention(self, machine: Hardware, heads: int, queries: int, keys: int, width: int) -> None:
        traffic = 2 * heads * (queries + keys) * width
        assert wrong(on(machine, FlashAttention("any", heads, queries, keys, width, traffic))) == []

    @given(st.floats(1, 1e12), st.floats(1, 1e14))
    def test_of_any_memory_bound_or_fused_kernel(self, machine: Hardware, traffic: float, flops: float) -> None:
        assert wrong(on(machine, Stream("any", traffic))) == []
        assert wrong(on(machine, Fused("any", flops, traffic))) == []

    @pytest.mark.parametrize("traffic", [2.5e8, 4e9, 8e9, 8e10])
    def test_of_a_split_product_however_much_it_moves(self, traffic: float) -> None:
        assert wrong(filter_gradient(traffic)) == []

    def test_of_a_wave_that_is_not_full(self, machine: Hardware) -> None:
        """100 tiles of the largest shape fill 100 cores; of one row of tiles more, smaller tiles leave fewer cores idle."""
        full, more = (on(machine, Gemm("any", rows, 1280, 8192, 2)).factors["wave"] for rows in (2560, 2816))
        assert 0.5 < more < full == 1


def on(machine: Hardware, kernel: Kernel) -> Position:
    ((leaf, _, _),) = leaves(Processor(machine.device, "fp16").time(kernel))
    where = position(leaf)
    assert where
    return where


def filter_gradient(traffic: float) -> Position:
    """Two tiles on 80 cores, until they are split."""
    leaf = term(
        "gradient", split_product, rows=256, columns=64, depth=401408, count=1, traffic=traffic, splits=64, partial=4.0,
        peak=125e12, cores=80, tile_rows=128, tile_columns=128, fraction=0.8, sustained=1.0, tile_balance=0.0, depth_half=0.0,
        depth_time=0.0, overlap=2.0, bandwidth=9e11, streaming_fraction=0.8, launch=2e-6,
    )  # fmt: skip
    where = position(leaf)
    assert where
    return where


class TestBounds:
    @pytest.mark.parametrize(
        ("kernel", "bound"),
        [
            (Gemm("large", 8192, 8192, 8192, 2), "computing"),
            (Gemm("thin", 4, 65536, 8192, 2), "memory"),
            (Gemm("tiny", 8, 8, 8, 2), "launch"),
            (Convolution("large", 802816, 256, 2304, 1e9), "computing"),
            (FlashAttention("long", 512, 4096, 4096, 256, 1e9), "computing"),
            (FlashAttention("tiny", 1, 16, 16, 128, 1e4), "launch"),
            (Fused("large", 1e13, 1e6), "computing"),
            (Fused("wide", 1e6, 1e10), "memory"),
            (Stream("large", 1e9), "memory"),
            (Stream("tiny", 1e4), "launch"),
        ],
        ids=lambda value: getattr(value, "name", value),
    )
    def test_of_kernels(self, machine: Hardware, kernel: Kernel, bound: str) -> None:
        assert on(machine, kernel).bound == bound

    @pytest.mark.parametrize(("traffic", "bound"), [(4e9, "elements"), (4e11, "memory")])
    def test_of_a_kernel_with_a_pace(self, traffic: float, bound: str) -> None:
        hardware: Hardware = find("hardware", "dgx-a100-80gb")
        assert on(hardware, Stream("copy", traffic, pace="strided", elements=1e9)).bound == bound

    def test_of_a_split_product_are_those_after_splitting(self) -> None:
        """Two tiles compute for 4 ms; split over all cores they compute for 0.1 ms, and move for 2.8 ms."""
        where = filter_gradient(2e9)
        assert where.of_bandwidth > 0.75
        assert where.bound == "memory"

    def test_of_a_large_model_are_mostly_computing_and_of_a_small_batch_often_launches(self) -> None:
        shares = {}
        for name in ("gpt3", "small bert"):
            workload, hardware, settings = JOBS[name]
            rows = api.operators(perfmodel.predict(workload, hardware, **settings)).rows
            total = sum(row["time"] for row in rows)
            shares[name] = {
                b: sum(row["time"] for row in rows if row["bound"] == b) / total for b in ("computing", "launch")
            }
        assert shares["gpt3"]["computing"] > 0.7
        assert shares["gpt3"]["launch"] < 0.02
        assert shares["small bert"]["launch"] > 0.2

    def test_messages_and_the_host_have_no_place(self, job: Prediction) -> None:
        nowhere = {leaf.formula.__module__ for leaf, _, _ in job.terms if position(leaf) is None}
        assert nowhere <= {
            f"perfmodel.formulas.{name}" for name in ("collectives", "collectives_library", "host", "pipeline")
        }


class TestRows:
    def test_are_sorted_and_their_shares_are_of_one_step(self, job: Prediction) -> None:
        rows = api.operators(job).rows
        assert [row["time"] for row in rows] == sorted((row["time"] for row in rows), reverse=True)
        assert all(0 <= row["exposed"] <= row["time"] * CLOSE for row in rows)
        assert 0.1 < sum(row["share"] for row in rows) <= CLOSE

    def test_are_kernels_that_move_something(self, job: Prediction) -> None:
        assert [row["name"] for row in api.operators(job).rows if not row["traffic"]] == []

    def test_agree_with_explain(self, job: Prediction) -> None:
        explained = [r for r in api.explain(job).record if r["factors"]]
        rows = api.operators(job).rows
        assert len(explained) == len(rows)
        both = [sorted((r["name"], r["bound"], r["time"], r["times"]) for r in given) for given in (rows, explained)]
        assert both[0] == both[1]


class TestTheCommand:
    def test_json_has_the_prediction_and_its_operators(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*COMMAND, "--format", "json"]) == 0
        plain = json.loads(capsys.readouterr().out)
        assert main([*COMMAND, "--ops", "--format", "json"]) == 0
        record = json.loads(capsys.readouterr().out)
        operators = record.pop("operators")
        assert record == plain
        keys = {
            "name", "kind", "times", "time", "exposed", "share", "flops", "traffic", "intensity", "flops_per_second", "of_peak",
            "of_bandwidth", "bound",
        }  # fmt: skip
        assert all(keys < set(row) and any(name.startswith("factor_") for name in row) for row in operators)

    def test_csv_has_a_row_for_each_kernel(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*COMMAND, "--ops", "--format", "csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        made = perfmodel.predict("bert-base", "dgx-a100-80gb", batch=8, microbatch=8)
        assert sorted(row["name"] for row in rows) == sorted(leaf.name for leaf, _, _ in made.terms if position(leaf))
        assert {row["bound"] for row in rows} <= {"computing", "memory", "elements", "launch"}

    def test_table_has_the_longest_kernels(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*COMMAND, "--ops"]) == 0
        out = capsys.readouterr().out
        assert "Kernels by time, 40 of" in out
        assert "bound by: the longest of" in out

    def test_explain_tells_the_bound_and_what_is_left(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", *COMMAND[1:], "mlp up"]) == 0
        assert "Bound by computing: " in (out := capsys.readouterr().out)
        assert "% of the peak = share " in out

    @pytest.mark.parametrize(("name", "begins"), [("roof.png", b"\x89PNG"), ("roof.svg", b"<?xml")])
    def test_draws(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, begins: bytes) -> None:
        assert main([*COMMAND, "--plot", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(begins)
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize(
        ("path", "fault"),
        [
            ("roof.txt", "a picture ends in .png, .svg or .pdf"),
            ("roof", "a picture ends in .png, .svg or .pdf"),
            ("nowhere/roof.png", "cannot be written: no such directory"),
            ("folder.png", "cannot be written: is a directory"),
        ],
    )
    def test_refuses_a_picture_that_cannot_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str, fault: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder.png").mkdir()
        assert main([*COMMAND, "--plot", path]) == 2
        assert capsys.readouterr() == ("", f"--plot: {path}: {fault}\n")
        assert [file.name for file in tmp_path.iterdir()] == ["folder.png"]
