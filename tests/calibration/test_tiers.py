"""Constants of tiers out of collectives that were made with known ones; what data do not tell stays."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfmodel import api
from perfmodel.calibration.exchanges import Chosen, read_exchanges
from perfmodel.calibration.tiers import KEPT, calibrate_tiers
from perfmodel.cost.communication import exchange
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.parallel import Group, Message
from perfmodel.specs import Hardware
from perfmodel.validation.collectives import NAMES
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

INSIDE = {
    "efficiency": 0.75, "latency": 1e-6, "setup": 6e-6, "ramp": 4e-5, "ramp_size": 6e6, "direct": 0.6,
    "handshake": 7e-6, "eager": 4e4,
}  # fmt: skip
BETWEEN = {"efficiency": 0.85, "latency": 8e-6, "setup": 1e-5, "ramp": 9e-5, "ramp_size": 2e6}
SIZES = [2.0**power for power in range(8, 33)]


def known(machine: Hardware, index: int, **constants: float) -> Hardware:
    tiers = list(machine.network)
    tiers[index] = tiers[index].model_copy(update=constants)
    return machine.model_copy(update={"network": tuple(tiers)})


def table(
    path: Path,
    machine: Hardware,
    kinds: Sequence[str],
    ranks: Sequence[int],
    sizes: Sequence[float] = SIZES,
    **cells: str,
) -> Path:
    """Times of a machine as a CSV; of every third size ten times too long, which only a fit on test rows would notice."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        columns = (
            "source",
            "address",
            "hardware",
            "collective",
            "devices",
            "nodes",
            "bytes",
            "time_us",
            "library",
            "split",
        )
        writer = csv.DictWriter(stream, columns)
        writer.writeheader()
        for kind in kinds:
            for n in ranks:
                for i, size in enumerate(sizes):
                    sent = Message("m", NAMES[kind], size, Group(n, 1))
                    time = float(exchange(sent, machine.network, "k").time) * (10 if i % 3 == 2 else 1)
                    row = {
                        "source": "Bench", "address": "github.com/a/b@0123abc:x.log", "hardware": "machine", "library": "NCCL",
                        "collective": kind, "devices": n, "nodes": max(1, n // 8), "bytes": int(size), "time_us": time * 1e6,
                        "split": "test" if i % 3 == 2 else "calibration",
                    }  # fmt: skip
                    writer.writerow(row | cells)
    return path


def test_known_constants_are_found_from_calibration_rows_alone(machine: Hardware, tmp_path: Path) -> None:
    truth = known(machine, 0, **INSIDE)
    path = table(tmp_path / "t.csv", truth, ("all_reduce", "all_gather", "alltoall"), (2, 4, 8))
    (found,) = calibrate_tiers([path], machine, Chosen()).fits
    assert found.constants == pytest.approx(INSIDE, rel=0.03)
    assert set(found.undetermined) == {"in_network"}
    assert found.errors["all"][1].median == pytest.approx(0.9, abs=0.01)


def test_tiers_are_fitted_from_the_inside_out(machine: Hardware, tmp_path: Path) -> None:
    truth = known(known(machine, 0, **INSIDE), 1, **BETWEEN)
    path = table(tmp_path / "t.csv", truth, ("all_reduce", "all_gather", "alltoall"), (2, 8, 16, 32, 128))
    inner, outer = calibrate_tiers([path], machine, Chosen()).fits
    assert inner.constants == pytest.approx(INSIDE, rel=0.05)
    assert {name: outer.constants[name] for name in BETWEEN} == pytest.approx(BETWEEN, rel=0.1)


@pytest.mark.parametrize(
    ("kinds", "ranks", "sizes", "told"),
    [
        (("all_reduce",), (8,), SIZES, {"efficiency", "latency", "ramp", "ramp_size"}),
        (("all_reduce",), (2, 8), SIZES[20:], {"efficiency"}),
        (("all_reduce",), (2, 8), SIZES[:12], {"latency", "setup"}),
        (("sendrecv",), (2,), SIZES, {"efficiency", "latency", "handshake", "eager"}),
        (("all_gather", "broadcast"), (2, 4), SIZES, {"efficiency", "latency", "setup", "ramp", "ramp_size"}),
    ],
)
def test_what_data_do_not_tell_keeps_its_value_with_a_reason(
    machine: Hardware,
    tmp_path: Path,
    kinds: Sequence[str],
    ranks: Sequence[int],
    sizes: Sequence[float],
    told: set[str],
) -> None:
    path = table(tmp_path / "t.csv", known(machine, 0, **INSIDE), kinds, ranks, sizes)
    (found,) = calibrate_tiers([path], machine, Chosen()).fits
    assert set(found.constants) == told
    assert all(found.undetermined.values())


def test_a_constant_is_kept_as_asked(machine: Hardware, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", known(machine, 0, **INSIDE), ("all_reduce",), (2, 4, 8))
    made = calibrate_tiers([path], machine, Chosen(keep=("efficiency",)))
    assert made.fits[0].undetermined["efficiency"] == KEPT
    assert made.hardware.network[0].efficiency == machine.network[0].efficiency


def test_few_measurements_determine_few_constants(machine: Hardware, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", machine, ("all_reduce",), (2, 8), SIZES[12:21:4])
    (found,) = calibrate_tiers([path], machine, Chosen()).fits
    assert len(found.constants) <= 2
    assert any("too few" in reason for reason in found.undetermined.values())


def test_the_new_file_holds_the_constants_and_where_they_come_from(tmp_path: Path) -> None:
    machine = find("hardware", "dgx-2")
    truth = known(machine, 0, **(INSIDE | {"efficiency": machine.network[0].efficiency}))
    path = table(tmp_path / "t.csv", truth, ("all_reduce", "alltoall"), (2, 4, 8))
    new = tmp_path / "new.yaml"
    report = api.calibrate_collectives([path], "dgx-2", yaml=new, keep=["efficiency"])
    tier = load(new, Hardware).network[0]
    assert tier.setup == pytest.approx(INSIDE["setup"], rel=0.2)
    assert (tier.status, tier.points, tier.source) == ("fitted", 102, "bench")
    assert tier.efficiency == machine.network[0].efficiency
    assert load(new, Hardware).network[1] == machine.network[1]
    assert load(new, Hardware).sources["bench"] == "Bench, https://github.com/a/b/tree/0123abc"
    record = json.loads(report.render("json"))
    assert record["tiers"][0]["undetermined"]["efficiency"] == KEPT
    assert "all-to-all" in report.render("table")
    assert report.render("csv").splitlines()[0] == "tier,points,collective,held_out,median,p90"
    assert report.render("markdown").startswith("#")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"time_us": "soon"}, "t.csv:2:1: time_us: must be a number, not 'soon'"),
        ({"bytes": "-1"}, "t.csv:2:1: bytes: must not be negative"),
        ({"collective": "dance"}, "holds no collective that this machine can be fitted to: collective dance"),
        ({"devices": "1"}, "fewer than two ranks"),
        ({"devices": "100000"}, "more ranks than"),
    ],
)
def test_bad_tables_are_refused(machine: Hardware, tmp_path: Path, cells: dict[str, str], message: str) -> None:
    path = table(tmp_path / "t.csv", machine, ("all_reduce",), (8,), SIZES[:1], **cells)
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        read_exchanges([path], machine, Chosen())


def test_a_wrong_selection_or_constant_is_named(machine: Hardware, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", machine, ("all_reduce",), (8,), SIZES[:2])
    with pytest.raises(InputError, match="did you mean 'machine'"):
        read_exchanges([path], machine, Chosen(system="machin3"))
    with pytest.raises(InputError, match="did you mean 'efficiency'"):
        api.calibrate_collectives([path], "dgx-2", keep=["efficency"])


def test_rows_may_be_asked_for_by_source_and_library(machine: Hardware, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", machine, ("all_reduce",), (8,), SIZES[:4])
    assert len(read_exchanges([path], machine, Chosen(source="Ben", library="NC")).rows) == 4
    with pytest.raises(InputError, match="holds no row that is asked for"):
        read_exchanges([path], machine, Chosen(library="RCCL"))


def test_a_log_is_split_by_size(machine: Hardware, tmp_path: Path) -> None:
    lines = [f"{2**power} 1 float sum -1 {2**power / 1e3 + 20} 1 1 0" for power in range(10, 31)]
    head = "all_reduce_perf\n# Rank 0 Pid 1 on a device 0\n# Rank 7 Pid 1 on a device 7\n# size count type redop root time algbw busbw #wrong\n"
    path = tmp_path / "a.log"
    path.write_text(head + "\n".join(lines), encoding="utf-8")
    rows = read_exchanges([path], machine, Chosen()).rows
    held = np.array([row.held_out for row in rows])
    assert 2 <= held.sum() <= 14
    assert {row.message.group.size for row in rows} == {8}
