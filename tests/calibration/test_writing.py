"""A calibration as a hardware file: the fitted groups anew, every other value and every comment where it was."""

from __future__ import annotations

import csv
import re
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest

from perfmodel.calibration.forms import with_constants
from perfmodel.calibration.ops import calibrate
from perfmodel.calibration.timings import Selection
from perfmodel.calibration.writing import calibrated_text
from perfmodel.cli import main
from perfmodel.specs import Hardware
from perfmodel.validation.ops import express_of, measured_time
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfmodel.calibration.ops import Calibration
    from perfmodel.specs.common import Precision
    from perfmodel.specs.hardware import Efficiency

    Row = dict[str, str]
    Written = Callable[[list[Row]], Hardware]

BLOCKS = {
    "matmul": """    # products
    matmul:
      fraction: 0.8  # of the peak
      # below which a core waits
      tile_balance: 16
      depth_half: 64
      source: none  # nobody's
      status: fitted
      error: 0.08
      note: of old
    # maps
""",
    "streaming": """    streaming: {fraction: 0.8, source: none, status: measured}  # elementwise
""",
    "launch": """    launch:
      time: 5 us
      source: none
      status: assumed

  # at the wall
""",
}  # fmt: skip
"""Groups of the test machine as its author might write them."""
PRECISION: tuple[Precision, ...] = ("fp16", "bf16")


@pytest.fixture
def text(fixtures: Path) -> str:
    made = (fixtures / "machine.yaml").read_text(encoding="utf-8")
    for name, block in BLOCKS.items():
        made = re.sub(rf"^    {name}: .*\n", block, made, flags=re.MULTILINE)
    return made


def gemms(precision: Precision, fraction: float, points: int, machine: Hardware) -> list[Row]:
    device = with_constants(machine.device, "matmul", precision, {"fraction": fraction})
    sizes = [(m, n, k) for m, n, k in product((192, 700, 3000), (256, 1100, 4096), (96, 640, 2500, 5000))][:points]
    return timed(
        [{"precision": precision, "m": str(m), "n": str(n), "k": str(k), "batch": "1"} for m, n, k in sizes], device
    )


def attentions(precision: Precision, fraction: float, points: int, machine: Hardware) -> list[Row]:
    device = with_constants(machine.device, "attention", precision, {"fraction": fraction})
    same = {"heads": "16", "kv_heads": "16", "head_dim": "128", "kind": "fwd", "causal": "0"}
    sizes = [(str(batch), str(keys)) for batch, keys in product((8, 9, 13, 16, 21), (512, 1024, 1536, 2048))][:points]
    return timed([{"precision": precision, "batch": b, "q_len": s, "kv_len": s, **same} for b, s in sizes], device)


def timed(rows: list[Row], device: object) -> list[Row]:
    about = {"device": "Testium", "source": "Bench & Co, of 2024", "address": "ops.csv:7"}
    express = express_of({*rows[0], "device", "time_us"})
    assert express
    return [
        about
        | row
        | {"split": "calibration" if i % 5 else "test", "time_us": repr(1e6 * measured_time(express(row), device))}  # type: ignore[arg-type]
        for i, row in enumerate(rows)
    ]


def write(path: Path, rows: list[Row]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def made(tmp_path: Path, machine: Hardware, rows: list[Row]) -> Calibration:
    return calibrate([write(tmp_path / "ops.csv", rows)], machine, Selection())


@pytest.fixture
def written(tmp_path: Path, machine: Hardware, text: str) -> Written:
    """The machine read back from the file that a calibration to these rows writes."""

    def read_back(rows: list[Row]) -> Hardware:
        file = tmp_path / "new.yaml"
        file.write_text(calibrated_text(text, made(tmp_path, machine, rows)), encoding="utf-8")
        return load(file, Hardware)

    return read_back


def untouched(efficiency: Efficiency, *groups: str) -> dict[str, object]:
    return {name: value for name, value in dict(efficiency).items() if name not in groups}


class TestTheFile:
    def test_has_the_constants_and_where_they_come_from(self, written: Written, machine: Hardware) -> None:
        new = written(gemms("fp16", 0.7, 11, machine))
        group = new.device.efficiency.matmul
        assert group.fraction == pytest.approx(0.7, rel=0.01)
        assert (group.source, group.status, group.points, group.error) == ("bench-co", "fitted", 8, 0.001)
        assert group.note.startswith("gemm in fp16; p90 0% on 3 held-out timings")
        assert new.sources["bench-co"] == "Bench & Co, of 2024, ops.csv"
        launch = new.device.efficiency.launch
        assert launch.time == pytest.approx(5e-6, rel=0.03)
        assert (launch.source, launch.status) == ("bench-co", "fitted")

    def test_keeps_what_the_timings_do_not_determine(self, written: Written, machine: Hardware) -> None:
        new, old = written(gemms("fp16", 0.7, 11, machine)).device.efficiency, machine.device.efficiency
        assert (new.matmul.tile_balance, new.matmul.depth_half) == (old.matmul.tile_balance, old.matmul.depth_half)
        assert untouched(new, "matmul", "launch") == untouched(old, "matmul", "launch")

    def test_keeps_lines_and_comments_in_their_places(self, tmp_path: Path, machine: Hardware, text: str) -> None:
        lines = calibrated_text(text, made(tmp_path, machine, gemms("fp16", 0.7, 11, machine))).splitlines()
        comments = [line.partition("#")[2] for line in lines if "#" in line]
        assert comments == [line.partition("#")[2] for line in text.splitlines() if "#" in line]
        followed = {line.strip(): after.split(":")[0].strip() for line, after in pairwise(lines)}
        assert followed["# products"] == "matmul"
        assert followed["# below which a core waits"] == "tile_balance"
        other = [line for line in text.splitlines() if "#" not in line and not line.startswith("      ") and line]
        assert [line for line in lines if line in other] == other

    @pytest.mark.parametrize(("comment", "key"), [("# maps", "convolution"), ("# at the wall", "power")])
    def test_keeps_a_comment_after_a_fitted_group_before_the_next(
        self, tmp_path: Path, machine: Hardware, text: str, comment: str, key: str
    ) -> None:
        lines = calibrated_text(text, made(tmp_path, machine, gemms("fp16", 0.7, 11, machine))).splitlines()
        place = next(i for i, line in enumerate(lines) if line.strip() == comment)
        assert lines[place + 1].strip().startswith(f"{key}:")

    def test_is_the_same_when_written_again(self, tmp_path: Path, machine: Hardware, text: str) -> None:
        calibration = made(tmp_path, machine, gemms("fp16", 0.7, 11, machine))
        once = calibrated_text(text, calibration)
        assert calibrated_text(once, calibration) == once != text

    def test_takes_a_key_that_is_given(self, tmp_path: Path, machine: Hardware, text: str) -> None:
        calibration = made(tmp_path, machine, gemms("fp16", 0.7, 11, machine))
        assert "source: of-mine" in calibrated_text(text, calibration, "of-mine")

    @pytest.mark.parametrize("points", [36, 11], ids=["many points", "few points"])
    def test_has_a_second_precision_by_itself(self, written: Written, machine: Hardware, points: int) -> None:
        new = written(gemms("fp16", 0.7, 36, machine) + gemms("bf16", 0.4, points, machine)).device.efficiency
        assert (new.matmul.note[:12], set(new.precisions)) == ("gemm in fp16", {"bf16"})
        own = new.precisions["bf16"].matmul
        assert own
        assert own.note.startswith("gemm in bf16")
        assert (own.status, own.source) == ("fitted", "bench-co")
        assert [new.products(p).matmul.fraction for p in PRECISION] == pytest.approx([0.7, 0.4], rel=0.03)

    def test_has_of_attention_the_fit_with_the_most_points(self, written: Written, machine: Hardware) -> None:
        new = written(attentions("fp16", 0.6, 20, machine) + attentions("bf16", 0.3, 8, machine))
        group = new.device.efficiency.attention
        assert (group.note.partition(";")[0], group.points) == ("attention in fp16", 16)
        assert group.fraction > 0.5

    def test_of_timings_without_a_source_says_so(self, written: Written, machine: Hardware) -> None:
        new = written([row | {"source": ""} for row in gemms("fp16", 0.7, 11, machine)])
        assert new.sources[new.device.efficiency.matmul.source] == "timings of the user"

    def test_has_the_old_constants_where_too_little_was_timed(self, written: Written, machine: Hardware) -> None:
        new = written(gemms("fp16", 0.7, 5, machine)).device.efficiency
        assert (new.matmul.fraction, new.matmul.note, new.matmul.points) == (0.8, "of old", None)
        assert untouched(new, "matmul") == untouched(machine.device.efficiency, "matmul")


class TestTheCommand:
    @pytest.fixture(autouse=True)
    def files(self, tmp_path: Path, machine: Hardware, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "machine.yaml").write_text(text, encoding="utf-8")
        rows = gemms("fp16", 0.7, 20, machine)
        write(tmp_path / "ops.csv", rows)
        write(
            tmp_path / "bad.csv",
            [row | change for row, change in zip(rows, ({}, {"m": "wide"}, {"k": "-4"}, {}), strict=False)],
        )
        (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")

    def test_writes_a_file_that_check_accepts(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["calibrate", "ops", "ops.csv", "--hardware", "machine.yaml", "-o", "new.yaml"]) == 0
        assert main(["check", "new.yaml"]) == 0
        assert main(["predict", "gpt2-124m", "new.yaml"]) == 0
        assert load(tmp_path / "new.yaml", Hardware).device.efficiency.matmul.fraction == pytest.approx(0.7, rel=0.01)
        assert "0.7" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("form", "words"),
        [
            ("table", ["gemm", "held out", "bare roofline", "tile_balance", "launch time"]),
            ("json", ['"op": "gemm"', '"points": 16', '"held_out": 4', '"tile_balance": 16']),
            (
                "csv",
                ["op,precision,points,held_out,median,p90,constant efficiency,bare roofline,launch", "gemm,fp16,16,4,"],
            ),
        ],
    )
    def test_has_formats(self, capsys: pytest.CaptureFixture[str], form: str, words: list[str]) -> None:
        assert main(["calibrate", "ops", "ops.csv", "--hardware", "machine.yaml", "--format", form]) == 0
        out = capsys.readouterr().out
        assert [word for word in words if word not in out] == []

    NONE_KNOWN = "--device: {}: no hardware file is known for this device; did you mean 'NVIDIA H100 SXM' or 'NVIDIA H200 SXM' or 'NVIDIA A100 SXM'?; name one with --hardware"

    @pytest.mark.parametrize(
        ("words", "lines"),
        [
            ("ops.csv --hardware machine.yaml --device Testiun", ["--device: Testiun: no timing of this device that can be used; did you mean 'Testium'?"]),
            ("ops.csv --hardware machine.yaml --source Elsewhere", ["--device: no timing of this device that can be used; the tables hold Testium"]),
            ("ops.csv --device NVIDIA_H100_SXN", [NONE_KNOWN.format("NVIDIA H100 SXN")]),
            ("ops.csv --hardware dgx-h10", ["dgx-h10: no hardware of this name in the library, and no such YAML file; did you mean 'dgx-h100'?"]),
            ("ops.csv --hardware machin.yaml", ["machin.yaml: cannot be read: No such file or directory"]),
            ("--hardware machine.yaml", ["perfmodel: Missing argument 'DATA...'; see perfmodel calibrate ops --help"]),
            ("bad.csv other.csv none.csv --hardware machine.yaml", [
                "bad.csv:3:1: m: must be a number, not 'wide'",
                "bad.csv:4:1: k: must not be negative",
                "other.csv:1:1: is no table of a kind that is known here; the nearest also has the columns bytes, device, op, precision, time_us",
                "none.csv: cannot be read: No such file or directory",
            ]),
        ],
    )  # fmt: skip
    def test_says_what_is_wrong_and_writes_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, lines: list[str]
    ) -> None:
        command = [word.replace("_", " ") for word in words.split()]
        assert main(["calibrate", "ops", *command, "-o", "new.yaml"]) == 2
        out, err = capsys.readouterr()
        assert (err.splitlines(), out) == (lines, "")
        assert not (tmp_path / "new.yaml").exists()

    @pytest.mark.parametrize(
        ("path", "fault"), [("nowhere/new.yaml", "No such file or directory"), (".", "Is a directory")]
    )
    def test_says_where_nothing_can_be_written(self, capsys: pytest.CaptureFixture[str], path: str, fault: str) -> None:
        assert main(["calibrate", "ops", "ops.csv", "--hardware", "machine.yaml", "-o", path]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        (line,) = err.splitlines()
        assert line.startswith("--yaml: ")
        assert line.endswith(f"cannot be written: {fault}")
