"""`compare`: strategies over numbers of devices and reports term by term, by command line and from Python."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

import perfmodel
from perfmodel import api
from perfmodel.cli import main
from perfmodel.comparison import crossovers

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = "pcie-4gpu-10gbe"
STRATEGIES = ["all-reduce-after-backward", "parameter-server-single", "peer-to-peer"]
POINT = {"strategy", "devices", "batch", "step_time", "samples_per_second", "tokens_per_second", "communication",
         "exposed_communication", "speedup", "fits", "reason"}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["compare", *words])
    out, err = capsys.readouterr()
    return code, out, err


def points(**request: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"strategies": STRATEGIES, "devices": [4, 8, 16, 32], "precision": "fp32"} | request
    record: dict[str, Any] = api.compare("vgg-16", MACHINE, **given).record
    return record


@pytest.fixture(scope="module")
def weak() -> dict[str, Any]:
    return points(batch_per_device=8)


class TestStrategies:
    def test_the_command_is_the_function(self, weak: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
        words = [
            "vgg-16",
            MACHINE,
            "--strategies",
            ",".join(STRATEGIES),
            "--devices",
            "4, 8,16,32",
            "--precision",
            "fp32",
        ]
        code, out, err = run(capsys, *words, "--batch-per-device", "8", "--format", "json")
        assert (code, err) == (0, "")
        assert json.loads(out) == weak

    def test_keys(self, weak: dict[str, Any]) -> None:
        assert weak.keys() == {"schema", "workload", "hardware", "scaling", "strategies", "points", "crossovers"}
        assert all(point.keys() == POINT for point in weak["points"])
        assert all(found.keys() == {"faster", "slower", "devices", "below", "above"} for found in weak["crossovers"])
        assert [(p["strategy"], p["devices"]) for p in weak["points"]] == [
            (s, n) for s in STRATEGIES for n in (4, 8, 16, 32)
        ]

    def test_a_point_is_a_prediction(self, weak: dict[str, Any]) -> None:
        point = next(p for p in weak["points"] if (p["strategy"], p["devices"]) == ("peer-to-peer", 16))
        made = perfmodel.predict(
            "vgg-16", MACHINE, strategy="peer-to-peer", devices=16, batch=128, microbatch=8, precision="fp32"
        )
        alone = perfmodel.predict(
            "vgg-16", MACHINE, strategy="peer-to-peer", devices=1, batch=8, microbatch=8, precision="fp32"
        )
        assert point["batch"] == 128
        assert point["step_time"] == made.step_time
        assert point["speedup"] == pytest.approx(made.samples_per_second / alone.samples_per_second)
        assert 0 < point["exposed_communication"] <= point["communication"] < point["step_time"]

    def test_strong_scaling_keeps_the_batch(self) -> None:
        made = points(batch=64, devices=[4, 8], microbatch=2)
        assert made["scaling"] == "strong"
        assert {p["batch"] for p in made["points"]} == {64}

    def test_crossovers_lie_where_the_curves_cross(self, weak: dict[str, Any]) -> None:
        times = {(p["strategy"], p["devices"]): p["step_time"] for p in weak["points"]}
        assert weak["crossovers"]
        for found in weak["crossovers"]:
            faster, slower = found["faster"], found["slower"]
            assert found["below"] < found["devices"] < found["above"]
            assert times[faster, found["below"]] > times[slower, found["below"]]
            assert times[faster, found["above"]] < times[slower, found["above"]]
        peers = [c for c in weak["crossovers"] if c["slower"] == "peer-to-peer"]
        assert [c["faster"] for c in peers] == ["all-reduce-after-backward"]

    def test_what_cannot_run_is_a_row_with_its_reason(self) -> None:
        made = points(batch=32, devices=[8, 24, 64])
        reasons = {p["devices"]: p["reason"] for p in made["points"] if p["strategy"] == "peer-to-peer"}
        assert reasons[8] == ""
        assert "not divisible by 24" in reasons[24]
        assert "more than the 32" in reasons[64]
        assert {p["step_time"] for p in made["points"] if p["devices"] > 8} == {None}
        big = points(batch_per_device=4096, devices=[4])["points"][0]
        assert (big["fits"], big["reason"]) == (False, "does not fit in the memory of a device")
        assert big["step_time"] > 0

    def test_formats(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = [
            "vgg-16",
            MACHINE,
            "--strategies",
            "peer-to-peer,horovod",
            "--devices",
            "8,16",
            "--batch-per-device",
            "8",
            "--precision",
            "fp32",
        ]
        _, table, _ = run(capsys, *words)
        _, text, _ = run(capsys, *words, "--format", "csv")
        _, markdown, _ = run(capsys, *words, "--format", "markdown")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [(r["strategy"], r["devices"]) for r in rows] == [
            ("peer-to-peer", "8"),
            ("peer-to-peer", "16"),
            ("horovod", "8"),
            ("horovod", "16"),
        ]
        assert "horovod overtakes peer-to-peer at" in table
        assert markdown.startswith("### VGG-16 on pcie-4gpu-10gbe, weak scaling")

    def test_plot(self, tmp_path: Path) -> None:
        picture = tmp_path / "compared.png"
        points(batch_per_device=8, plot=picture)
        assert picture.read_bytes().startswith(b"\x89PNG")

    @pytest.mark.parametrize(
        ("words", "lines"),
        [
            (
                ["vgg-16", MACHINE, "--devices", "2,x,0", "--batch", "3", "--batch-per-device", "-1"],
                [
                    "--strategies: name one or more, as in --strategies horovod,parameter-server",
                    "--devices: must be whole numbers above 0, not 'x'",
                    "--devices: must be whole numbers above 0, not 0",
                    "--batch-per-device: must be a whole number above 0, not -1",
                    "--batch: not both: give --batch-per-device for weak scaling, or --batch for strong scaling",
                ],
            ),
            (
                ["vgg-16", MACHINE, "--strategies", "horovod"],
                [
                    "--devices: give one or more numbers, as in --devices 2,4,8,16",
                    "--batch: give --batch-per-device for weak scaling, or --batch for strong scaling",
                ],
            ),
            (
                ["vgg-166", MACHINE, "--strategies", "horovid,peer-to-peer", "--devices", "4", "--batch", "8"],
                [
                    "vgg-166: no workload of this name in the library, and no such YAML file; did you mean 'vgg-16' or 'vgg-19' or 'vgg-13'?",
                    "horovid: no strategy of this name in the library, and no such YAML file; did you mean 'horovod'?",
                ],
            ),
            (["vgg-16"], ["compare: needs a workload and a machine, or two or more JSON files that predict wrote; not 1 names"]),
            (
                ["vgg-16", MACHINE, "--strategies", "horovod", "--devices", "4", "--batch", "8", "--plot", "a.txt"],
                ["--plot: a.txt: a picture ends in .png, .svg or .pdf"],
            ),
        ],
    )  # fmt: skip
    def test_says_what_is_wrong(self, words: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, *words)
        assert err.splitlines() == lines
        assert (code, out) == (2, "")


class TestCrossovers:
    def test_parallel_and_equal_curves_have_none(self) -> None:
        flat = {2: 1.0, 4: 1.0, 8: 1.0}
        assert not list(crossovers(("a", flat), ("b", flat)))
        assert not list(crossovers(("a", flat), ("b", dict.fromkeys(flat, 2.0))))

    def test_curves_that_touch_on_the_way_cross_once(self) -> None:
        [found] = crossovers(("a", {2: 1.0, 4: 1.0, 8: 1.0}), ("b", {2: 2.0, 4: 1.0, 8: 0.5}))
        assert (found.faster, found.below, found.above) == ("b", 2, 8)
        assert found.devices == pytest.approx(4.0)

    def test_only_common_points_count(self) -> None:
        assert not list(crossovers(("a", {2: 1.0}), ("b", {4: 0.5})))


class TestReports:
    @pytest.fixture
    def files(self, tmp_path: Path) -> list[str]:
        made = []
        for name in ("horovod", "byteps", "peer-to-peer"):
            prediction = perfmodel.predict(
                "vgg-16", MACHINE, strategy=name, devices=16, batch=128, microbatch=8, precision="fp32"
            )
            path = tmp_path / f"{name}.json"
            path.write_text(api.report(prediction).render("json"), encoding="utf-8")
            made.append(str(path))
        return made

    def test_differences_add_up(self, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, *files, "--format", "json")
        record = json.loads(out)
        assert code == 0
        assert record == api.compare_reports(files).record
        for name, step in zip(record["names"], record["step_time"], strict=True):
            assert sum(term[name] for term in record["terms"]) == pytest.approx(step, rel=1e-9)
        for name in record["names"][1:]:
            change = record["step_time"][record["names"].index(name)] - record["step_time"][0]
            assert sum(term[f"{name}.difference"] for term in record["terms"]) == pytest.approx(
                change, rel=1e-9, abs=1e-12
            )
        assert {row["path"] for row in record["differing"]} >= {"strategy.sync", "strategy.name"}

    def test_the_table_leaves_out_what_is_alike(self, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(capsys, *files[:2])
        assert "terms that do not differ" in out
        assert "push" in out
        assert "What differs" in out

    def test_a_report_beside_itself_differs_in_nothing(self, files: list[str]) -> None:
        record = api.compare_reports([files[0], files[0]]).record
        assert not record["differing"]
        assert {term[f"{record['names'][1]}.difference"] for term in record["terms"]} == {0.0}

    def test_faults_of_all_files(self, tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        broken, other = tmp_path / "broken.json", tmp_path / "other.json"
        broken.write_text('{"a": 1,}', encoding="utf-8")
        other.write_text('{"studies": []}', encoding="utf-8")
        code, out, err = run(capsys, files[0], str(broken), str(other), str(tmp_path / "none.json"))
        lines = err.splitlines()
        assert (code, out) == (2, "")
        assert [line.removeprefix(str(tmp_path)).split(": ")[0] for line in lines] == [
            "/broken.json:1:9",
            "/other.json",
            "/none.json",
        ]
        assert "make one with `perfmodel predict" in lines[1]

    def test_options_of_the_other_kind_are_refused(self, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, *files, "--devices", "4", "--batch", "8")
        assert code == 2
        assert [line.partition(":")[0] for line in err.splitlines()] == ["--devices", "--batch"]

    def test_one_report_needs_another(self, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, files[0])
        assert code == 2
        assert err.rstrip().endswith("needs another report beside it")
