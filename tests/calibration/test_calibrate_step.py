"""`perfmodel calibrate step`: constants out of steps that a machine with known constants would take."""

from __future__ import annotations

import csv
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfmodel
from perfmodel.calibration.steps import determined
from perfmodel.cli import main
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.specs import Hardware
from perfmodel.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

MACHINE, WORKLOAD = "pcie-4gpu-10gbe", "gpt2-124m"
EXPOSED = "strategy.gradient_overlap=none"
"""Messages that no pass hides: else steps do not hang on the network."""
TRUTH = {
    "strategy.gradient_overlap": "none",
    "hardware.device.efficiency.matmul.sustained": 0.7,
    "hardware.network.1.efficiency": 0.5,
}
COLUMNS = (
    "id", "source", "workload", "hardware", "dp", "microbatch", "global_batch", "precision", "overrides", "metric", "value", "split",
)  # fmt: skip
ONE, MANY = (1,), (1, 8, 32)


def rows(devices: tuple[int, ...], microbatches: tuple[int, ...] = (4, 16)) -> list[dict[str, object]]:
    """Steps on the true machine, with an error of 2 % that is the same in each run of the test."""
    scatter = np.random.default_rng(1)
    made = []
    for number, (dp, batch) in enumerate(product(devices, microbatches)):
        job = {"dp": dp, "microbatch": batch, "batch": dp * batch}
        step = perfmodel.predict(WORKLOAD, MACHINE, sets=TRUTH, precision="fp32", **job).step_time  # type: ignore[arg-type]
        made.append({
            "id": f"row {number}", "source": "a made-up lab", "workload": WORKLOAD, "hardware": MACHINE, "dp": dp, "microbatch": batch,
            "global_batch": dp * batch, "precision": "fp32", "overrides": EXPOSED, "metric": "step_time",
            "value": step * np.exp(scatter.normal(0, 0.02)), "split": "calibration",
        })  # fmt: skip
    return made


def table(path: Path, given: list[dict[str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(given)
    return path


def test_recovers_the_constants_that_steps_come_from(tmp_path: Path) -> None:
    """Runs on one device tell the products, runs on many hosts the fabric; the file says which, and keeps the rest."""
    new = tmp_path / "new.yaml"
    report = perfmodel.calibrate_step([table(tmp_path / "steps.csv", rows(MANY))], MACHINE, yaml=new)
    found = {one["constant"]: one for one in report.record["constants"]}
    fabric = find("hardware", MACHINE).network[1].name
    for name, truth in (("matmul.sustained", 0.7), (f"efficiency of {fabric}", 0.5)):
        assert found[name]["after"] == pytest.approx(truth, rel=0.08)
        assert abs(found[name]["after"] / truth - 1) < 4 * found[name]["error"] + 0.01
    assert report.record["errors"]["calibration"]["after"] < 0.03 < report.record["errors"]["calibration"]["before"]
    before, after = find("hardware", MACHINE), load(new, Hardware)
    assert after.device.efficiency.matmul.sustained == pytest.approx(0.7, rel=0.08)
    assert "6 whole steps" in after.network[1].note
    assert (after.network[1].status, after.network[1].latency) == (before.network[1].status, before.network[1].latency)
    assert after.device.efficiency.matmul.fraction == before.device.efficiency.matmul.fraction
    assert after.device.efficiency.convolution == before.device.efficiency.convolution
    assert "a made-up lab" in after.sources.values()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What three steps on one device tell."""
    path = table(tmp_path_factory.mktemp("alone") / "steps.csv", rows(ONE, (4, 8, 16)))
    record: dict[str, Any] = perfmodel.calibrate_step([path], MACHINE).record
    return record


def test_steps_of_one_device_say_nothing_of_the_network(alone: dict[str, Any]) -> None:
    assert [one["constant"] for one in alone["constants"]] == ["matmul.sustained"]
    assert all("changes the steps too little" in why for name, why in alone["kept"].items() if " of " in name)


def test_a_single_step_determines_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"determine no constant: .*changes the steps too little"):
        perfmodel.calibrate_step([table(tmp_path / "steps.csv", rows(ONE, (16,)))], MACHINE)


def test_rows_of_the_test_split_only_judge(tmp_path: Path, alone: dict[str, Any]) -> None:
    given = rows(ONE, (4, 8, 16))
    spoilt = [
        row | {"id": f"spoilt {row['id']}", "value": 9 * float(str(row["value"])), "split": "test"} for row in given
    ]
    beside = perfmodel.calibrate_step([table(tmp_path / "all.csv", given + spoilt)], MACHINE).record
    assert alone["constants"] == beside["constants"]
    assert beside["errors"]["test"]["rows"] == 3
    with pytest.raises(InputError, match="of the test split, which never enters a fit"):
        perfmodel.calibrate_step([table(tmp_path / "test.csv", spoilt)], MACHINE)


def test_rows_of_other_machines_do_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "steps.csv", rows(ONE, (4, 8, 16)))
    assert main(["calibrate", "step", str(path), "--hardware", "dgx-h100", "--format", "json"]) == 2
    assert f"ran on {MACHINE}" in " ".join(capsys.readouterr().err.split())


def test_of_constants_that_act_alike_one_is_told() -> None:
    """Two columns in proportion: one singular value is nothing; a third that acts otherwise stays."""
    shared = np.array([0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
    jacobian = np.stack([shared, 0.5 * shared, shared[::-1]], axis=1)
    kept, why = determined(jacobian, ["strong", "weak", "other"])
    assert kept == [0, 2]
    assert "cannot be told from strong" in why["weak"]
