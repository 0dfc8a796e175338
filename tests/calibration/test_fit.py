"""Constants out of timings that were made with known ones; what must not sway a fit does not."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel.calibration import timings
from perfmodel.calibration.fit import EACH, LEAST, fit, times
from perfmodel.calibration.forms import FORMS, with_constants
from perfmodel.calibration.ops import IN_CACHE, Calibration, calibrate
from perfmodel.calibration.timings import Selection, read_timings, stacked
from perfmodel.specs import Hardware
from perfmodel.validation import ops
from perfmodel.validation.ops import express_of, measured_time
from perfmodel.validation.tables import Machines, judge_tables
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Device

    Row = dict[str, str]
    Calibrate = Callable[..., Calibration]

PRODUCTS = {
    "fraction": 0.72, "tile_balance": 20.0, "depth_half": 75.0, "depth_time": 4e-9, "overlap": 2.0, "memory_fraction": 0.7,
}  # fmt: skip
SLOW_TILES = PRODUCTS | {"tile_balance": 40.0, "depth_half": 150.0, "depth_time": 3e-9}
ATTENTION = {"fraction": 0.6, "softmax_width": 40.0, "keys_half": 150.0, "overlap": 3.0, "memory_fraction": 0.7}
LAUNCH = 4e-6


def row(index: int, precision: str = "fp16", **sizes: Any) -> Row:
    """Every third one is a test."""
    about = {
        "device": "Testium",
        "precision": precision,
        "source": "Bench, of 2024",
        "split": "calibration" if index % 3 else "test",
    }
    return about | {name: str(size) for name, size in sizes.items()}


def gemms(count: int, precision: str = "fp16") -> list[Row]:
    sizes = np.random.default_rng(7).integers(16, 200, (count, 3)) * 2 ** np.random.default_rng(8).integers(
        0, 7, (count, 3)
    )
    return [row(i, precision, m=m, n=n, k=k, batch=1) for i, (m, n, k) in enumerate(sizes)]


def attentions(count: int, precision: str = "fp16") -> list[Row]:
    powers = 2 ** np.random.default_rng(9).integers((0, 7, 2, 5), (4, 13, 6, 8), (count, 4))
    return [
        row(i, precision, batch=b, q_len=s, kv_len=s, heads=h, kv_heads=h, head_dim=d, kind="fwd", causal=i % 2)
        for i, (b, s, h, d) in enumerate(powers)
    ]


def convolutions(count: int) -> list[Row]:
    powers = 2 ** np.random.default_rng(9).integers(5, 9, (count, 3))
    same: dict[str, Any] = {
        "h": 28,
        "w": 28,
        "r": 3,
        "s": 3,
        "stride_h": 1,
        "stride_w": 1,
        "pad_h": 1,
        "pad_w": 1,
        "groups": 1,
    }
    return [row(i, n=n, c=c, k=k, **same, **{"pass": "fwd"}) for i, (n, c, k) in enumerate(powers)]


def streams(count: int, op: str) -> list[Row]:
    return [row(i, op=op, bytes=int(1e6 * 1.5**i)) for i in range(count)]


def timed(rows: list[Row], device: Device, harness: float = 0.0) -> list[Row]:
    """With the times that the device takes."""
    express = express_of({*rows[0], "time_us"})
    assert express
    return [each | {"time_us": repr(1e6 * (harness + measured_time(express(each), device)))} for each in rows]


def slower(rows: list[Row], factor: float, wanted: Callable[[int, Row], bool]) -> list[Row]:
    return [
        each | {"time_us": repr(factor * float(each["time_us"]))} if wanted(i, each) else each
        for i, each in enumerate(rows)
    ]


def write(path: Path, rows: list[Row]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def changed(device: Device, group: str, values: dict[str, float], precision: Precision = "fp16") -> Device:
    return with_constants(with_constants(device, "launch", precision, {"time": LAUNCH}), group, precision, values)


@pytest.fixture
def calibrated(tmp_path: Path, machine: Hardware) -> Calibrate:
    def made(*tables: list[Row], on: Hardware = machine, **chosen: str) -> Calibration:
        paths = [write(tmp_path / f"{i}.csv", rows) for i, rows in enumerate(tables)]
        return calibrate(paths, on, Selection(**chosen))

    return made


class TestGivesTheConstantsBack:
    @pytest.mark.parametrize("true", [PRODUCTS, SLOW_TILES], ids=["products", "slow tiles"])
    def test_of_products(self, calibrated: Calibrate, machine: Hardware, true: dict[str, float]) -> None:
        (made,) = calibrated(timed(gemms(100), changed(machine.device, "matmul", true))).fits
        assert made.constants == pytest.approx(true, rel=0.03)
        assert made.launch == pytest.approx(LAUNCH, rel=0.03)
        assert (made.points, made.held_out) == (66, 34)
        assert made.errors
        assert made.errors.median <= made.errors.p90 < 0.01

    def test_of_attention_without_what_belongs_to_the_engine(self, calibrated: Calibrate, machine: Hardware) -> None:
        (made,) = calibrated(timed(attentions(90), changed(machine.device, "attention", ATTENTION))).fits
        kept = {name: ATTENTION[name] for name in ("fraction", "softmax_width", "keys_half")}
        assert made.constants == pytest.approx(kept, rel=0.04)
        assert made.errors
        assert made.errors.p90 < 0.01

    @pytest.mark.parametrize(
        ("group", "rows"),
        [("convolution", convolutions(24)), ("streaming", streams(24, "gelu")), ("reduction", streams(24, "softmax"))],
        ids=["convolution", "streaming", "reduction"],
    )
    def test_of_one_share(self, calibrated: Calibrate, machine: Hardware, group: str, rows: list[Row]) -> None:
        (made,) = calibrated(timed(rows, changed(machine.device, group, {"fraction": 0.44}))).fits
        assert made.constants == {"fraction": pytest.approx(0.44, rel=0.01)}
        assert made.launch == pytest.approx(LAUNCH, rel=0.03)
        assert made.errors
        assert made.errors.p90 < 0.01

    def test_of_convolutions_with_the_tiles_that_products_gave(self, calibrated: Calibrate, machine: Hardware) -> None:
        """The times of both were made with tiles that the machine's file does not state."""
        device = with_constants(changed(machine.device, "matmul", PRODUCTS), "convolution", "fp16", {"fraction": 0.44})
        made = calibrated(timed(convolutions(24), device), timed(gemms(100), device))
        assert [each.op for each in made.fits] == ["gemm", "convolution"]
        assert made.fits[1].constants["fraction"] == pytest.approx(0.44, rel=0.02)
        assert made.device.efficiency.convolution.fraction == made.fits[1].constants["fraction"]

    def test_of_two_precisions_each_its_own(self, calibrated: Calibrate, machine: Hardware) -> None:
        """The device that later operations are fitted on has both, as the file that is written."""
        other = PRODUCTS | {"fraction": 0.5, "tile_balance": 10.0, "depth_time": 0.0}
        made = calibrated(
            timed(gemms(100), changed(machine.device, "matmul", PRODUCTS)),
            timed(gemms(80, "bf16"), changed(machine.device, "matmul", other, "bf16")),
        )
        assert {str(each.precision): each.constants["fraction"] for each in made.fits} == pytest.approx(
            {"fp16": 0.72, "bf16": 0.5}, rel=0.03
        )
        fractions = [made.device.efficiency.products(p).matmul.fraction for p in ("fp16", "bf16")]
        assert fractions == pytest.approx([0.72, 0.5], rel=0.03)

    def test_the_launch_of_products_is_that_of_the_device(self, calibrated: Calibrate, machine: Hardware) -> None:
        made = calibrated(timed(gemms(24), changed(machine.device, "matmul", {"fraction": 0.72})))
        assert made.device.efficiency.launch.time == made.fits[0].launch


class TestIsNotSwayed:
    def test_by_test_rows(self, calibrated: Calibrate, machine: Hardware) -> None:
        rows = timed(gemms(48), changed(machine.device, "matmul", PRODUCTS))
        (before,) = calibrated(rows).fits
        (after,) = calibrated(slower(rows, 7.0, lambda _, each: each["split"] == "test")).fits
        assert (after.constants, after.launch) == (before.constants, before.launch)
        assert before.errors
        assert after.errors
        assert after.errors.median > 10 * before.errors.median

    def test_but_by_calibration_rows(self, calibrated: Calibrate, machine: Hardware) -> None:
        rows = timed(streams(24, "gelu"), machine.device)
        (made,) = calibrated(slower(rows, 2.0, lambda _, each: each["split"] == "calibration")).fits
        assert made.constants["fraction"] == pytest.approx(0.4, rel=0.02)

    def test_much_by_one_row_in_twenty_that_is_ten_times_too_slow(
        self, calibrated: Calibrate, machine: Hardware, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        true = PRODUCTS | {"depth_time": 0.0}
        rows = timed(gemms(120), changed(machine.device, "matmul", true))
        noisy = slower(rows, 10.0, lambda i, _: i % 20 == 1)
        (soft,) = calibrated(noisy).fits
        assert soft.constants["fraction"] == pytest.approx(true["fraction"], rel=0.05)
        assert soft.launch == pytest.approx(LAUNCH, rel=0.05)
        monkeypatch.setattr("perfmodel.calibration.fit.SOFT", 1e6)
        (squares,) = calibrated(noisy).fits
        assert soft.errors
        assert squares.errors
        assert soft.errors.median < 0.01 < squares.errors.median

    @pytest.mark.parametrize("points", [LEAST - 1, LEAST, EACH, 2 * EACH - 1, 2 * EACH, 3 * EACH])
    def test_beyond_what_few_points_determine(self, calibrated: Calibrate, machine: Hardware, points: int) -> None:
        rows = [each | {"split": "calibration"} for each in gemms(points)]
        (made,) = calibrated(timed([*rows, *gemms(1)], changed(machine.device, "matmul", PRODUCTS))).fits
        known = 0 if points < LEAST else max(1, points // EACH)
        assert list(made.constants) == [c.name for c in FORMS["gemm"].constants[:known]]
        assert (made.points, made.held_out) == (points, 1)

    def test_by_a_memory_that_a_cache_serves(self, calibrated: Calibrate, fixtures: Path, tmp_path: Path) -> None:
        cache = "  caches: [{name: L2, capacity: 40 MB, source: none, status: datasheet}]\n  efficiency:\n"
        file = tmp_path / "cached.yaml"
        file.write_text(
            (fixtures / "machine.yaml").read_text(encoding="utf-8").replace("  efficiency:\n", cache, 1),
            encoding="utf-8",
        )
        machine = load(file, Hardware)
        small = [row(1, op=op, bytes=size) for op in ("gelu", "softmax") for size in (1_000_000, 79_999_999)]
        large = [row(1 + i % 2, op=op, bytes=80_000_000 + i) for op in ("gelu", "softmax") for i in range(6)]
        made = calibrated(
            slower(timed(small, machine.device), 0.1, lambda *_: True) + timed(large, machine.device), on=machine
        )
        assert made.reasons == {IN_CACHE: 4}
        assert [(each.op, each.points + each.held_out) for each in made.fits] == [("stream", 6), ("reduction", 6)]

    def test_by_precisions_that_the_device_lacks(self, calibrated: Calibrate, machine: Hardware) -> None:
        rows = timed(gemms(12), machine.device)
        made = calibrated(rows + [each | {"precision": "fp8"} for each in rows])
        assert made.reasons == {"no peak for fp8 on Testium": 12}
        assert [each.precision for each in made.fits] == ["fp16"]


def test_simple_forms_are_worse_where_tiles_rule(calibrated: Calibrate, machine: Hardware) -> None:
    (made,) = calibrated(timed(gemms(60), changed(machine.device, "matmul", PRODUCTS))).fits
    assert made.errors
    assert set(made.rivals) == {"constant efficiency", "bare roofline"}
    assert all(rival.median > 0.1 > made.errors.median for rival in made.rivals.values())


class TestTimings:
    def test_a_third_is_held_out_whatever_the_order(self, tmp_path: Path, machine: Hardware) -> None:
        rows = [each | {"split": ""} for each in timed(gemms(150), machine.device)]
        held = [
            {
                (t.measured.kernels, t.held_out)
                for t in read_timings([write(tmp_path / "t.csv", given)], Selection()).rows
            }
            for given in (rows, rows[::-1], rows[70:] + rows[:70])
        ]
        assert held[0] == held[1] == held[2]
        assert sum(out for _, out in held[0]) == pytest.approx(50, abs=15)

    def test_a_shape_is_on_one_side_however_often_it_was_timed(self, tmp_path: Path, machine: Hardware) -> None:
        rows = [each | {"split": ""} for each in timed(gemms(30), machine.device)]
        twice = read_timings([write(tmp_path / "t.csv", rows + slower(rows, 1.1, lambda *_: True))], Selection()).rows
        assert [t.held_out for t in twice[:30]] == [t.held_out for t in twice[30:]]

    def test_are_those_that_were_asked_for(self, tmp_path: Path, machine: Hardware) -> None:
        rows = timed(gemms(4), machine.device)
        for name, text in (
            ("device", "Other"),
            ("source", "Elsewhere"),
            ("precision", "bf16"),
            ("library", "theirs 2.1"),
        ):
            rows.append(rows[0] | {name: text})
        rows = [{"library": "cuBLAS 12"} | each for each in rows]
        path = write(tmp_path / "t.csv", rows)
        chosen = {"device": "Testium", "source": "Bench", "precision": "fp16", "library": "cuBLAS"}
        assert len(read_timings([path], Selection(**chosen)).rows) == 4
        assert [len(read_timings([path], Selection(**(chosen | {name: ""}))).rows) for name in chosen] == [5, 5, 5, 5]

    def test_columns_take_as_long_as_one_by_one(self, tmp_path: Path, machine: Hardware) -> None:
        backward = [each | {"kind": "sdp_bwd"} for each in attentions(8)]
        tables = [gemms(12), attentions(8), backward, convolutions(8), streams(5, "gelu")]
        paths = [write(tmp_path / f"{i}.csv", timed(rows, machine.device)) for i, rows in enumerate(tables)]
        rows = [each for each in read_timings(paths, Selection()).rows if each.measured.op != "stream"]
        rows = [rows[i] for i in np.random.default_rng(3).permutation(len(rows))]
        one_by_one = [measured_time(each.measured, machine.device) for each in rows]
        np.testing.assert_allclose(times(rows, machine.device), one_by_one, rtol=1e-12)
        batches = stacked(rows)
        assert sorted(i for batch in batches for i in batch.index) == list(range(len(rows)))
        assert len(batches) < 10 < len(rows)


class TestHarness:
    MACHINES = Machines.model_validate(
        {"devices": {}, "systems": {}, "harness": {"Bench": "30 us", "Bench, of": "90 us"}}
    )

    @pytest.fixture(autouse=True)
    def harness(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(timings, "machines", lambda: self.MACHINES)
        monkeypatch.setattr(ops, "machines", lambda: self.MACHINES)

    @pytest.mark.parametrize(("source", "added"), [("Bench 3", 30e-6), ("bench", 0.0), ("A Bench", 0.0), ("", 0.0)])
    def test_is_known_by_how_the_source_begins(self, source: str, added: float) -> None:
        assert self.MACHINES.harness_of({"source": source}) == pytest.approx(added)

    def test_of_a_row_without_a_source_is_none(self) -> None:
        assert self.MACHINES.harness_of({}) == 0

    def test_is_no_part_of_the_kernel(self, calibrated: Calibrate, machine: Hardware) -> None:
        """Half of the rows are of a source that adds nothing."""
        device = changed(machine.device, "matmul", {"fraction": 0.72})
        bare = [each | {"source": "Other"} for each in gemms(16)]
        (made,) = calibrated(timed(gemms(16), device, harness=30e-6) + timed(bare, device)).fits
        assert made.constants["fraction"] == pytest.approx(0.72, rel=0.03)
        assert made.launch == pytest.approx(LAUNCH, rel=0.03)

    def test_is_part_of_what_validation_predicts(self, tmp_path: Path, fixtures: Path, machine: Hardware) -> None:
        rows = timed(gemms(3), machine.device, harness=30e-6)
        found = judge_tables([write(tmp_path / "t.csv", rows)], ops.OPS, str(fixtures / "machine.yaml"))
        assert [each.error for each in found] == pytest.approx([0, 0, 0], abs=1e-9)


def test_nothing_held_out_gives_no_errors(tmp_path: Path, machine: Hardware) -> None:
    path = write(tmp_path / "t.csv", timed(streams(9, "gelu"), machine.device))
    rows = [replace(each, held_out=False) for each in read_timings([path], Selection()).rows]
    made = fit(rows, machine.device)
    assert (made.errors, made.rivals, made.held_out) == (None, {}, 0)
    assert made.constants == {"fraction": pytest.approx(0.8, rel=0.01)}
