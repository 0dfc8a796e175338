"""States and activations that leave the devices: what stays, what hosts keep, what the copies cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.formulas.offload import host_copy, host_update
from perfmodel.reporting.explain import explain_report
from perfmodel.reporting.prediction import record, warnings
from perfmodel.specs.offload import STATES, Offload

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

KINDS = (
    "activations=host", "optimizer=host", "optimizer=host+update=device", "optimizer=host+optimizer_fraction=0.4",
    "optimizer=host+gradients=host+parameters=host", "optimizer=nvme+gradients=host+parameters=nvme+activations=nvme",
    "activations=host+tensors=inputs+activations_fraction=0.5",
)  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)


def llama(
    offload: str | None = None, machine: str = "dgx-a100-80gb", sets: dict[str, Any] | None = None, **job: Any
) -> Prediction:
    given: dict[str, Any] = {"devices": 8, "microbatch": 2, "batch": 32, "zero": 3, "recompute": "full"} | job
    return api.predict("llama-2-7b", machine, offload=offload, sets=sets or {}, **given)


def size_of(made: Prediction, name: str) -> float:
    return float(np.ravel(made.footprint.classes[name])[0])


def exposed(made: Prediction) -> float:
    return made.kinds.get("offload", (0.0, 0.0))[1]


def test_none_is_what_it_was() -> None:
    assert record(llama("none"))["breakdown"] == record(llama())["breakdown"]
    assert llama("none").kept_off == {"host": {}, "nvme": {}}


@every_kind
@pytest.mark.parametrize("job", [{}, {"pp": 2, "zero": 1}, {"pp": 2, "vpp": 2, "zero": 3, "schedule": "breadth-first"}])
def test_losses_and_terms_add_up(kind: str, job: dict[str, Any]) -> None:
    made = llama(kind, **job)
    assert sum(made.losses.values()) == pytest.approx(made.step_time, rel=1e-9)
    assert sum(seen for _, _, seen in made.terms) == pytest.approx(made.step_time, rel=1e-9)
    assert made.bounds[0] <= made.step_time <= made.bounds[1]
    assert made.losses.get("exposed offload", 0.0) == pytest.approx(exposed(made))
    assert llama(**job).step_time <= made.step_time * (1 + 1e-12) or "optimizer" in kind


@every_kind
def test_each_copy_is_explained(kind: str) -> None:
    made = llama(kind)
    found = explain_report(made).record
    copies = [one for one in found if one["kind"] == "offload"]
    assert copies
    assert all(one["equation"] and one["reference"] for one in copies)


@every_kind
def test_played_pass_by_pass_it_takes_as_long(kind: str) -> None:
    made = llama(kind, pp=2, zero=1, batch=64)
    assert made.replay.step_time == pytest.approx(made.step_time, rel=0.03)


def test_what_leaves_the_device_is_on_the_host() -> None:
    """Adam in mixed precision: 12 bytes for each parameter, the fp32 gradient beside them, and the narrow weights."""
    stays, off = llama(), llama("optimizer=host+gradients=host+parameters=host")
    parameters = float(stays.graph.parameters)
    for name, size in (("optimizer", 12), ("gradients", 4), ("weights", 2)):
        assert size_of(stays, name) == pytest.approx(size * parameters / 8)
        assert size_of(off, name) == 0
    assert off.kept_off["host"] == pytest.approx(
        {"optimizer": 12 * parameters, "gradients": 4 * parameters, "parameters": 2 * parameters}
    )
    assert size_of(off, "gathered") > 0


def test_drives_leave_hosts_with_buffers() -> None:
    made = llama("optimizer=nvme")
    assert made.kept_off["nvme"]["optimizer"] == pytest.approx(12 * float(made.graph.parameters))
    assert 0 < made.kept_off["host"]["buffers"] < made.kept_off["nvme"]["optimizer"] / 4


def test_activations_leave_in_proportion() -> None:
    """But for two layers of them, which are on their way."""
    none, half, all_of_them = (
        llama(f"activations=host+activations_fraction={share}" if share else None, recompute="none")
        for share in (0, 0.5, 1)
    )
    kept = size_of(none, "activations")
    assert size_of(half, "activations") == pytest.approx(kept - half.kept_off["host"]["activations"] / 8)
    assert size_of(all_of_them, "staging") == pytest.approx(2 / 32 * all_of_them.kept_off["host"]["activations"] / 8)
    assert half.kept_off["host"]["activations"] == pytest.approx(all_of_them.kept_off["host"]["activations"] / 2)


def test_inputs_and_the_rest_are_all() -> None:
    sizes = {
        which: llama(f"activations=host+tensors={which}", recompute="none").kept_off["host"]["activations"]
        for which in ("all", "inputs", "inside")
    }
    assert sizes["inputs"] + sizes["inside"] == pytest.approx(sizes["all"])
    assert sizes["inputs"] == pytest.approx(8 * 32 * 2 * 4096 * 4096 * 2)


def test_the_step_on_the_host_takes_its_memory() -> None:
    made = llama("optimizer=host+parameters=host")
    takes = made.hardware.host.takes
    parameters = float(made.graph.parameters)
    alone = host_update(parameters=parameters / 8, traffic=4 + 24 + 2, bandwidth=takes.update or 0.0, sharers=8)
    assert made.kinds["offload"][1] == pytest.approx(float(alone), rel=0.01)
    assert "optimizer" not in made.kinds


def test_devices_of_a_switch_share_its_uplink() -> None:
    """DGX-2: 12 GB/s for one device, 3 GB/s for each of four, however many hosts there are."""
    link = {"size": 12e9, "link": 15.75e9, "fraction": 0.76, "uplink": 12e9}
    assert float(host_copy(sharers=1, **link)) == pytest.approx(1.0, rel=0.01)
    job: dict[str, Any] = {"machine": "dgx-2", "precision": "fp16", "microbatch": 1}
    for devices, rate in ((1, 0.76 * 15.75e9), (2, 6e9), (16, 3e9), (32, 3e9)):
        made = llama("activations=host", devices=devices, batch=devices, zero=0, **job)
        each = made.kept_off["host"]["activations"] / min(devices, 16)
        (save,) = made.stage.saves
        assert float(save.time) == pytest.approx(each / rate, rel=1e-9)  # type: ignore[union-attr]


@given(speed=st.floats(1.0, 100.0), kind=st.sampled_from(KINDS))
@settings(max_examples=20, deadline=None)
def test_faster_links_and_drives_never_cost(speed: float, kind: str) -> None:
    def at(factor: float) -> float:
        sets = {
            "hardware.host.device_link": f"{4 * factor} GB/s", "hardware.host.storage.read": f"{factor} GB/s",
            "hardware.host.storage.write": f"{factor} GB/s", "hardware.host.copies.uplink": f"{4 * factor} GB/s",
        }  # fmt: skip
        return llama(kind, sets=sets).step_time

    assert at(speed) <= at(1.0) * (1 + 1e-12)


def test_links_without_end_hide_all_copies() -> None:
    sets = {"hardware.host.device_link": "1e9 GB/s", "hardware.host.copies.uplink": "1e9 GB/s"}
    assert exposed(llama("activations=host+parameters=host", sets=sets)) == pytest.approx(0, abs=1e-6)


def test_a_host_that_is_too_small_is_no_error_but_does_not_fit() -> None:
    made = llama("optimizer=host", sets={"hardware.host.memory": "64 GB"})
    assert not made.fits
    assert made.memory_peak < llama().memory_peak
    said = list(warnings(made))
    assert any("most is optimizer" in one and "or to nvme" in one for one in said)
    assert record(made)["memory"]["host"]["fits"] is False


@pytest.mark.parametrize(
    ("offload", "machine", "job", "words"),
    [
        ("optimizer=host", "h100-pcie", {}, "states no host.memory"),
        ("activations=nvme", "jean-zay-a100", {}, "states no host.storage"),
        ("optimizer=host", "dgx-b200", {}, "states no host.copies.update"),
        ("optimizer=host", "dgx-a100-80gb", {"sync": "parameter-server", "zero": 0}, "has its own place for states"),
        ("optimizer=cpu", "dgx-a100-80gb", {}, "optimizer must be none, host or nvme, not 'cpu'"),
        ("optimiser=host", "dgx-a100-80gb", {}, "did you mean 'optimizer'"),
        ("gradients=host", "dgx-a100-80gb", {}, "offload the optimizer too"),
        ("optimizer_fraction=0.5", "dgx-a100-80gb", {}, "is of what stays on the device"),
    ],
)
def test_what_cannot_be_says_why(offload: str, machine: str, job: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        llama(offload, machine, **job)


@given(
    st.fixed_dictionaries({state: st.sampled_from(["none", "host", "nvme"]) for state in STATES}),
    st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.sampled_from(["all", "inputs", "inside"]),
)  # fmt: skip
def test_as_a_text_it_reads_back(tiers: dict[str, Any], some: float, others: float, tensors: Any) -> None:
    made = Offload(**tiers, optimizer_fraction=some, activations_fraction=others, tensors=tensors)
    assert Offload.model_validate(str(made)) == made
