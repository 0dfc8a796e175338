"""The library's machines: they load, cite what they claim, and are sane."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfmodel import library
from perfmodel.cost.routes import route
from perfmodel.parallel import Group

if TYPE_CHECKING:
    from perfmodel.specs.hardware import Hardware

ROOT = Path(__file__).parents[2]
README = (ROOT / "hardware" / "README.md").read_text(encoding="utf-8")
CANONICAL = (
    "ac922-4gpu", "ac922-6gpu", "aws-p3-16xlarge", "aws-p3dn-24xlarge", "cloud-cpu-8core", "dgx-1-v100",
    "dgx-1-v100-16gb", "dgx-2", "dgx-2h", "dgx-a100-40gb", "dgx-a100-80gb", "dgx-b200", "dgx-h100", "dgx-h200",
    "epyc-7742-100gbe", "exxact-2080ti", "gb200-nvl72", "mi250x-node", "mi300x-node", "pcie-4gpu-100gbe",
    "pcie-4gpu-100gib", "pcie-4gpu-10gbe", "tpu-v2-pod", "tpu-v3-pod", "tpu-v4-pod", "tpu-v5e-pod", "tpu-v5p-pod",
    "tpu-v6e-pod", "xeon-8180-10gbe", "xeon-8280-25gbe", "xeon-8480-100gbe",
)  # fmt: skip
RIDGE = {"gpu": (15.0, 450.0), "tpu": (50.0, 600.0), "npu": (50.0, 600.0), "cpu": (10.0, 400.0)}
"""Plausible FLOP per byte at which computing starts to bind, by kind of device, at its highest 16-bit or 32-bit peak."""

HALF_BF16 = {"mi100-8gpu-pcie"}
"""Machines whose matrix cores take bf16 at half of the rate of fp16: the first CDNA generation."""


def machine(name: str) -> Hardware:
    found: Hardware = library.find("hardware", name)
    return found


def test_the_canonical_names_are_there() -> None:
    assert set(CANONICAL) <= set(library.names("hardware"))


def test_the_readme_lists_every_machine_once() -> None:
    listed = re.findall(r"`([\w-]+)`", README.partition("| devices |")[2].partition("\n\n")[0])
    assert sorted(listed) == list(library.names("hardware"))


def test_the_example_of_the_guide_is_the_file_that_its_commands_read(fixtures: Path) -> None:
    page = (ROOT / "docs" / "machines.md").read_text(encoding="utf-8")
    shown = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert shown
    assert shown[1] == (fixtures / "own-machine.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("cut", "whole"), [("h800-8gpu", "dgx-h100"), ("a800-8gpu", "dgx-a100-80gb")])
def test_a_cut_link_slows_messages_and_nothing_else(cut: str, whole: str) -> None:
    fewer, all_links = (machine(name).network[0] for name in (cut, whole))
    assert fewer.bandwidth == pytest.approx(200e9)
    assert fewer.bandwidth < all_links.bandwidth
    assert machine(cut).device.efficiency.matmul.fraction == machine(whole).device.efficiency.matmul.fraction


@pytest.mark.parametrize("name", library.names("hardware"))
def test_it_loads_under_its_own_name(name: str) -> None:
    hardware = machine(name)
    assert hardware.name == name
    assert hardware.description
    assert not list(hardware.faults())


@pytest.mark.parametrize("name", library.names("hardware"))
def test_every_group_cites_a_title_and_an_address(name: str) -> None:
    hardware = machine(name)
    for path, group in hardware.groups():
        assert group.source in hardware.sources, path
    for key, source in hardware.sources.items():
        title, _, address = str(source).rpartition(", ")
        assert re.fullmatch(r"https?://\S+\.\S+", address), key
        assert len(title) > 10, key


@pytest.mark.parametrize("name", library.names("hardware"))
def test_no_source_is_listed_in_vain(name: str) -> None:
    hardware = machine(name)
    assert {str(group.source) for _, group in hardware.groups()} == set(hardware.sources)


@pytest.mark.parametrize("name", library.names("hardware"))
def test_fits_state_their_points_and_error_and_assumptions_their_reason(name: str) -> None:
    for path, group in machine(name).groups():
        if group.status == "fitted":
            assert group.points, path
            assert group.error, path
            assert group.error < 0.5, path
        if group.status == "assumed":
            assert len(group.note) > 10, path


@pytest.mark.parametrize("name", library.names("hardware"))
def test_the_ridge_point_is_plausible(name: str) -> None:
    device = machine(name).device
    peak = max(rate for precision, rate in device.compute.peak.items() if precision in {"fp32", "fp16", "bf16"})
    low, high = RIDGE[device.kind]
    assert low < peak / device.memory.bandwidth < high


@pytest.mark.parametrize("name", library.names("hardware"))
def test_narrower_numbers_are_no_slower(name: str) -> None:
    peak = machine(name).device.compute.peak
    ordered = [peak[p] for p in ("fp64", "fp32", "tf32", "bf16", "fp8", "fp4") if p in peak]
    assert ordered == sorted(ordered)
    if {"fp16", "bf16"} <= peak.keys():
        assert peak["fp16"] == peak["bf16"] * (2 if name in HALF_BF16 else 1)


@pytest.mark.parametrize("name", library.names("hardware"))
def test_tiers_narrow_from_the_inside_out(name: str) -> None:
    network = machine(name).network
    for inner, outer in pairwise(network):
        assert inner.bandwidth >= outer.bandwidth, (inner.name, outer.name)
    for tier in network:
        assert 1e-7 < tier.latency < 1e-3, tier.name


@pytest.mark.parametrize("name", library.names("hardware"))
def test_a_host_holds_whole_devices_of_the_inner_tiers(name: str) -> None:
    hardware = machine(name)
    joined = [tier.devices for tier in hardware.network] or [1]
    assert any(reach % hardware.host.devices == 0 for reach in joined)


@pytest.mark.parametrize(
    ("name", "devices", "precision", "peak", "gibibytes", "bandwidth"),
    [
        ("dgx-1-v100", 8, "fp16", 125e12, 32, 898e9),
        ("dgx-1-v100-16gb", 8, "fp16", 125e12, 16, 898e9),
        ("dgx-2", 16, "fp16", 125e12, 32, 981e9),
        ("ac922-6gpu", 6, "fp16", 125e12, 16, 898e9),
        ("dgx-a100-40gb", 8, "bf16", 312e12, 40, 1560e9),
        ("dgx-a100-80gb", 8, "bf16", 312e12, 80, 2039e9),
        ("dgx-h100", 8, "bf16", 989e12, 80, 3350e9),
        ("dgx-h200", 8, "bf16", 989e12, 141, 4800e9),
        ("dgx-b200", 8, "bf16", 2250e12, 178, 7700e9),
        ("mi250x-node", 8, "bf16", 191.5e12, 64, 1640e9),
        ("mi300x-node", 8, "bf16", 1307.4e12, 192, 5300e9),
        ("v100-8gpu-pcie", 8, "fp16", 112e12, 32, 897e9),
        ("a40-8gpu-pcie", 8, "bf16", 149.67e12, 48, 695.8e9),
        ("l4-8gpu-pcie", 8, "bf16", 121e12, 24, 300.1e9),
        ("mi210-8gpu-pcie", 8, "bf16", 181e12, 64, 1640e9),
        ("mi325x-node", 8, "fp8", 2610e12, 256, 6000e9),
        ("mi355x-node", 8, "bf16", 2516.6e12, 288, 8000e9),
        ("tpu-v4-pod", 4, "bf16", 275e12, 32, 1200e9),
        ("tpu-v5p-pod", 4, "bf16", 459e12, 95, 2765e9),
        ("tpu-v7-pod", 4, "bf16", 2307e12, 192, 7370e9),
        ("aws-trn1-32xlarge", 16, "bf16", 190e12, 32, 820e9),
        ("aws-trn2-48xlarge", 16, "fp8", 1299e12, 96, 2900e9),
        ("gaudi2-node", 8, "bf16", 432e12, 96, 2460e9),
        ("h20-8gpu", 8, "bf16", 148e12, 96, 4000e9),
        ("h800-8gpu", 8, "bf16", 989e12, 80, 3360e9),
        ("gh200-nvl2", 2, "bf16", 989e12, 144, 4900e9),
        ("aws-g5-48xlarge", 8, "bf16", 70e12, 24, 600.2e9),
        ("rtx-5090-8gpu-pcie", 8, "fp16", 209.5e12, 32, 1792e9),
    ],
)
def test_well_known_facts(
    name: str, devices: int, precision: str, peak: float, gibibytes: float, bandwidth: float
) -> None:
    hardware = machine(name)
    assert hardware.host.devices == devices
    assert dict(hardware.device.compute.peak)[precision] == pytest.approx(peak)  # type: ignore[index]
    assert hardware.device.memory.capacity == pytest.approx(gibibytes * 2**30)
    assert hardware.device.memory.bandwidth == pytest.approx(bandwidth)


@pytest.mark.parametrize(
    ("name", "node_bandwidth"),
    [
        ("dgx-1-v100", 50e9),
        ("dgx-2", 100e9),
        ("dgx-a100-80gb", 200e9),
        ("dgx-h100", 400e9),
        ("pcie-4gpu-10gbe", 1.25e9),
    ],
)
def test_the_cards_of_a_node_share_among_its_devices(name: str, node_bandwidth: float) -> None:
    hardware = machine(name)
    assert hardware.network[-1].bandwidth * hardware.host.devices == pytest.approx(node_bandwidth)


@pytest.mark.parametrize(
    ("name", "bus_bandwidth"),
    [("dgx-1-v100", 122e9), ("dgx-2", 122e9), ("dgx-a100-80gb", 234e9), ("dgx-h100", 370e9), ("dgx-b200", 650e9)],
)
def test_rings_inside_a_node_reach_the_measured_plateau(name: str, bus_bandwidth: float) -> None:
    network = machine(name).network
    assert route(network, Group(network[0].devices, 1)).bandwidth == pytest.approx(bus_bandwidth, rel=0.02)
