"""Tables of kernels and collectives: predicted as the formulas say, counted or told why not; hostile files get one line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel import api, csvfile
from perfmodel.cli import main
from perfmodel.cost.compute import Processor
from perfmodel.errors import InputError
from perfmodel.formulas.collectives import chain_broadcast, ring_all_gather, ring_all_reduce, send
from perfmodel.formulas.matmul import tiled_matmul
from perfmodel.formulas.roofline import streaming
from perfmodel.graph.ops import Attention
from perfmodel.library import find
from perfmodel.timeline import duration
from perfmodel.validation import collectives
from perfmodel.validation.collectives import COLLECTIVES
from perfmodel.validation.ops import OPS
from perfmodel.validation.tables import Machines, judge_tables, machines

if TYPE_CHECKING:
    from perfmodel.specs import Hardware
    from perfmodel.validation.cases import Outcome

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
KERNEL = {"device": "Testium", "precision": "fp16", "time_us": "100"}
ROWS: dict[str, dict[str, str]] = {
    "gemm": KERNEL | {"m": "4096", "n": "1024", "k": "2048", "batch": "3"},
    "attention": KERNEL | {
        "kind": "fwd", "batch": "4", "q_len": "2048", "kv_len": "2048", "heads": "16", "kv_heads": "16", "head_dim": "128",
        "window": "0", "causal": "0",
    },
    "convolution": KERNEL | {
        "pass": "fwd", "n": "32", "c": "64", "h": "56", "w": "28", "k": "128", "r": "5", "s": "3", "stride_h": "2", "stride_w": "1",
        "pad_h": "2", "pad_w": "1", "groups": "1",
    },
    "stream": KERNEL | {"op": "gelu", "bytes": "1e8"},
    "recurrent": KERNEL | {"cell": "lstm", "pass": "fwd", "hidden": "1024", "batch": "64", "timesteps": "25"},
    "all-reduce": {
        "collective": "all_reduce", "devices": "8", "nodes": "1", "bytes": "1e8", "time_us": "100", "hardware": "Test machine / x",
        "library": "NCCL 2",
    },
}  # fmt: skip
"""One row of each kind; the tests change what they are about."""


def table(rows: list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def kinds(name: str) -> Any:
    return COLLECTIVES if name == "all-reduce" else OPS


@pytest.fixture
def judge(tmp_path: Path, fixtures: Path) -> Any:
    def judged(name: str, **change: str) -> Outcome:
        file = tmp_path / "table.csv"
        file.write_text(table([ROWS[name] | change]), encoding="utf-8")
        (found,) = judge_tables([file], kinds(name), str(fixtures / "machine.yaml"))
        return found

    return judged


class TestAsTheFormulasSay:
    def product(self, machine: Hardware, precision: str = "fp16", **sizes: float) -> float:
        efficiency = machine.device.efficiency.matmul
        tiles = np.array(efficiency.tiles, dtype=float)
        constants: dict[str, Any] = {
            "peak": machine.device.compute.peak[precision], "cores": machine.device.compute.cores,  # type: ignore[index]
            "tile_rows": tiles[:, 0], "tile_columns": tiles[:, 1], "fraction": efficiency.fraction, "sustained": efficiency.sustained,
            "tile_balance": efficiency.tile_balance, "depth_half": efficiency.depth_half, "depth_time": efficiency.depth_time,
            "overlap": efficiency.overlap, "bandwidth": machine.device.memory.bandwidth,
            "streaming_fraction": machine.device.efficiency.streaming.fraction, "launch": machine.device.efficiency.launch.time,
        }  # fmt: skip
        return float(tiled_matmul(**(constants | sizes)))

    @pytest.mark.parametrize(("precision", "element"), [("fp16", 2), ("fp32", 4)])
    def test_products(self, judge: Any, machine: Hardware, precision: str, element: int) -> None:
        m, n, k = 4096, 1024, 2048
        traffic = 3 * element * (m * k + k * n + m * n)
        expected = self.product(machine, precision, rows=m, columns=n, depth=k, count=3, traffic=traffic)
        assert judge("gemm", precision=precision).predicted == pytest.approx(expected)

    def test_convolutions(self, judge: Any, machine: Hardware) -> None:
        """32 maps of 64 x 56 x 28, 128 filters of 5 x 3, every other row: 28 x 28 of output."""
        rows, traffic = 32 * 28 * 28, 2 * (32 * 64 * 56 * 28 + 128 * 64 * 15 + 32 * 128 * 28 * 28)
        fraction = machine.device.efficiency.convolution.fraction
        expected = self.product(
            machine, rows=rows, columns=128, depth=64 * 15, count=1, traffic=traffic, fraction=fraction
        )
        assert judge("convolution").predicted == pytest.approx(expected)

    def test_attention(self, judge: Any, machine: Hardware) -> None:
        """As the operation of a transformer is; never faster than the peak."""
        b, s, h, d = 4, 2048, 16, 128
        processor = Processor(machine.device, "fp16")
        op = Attention("attention", b, s, s, h, h, d, 2, causal=False, fused=True, dropout=False)
        forward, backward = (
            float(sum(duration(processor.time(k)) for k in kernels)) for kernels in (op.forward(), op.backward())
        )
        assert judge("attention").predicted == pytest.approx(forward)
        assert judge("attention", kind="sdp_bwd").predicted == pytest.approx(backward)
        assert forward > 4 * b * h * s * s * d / machine.device.compute.peak["fp16"]
        assert judge("attention", causal="1").predicted < forward < backward

    @pytest.mark.parametrize(("op", "group"), [("gelu", "streaming"), ("softmax", "reduction"), ("ln", "reduction")])
    def test_streams(self, judge: Any, machine: Hardware, op: str, group: str) -> None:
        efficiency = machine.device.efficiency
        expected = streaming(
            traffic=1e8,
            bandwidth=machine.device.memory.bandwidth,
            fraction=getattr(efficiency, group).fraction,
            launch=efficiency.launch.time,
        )
        assert judge("stream", op=op).predicted == pytest.approx(float(expected))

    @pytest.mark.parametrize(
        ("name", "formula"),
        [
            ("all_reduce", ring_all_reduce),
            ("all_gather", ring_all_gather),
            ("reduce_scatter", ring_all_gather),
            ("broadcast", chain_broadcast),
            ("reduce", chain_broadcast),
            ("sendrecv", send),
        ],
    )
    def test_collectives_inside_a_host(self, judge: Any, machine: Hardware, name: str, formula: Any) -> None:
        """The test machine's library adds nothing to the bare algorithms."""
        tier = machine.network[0]
        expected = formula(size=1e8, ranks=8, bandwidth=tier.bandwidth * tier.efficiency, latency=tier.latency)
        assert judge("all-reduce", collective=name).predicted == pytest.approx(float(expected))

    def test_an_all_to_all_sends_what_a_gather_brings(self, judge: Any) -> None:
        gathered, exchanged = (judge("all-reduce", collective=name).predicted for name in ("all_gather", "alltoall"))
        assert exchanged == pytest.approx(gathered, rel=0.05)

    def test_ranks_that_lie_apart_use_a_card_each(self, judge: Any) -> None:
        apart = judge("all-reduce", devices="4", nodes="2").predicted
        alone = judge("all-reduce", devices="2", nodes="2").predicted
        assert judge("all-reduce", devices="4", nodes="1").predicted < apart
        assert alone == pytest.approx(2 * 1e8 / 2 / 20e9 + 2 * 10e-6, rel=1e-3)

    @pytest.mark.parametrize("name", ["fwd", "bwd_inputs", "bwd_weights"])
    def test_recurrent_cells_run_step_by_step(self, judge: Any, name: str) -> None:
        once, twice = (judge("recurrent", timesteps=steps, **{"pass": name}).predicted for steps in ("25", "50"))
        assert twice == pytest.approx(2 * once, rel=0.2)

    @pytest.mark.parametrize("name", ROWS)
    def test_each_kind_is_known_by_its_header_alone(self, judge: Any, name: str) -> None:
        found = judge(name)
        assert found.counts
        assert found.measured == pytest.approx(1e-4)
        assert found.error == pytest.approx(found.predicted / 1e-4 - 1)
        assert found.split == "calibration"


class TestWhatDoesNotCount:
    @pytest.mark.parametrize(
        ("name", "change", "reason"),
        [
            ("gemm", {"time_us": ""}, "no time given"),
            ("gemm", {"time_us": "0"}, "no time given"),
            ("gemm", {"precision": "int4"}, "precision int4"),
            ("gemm", {"m": ""}, "no m given"),
            ("gemm", {"k": "0"}, "k is 0"),
            ("attention", {"kind": "generation"}, "attention of kind generation"),
            ("convolution", {"pass": "sideways"}, "pass sideways"),
            ("convolution", {"h": "2", "pad_h": "0"}, "the kernel exceeds the map"),
            ("convolution", {"stride_w": "0"}, "stride_w is 0"),
            ("stream", {"bytes": "0"}, "bytes is 0"),
            ("recurrent", {"cell": "gru"}, "recurrent cell gru"),
            ("recurrent", {"pass": "sideways"}, "pass sideways"),
            ("all-reduce", {"collective": "moe_dispatch"}, "collective moe_dispatch"),
            ("all-reduce", {"time_us": "1e12"}, "no time: the table marks that it did not run"),
            ("all-reduce", {"devices": "1"}, "fewer than two ranks"),
            ("all-reduce", {"devices": "12", "nodes": "2"}, "nodes that are used in part"),
            ("all-reduce", {"devices": "256", "nodes": "32"}, "more ranks than the 128 that Test machine joins"),
            ("all-reduce", {"bytes": ""}, "no bytes given"),
        ],
    )
    def test_has_its_reason(self, judge: Any, name: str, change: dict[str, str], reason: str) -> None:
        found = judge(name, **change)
        assert (found.state, found.predicted, found.reason) == ("inexpressible", None, reason)

    def test_a_window_saves_scores(self, judge: Any) -> None:
        whole, narrow, wide = (judge("attention", window=window).predicted for window in ("", "128", "100000"))
        assert narrow < whole == wide

    def test_is_counted_in_the_report(self, tmp_path: Path, fixtures: Path) -> None:
        rows = [
            ROWS["gemm"] | change
            for change in ({}, {"precision": "int4"}, {"precision": "int4"}, {"time_us": ""}, {"m": "512"})
        ]
        file = tmp_path / "table.csv"
        file.write_text(table(rows), encoding="utf-8")
        report = api.validate_tables("ops", [file], hardware=str(fixtures / "machine.yaml"))
        (study,) = report.record["studies"]
        assert (study["name"], study["count"]) == ("gemm Testium fp16", 2)
        assert report.record["reasons"] == {"precision int4": 2, "no time given": 1}
        assert [row["skipped"] for row in report.rows] == [False, True, True, True, False]
        assert [row["id"] for row in report.rows][:2] == ["table.csv:2", "table.csv:3"]
        assert "2   precision int4" in report.render("table")


class TestMachines:
    @pytest.mark.parametrize("name", ["gemm", "all-reduce"])
    def test_an_unknown_one_is_told(self, tmp_path: Path, name: str) -> None:
        file = tmp_path / "table.csv"
        file.write_text(table([ROWS[name]]), encoding="utf-8")
        (found,) = judge_tables([file], kinds(name))
        about = ROWS[name].get("hardware", "Testium")
        assert (found.state, found.reason) == ("inexpressible", f"no hardware file for {about}")

    def test_names_of_devices_are_exact_and_of_systems_beginnings(self, tmp_path: Path) -> None:
        file = tmp_path / "table.csv"
        for name, column, text, known in (
            ("gemm", "device", "NVIDIA H200", "dgx-h200"),
            ("gemm", "device", "NVIDIA H200 NVL", ""),
            ("all-reduce", "hardware", "2x 8xH200 (8x CX-7)", "dgx-h200"),
            ("all-reduce", "hardware", "NVIDIA DGX-2 / NVSwitch", "dgx-2"),
            ("all-reduce", "hardware", "not an NVIDIA DGX-2", ""),
        ):
            file.write_text(table([ROWS[name] | {column: text}]), encoding="utf-8")
            (found,) = judge_tables([file], kinds(name))
            assert found.hardware == known

    def test_another_library_and_other_conventions_by_source(self) -> None:
        row = ROWS["all-reduce"] | {
            "source": "SP19-Benchmark-results (NTNU): Scope NCCL",
            "library": "NCCL via C3SR Scope",
        }
        assert machines().library_of(row) == "c3sr-scope"
        assert machines().parts_of(row) == ("reduce_scatter",)
        assert machines().library_of(ROWS["all-reduce"]) == ""
        whole = collectives.collective(row | {"collective": "all_gather"}, find("hardware", "dgx-2"))
        assert collectives.collective(row | {"collective": "reduce_scatter"}, find("hardware", "dgx-2")) > 5 * whole

    def test_the_longest_beginning_wins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        systems = {"Test machine": "dgx-1-p100", "Test": "dgx-2"}
        monkeypatch.setattr(collectives, "machines", lambda: Machines(devices={}, systems=systems))
        file = tmp_path / "table.csv"
        file.write_text(table([ROWS["all-reduce"]]), encoding="utf-8")
        assert judge_tables([file], COLLECTIVES)[0].hardware == "dgx-1-p100"

    def test_the_option_overrides_what_rows_say(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "table.csv"
        file.write_text(table([ROWS["gemm"] | {"device": "NVIDIA H200"}, ROWS["gemm"]]), encoding="utf-8")
        assert main(["validate", "ops", str(file), "--hardware", "dgx-a100-80gb", "--format", "json"]) == 0
        assert sum(study["count"] for study in json.loads(capsys.readouterr().out)["studies"]) == 2
        found = judge_tables([file], OPS, "dgx-a100-80gb")
        assert {o.hardware for o in found} == {"dgx-a100-80gb"}
        assert found[0].predicted == found[1].predicted

    def test_an_unknown_name_of_the_option(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "table.csv"
        file.write_text(table([ROWS["gemm"]]), encoding="utf-8")
        assert main(["validate", "ops", str(file), "--hardware", "dgx-h10"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(
            "dgx-h10: no hardware of this name in the library, and no such YAML file; did you mean 'dgx-h100'"
        )

    def test_the_machine_list_is_read_once_and_names_kinds(self) -> None:
        assert machines() is machines()
        assert machines().devices
        assert machines().systems


BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "no such kind": (
        "t.csv", b"m,n,device,precision\n1,2,x,fp16\n",
        ":1:1: is no table of a kind that is known here; the nearest also has the columns batch, k, time_us",
    ),
    "a number that is none": ("t.csv", table([ROWS["gemm"] | {"m": "many"}]).encode(), ":2:1: m: must be a number, not 'many'"),
    "a negative number": ("t.csv", table([ROWS["gemm"] | {"time_us": "-1"}]).encode(), ":2:1: time_us: must not be negative"),
    "no number at all": ("t.csv", table([ROWS["gemm"] | {"time_us": "nan"}]).encode(), ":2:1: time_us: must be a number up to 1e+18, not 'nan'"),
    "less than one": ("t.csv", table([ROWS["gemm"] | {"n": "0.5"}]).encode(), ":2:1: n: must be at least 1, not '0.5'"),
    "infinity": ("t.csv", table([ROWS["gemm"] | {"n": "1e999"}]).encode(), ":2:1: n: must be a number up to 1e+18, not '1e999'"),
    "a short row": ("t.csv", table([ROWS["gemm"]]).encode() + b"Testium,fp16\n", ":3:1: csv: has 2 cells, but the header has 7"),
    "a long row": ("t.csv", table([ROWS["gemm"]]).encode() + b"1,2,3,4,5,6,7,8\n", ":3:1: csv: has 8 cells, but the header has 7"),
    "an endless quote": ("t.csv", table([ROWS["gemm"]]).encode() + b'"x\n', ":3:1: csv: a quote is opened and never closed"),
    "no text": ("t.csv", b"\xff\xfe\x00", ": is no UTF-8 text (byte 0)"),
    "empty": ("t.csv", b"", ": is empty"),
    "not compressed": ("t.csv.gz", table([ROWS["gemm"]]).encode(), ": is not compressed by gzip, as its name says"),
    "cut off": ("t.csv.gz", gzip.compress(table(50 * [ROWS["gemm"]]).encode())[:-20], ": is compressed, but damaged or cut off"),
    "damaged": ("t.csv.gz", gzip.compress(b"")[:10] + b"\xff" * 20, ": is compressed, but damaged or cut off"),
    "empty gz": ("t.csv.gz", gzip.compress(b""), ": is empty"),
}  # fmt: skip


class TestFiles:
    @pytest.mark.parametrize(("name", "content", "line"), BAD_FILES.values(), ids=BAD_FILES)
    def test_a_bad_one_gets_one_line(
        self, tmp_path: Path, fixtures: Path, name: str, content: bytes, line: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / name
        file.write_bytes(content)
        assert main(["validate", "ops", str(file), "--hardware", str(fixtures / "machine.yaml")]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"{file}{line}\n")

    def test_what_expands_without_end_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(csvfile, "MAX_BYTES", 1_000_000)
        bomb = tmp_path / "bomb.csv.gz"
        bomb.write_bytes(gzip.compress(b"0" * 1_000_001))
        with pytest.raises(InputError, match=r"^.*/bomb.csv.gz: holds more than 1 MB, too large for a CSV file$"):
            judge_tables([bomb], OPS)

    def test_gzipped_and_plain_are_the_same(self, tmp_path: Path, fixtures: Path) -> None:
        text = table([ROWS["gemm"], ROWS["gemm"] | {"m": "333"}])
        plain, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
        plain.write_text(text, encoding="utf-8")
        packed.write_bytes(gzip.compress(text.encode()))
        both = judge_tables([plain, packed], OPS, str(fixtures / "machine.yaml"))
        assert [o.id for o in both] == ["t.csv:2", "t.csv:3", "t.csv.gz:2", "t.csv.gz:3"]
        assert [o.predicted for o in both[:2]] == [o.predicted for o in both[2:]]

    def test_faults_of_all_files_at_once_but_few_of_each(self, tmp_path: Path, fixtures: Path) -> None:
        names = [tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "none.csv"]
        for name in names[:2]:
            name.write_text(table(50 * [ROWS["gemm"] | {"m": "many"}]), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            judge_tables(names, OPS, str(fixtures / "machine.yaml"))
        assert len(caught.value.problems) == 20 + 20 + 1
        assert str(caught.value.problems[-1]) == f"{names[2]}: cannot be read: No such file or directory"

    @pytest.mark.parametrize("kind", ["ops", "collectives"])
    def test_none_at_all(self, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["validate", kind]) == 2
        assert capsys.readouterr() == ("", "FILE: is missing: a table, as CSV or CSV.gz\n")

    @pytest.mark.parametrize(
        ("command", "line"),
        [
            (
                ["megatron-recompute", "--hardware", "dgx-2"],
                "--hardware: is for tables of ops and collectives; each row of a measurement CSV names its own",
            ),
            (
                ["megatron-recompute", "--plot", "nowhere/x.png"],
                "--plot: nowhere/x.png: cannot be written: no such directory",
            ),
            (["megatron-recompute", "--plot", "x.doc"], "--plot: x.doc: a picture ends in .png, .svg or .pdf"),
            (
                ["elsewhere"],
                "elsewhere: no study of this name, and no such CSV file; `perfmodel validate` without a name runs all",
            ),
        ],
    )
    def test_options_that_do_not_fit(self, command: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["validate", *command]) == 2
        assert capsys.readouterr() == ("", line + "\n")


CELLS = st.sampled_from(
    ["", "0", "1", "3", "0.5", "1e18", "1e-300", "-1", "nan", "inf", "x", "fwd", "fp16", "fp32", "\u0663", " 7 ", "1_0"]
)


@pytest.mark.parametrize("name", ROWS)
@given(data=st.data())
def test_whatever_stands_in_the_cells(
    name: str, data: st.DataObject, fixtures: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A fault is told, or the row is predicted or excluded with a reason; nothing breaks, and no time is no number."""
    columns = data.draw(st.lists(st.sampled_from(sorted(ROWS[name])), max_size=4))
    row = ROWS[name] | {column: data.draw(CELLS) for column in columns}
    file = tmp_path_factory.getbasetemp() / f"any-{name}.csv"
    file.write_text(table([row]), encoding="utf-8")
    try:
        (found,) = judge_tables([file], kinds(name), str(fixtures / "machine.yaml"))
    except InputError as error:
        told = {(problem.place.line, problem.path in row) for problem in error.problems}
    else:
        told = {(2, bool(found.reason) if found.predicted is None else 0 < found.predicted < math.inf)}
    assert told == {(2, True)}


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside the checkout")
def test_published_tables_are_read_whole_and_thousands_of_rows_count() -> None:
    ops = judge_tables([SHARED / "kernels" / "gemm.csv.gz"], OPS)
    messages = judge_tables(
        [SHARED / "collectives" / f"collectives{more}.csv.gz" for more in ("", "_more")], COLLECTIVES
    )
    assert len(ops) > 40_000
    assert len(messages) > 20_000
    for outcomes, least in ((ops, 10_000), (messages, 5_000)):
        counted = [o for o in outcomes if o.counts]
        assert len(counted) > least
        assert all(o.reason for o in outcomes if not o.counts)
        assert float(np.median([abs(o.error or 0.0) for o in counted])) < 0.5
