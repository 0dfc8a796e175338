"""Routes of groups: published plateaus come out of topologies, columns equal numbers, a full switch is what it was."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel import library
from perfmodel.cost.routes import Route, levels, neighbour, route
from perfmodel.cost.torus import slices
from perfmodel.parallel import Group
from perfmodel.specs.network import Tier

if TYPE_CHECKING:
    from perfmodel.specs import Hardware


def network(name: str) -> tuple[Tier, ...]:
    found: Hardware = library.find("hardware", name)
    return found.network


def tier(devices: int, bandwidth: str, *, links: list[dict[str, Any]] | None = None, **fields: Any) -> Tier:
    own = {"source": "none", "status": "assumed"}
    made = [{"name": "link", "bandwidth": bandwidth, **own, **link} for link in links or []]
    return Tier.model_validate({
        "name": "tier", "topology": "switch", "devices": devices, "bandwidth": bandwidth, "latency": "1 us",
        "efficiency": 1, "links": tuple(made), **own, **fields,
    })  # fmt: skip


class TestPublishedPlateaus:
    @pytest.mark.parametrize(
        ("machine", "ranks", "measured"),
        [
            ("dgx-1-p100", 2, 17.3), ("dgx-1-p100", 3, 34.6), ("dgx-1-p100", 4, 52.1), ("dgx-1-p100", 5, 5.57),
            ("dgx-1-p100", 8, 62.2), ("dgx-1-v100", 8, 122.0), ("ac922-4gpu", 2, 66.7), ("ac922-4gpu", 3, 27.5),
            ("ac922-4gpu", 4, 29.8), ("l40s-8gpu-pcie", 2, 19.4), ("l40s-8gpu-pcie", 4, 5.3),
            ("rtx-pro-6000-8gpu-pcie", 2, 38.0), ("rtx-pro-6000-8gpu-pcie", 8, 22.2),
        ],
    )  # fmt: skip
    def test_bus_bandwidth_of_large_messages(self, machine: str, ranks: int, measured: float) -> None:
        """In GB/s; Tartan, NVIDIA, SP19 and AIConfigurator, with one efficiency for each machine."""
        assert float(route(network(machine), Group(ranks, 1)).bandwidth) / 1e9 == pytest.approx(measured, rel=0.09)

    @pytest.mark.parametrize(("ranks", "measured"), [(6, 34.5), (7, 34.4)])
    def test_groups_of_which_only_broadcasts_were_measured(self, ranks: int, measured: float) -> None:
        assert float(route(network("dgx-1-p100"), Group(ranks, 1)).bandwidth) / 1e9 == pytest.approx(measured, rel=0.05)


GROUPS = st.builds(Group, size=st.sampled_from([1, 2, 4, 8, 16]), stride=st.sampled_from([1, 2, 4, 8, 16]))
MACHINES = ["dgx-1-v100", "ac922-4gpu", "tpu-v5e-pod", "tpu-v4-pod", "rtx-3090-8gpu-pcie", "dgx-h100"]


class TestColumns:
    @pytest.mark.parametrize("machine", MACHINES)
    @pytest.mark.parametrize("way", [route, neighbour])
    @given(groups=st.lists(GROUPS, min_size=2, max_size=6))
    def test_a_column_of_groups_equals_its_rows(self, machine: str, way: Any, groups: list[Group]) -> None:
        tiers = network(machine)
        names = [field.name for field in fields(Group)]
        wide = way(tiers, Group(**{name: np.array([getattr(group, name) for group in groups]) for name in names}))
        for name in ("bandwidth", "ring_latency", "tree_latency"):
            alone = [float(getattr(way(tiers, group), name)) for group in groups]
            np.testing.assert_allclose(np.broadcast_to(getattr(wide, name), len(groups)), alone, rtol=1e-12)

    def test_one_column_beside_a_number(self) -> None:
        wide = route(network("dgx-1-p100"), Group(np.array([2, 4, 5, 8]), 1)).bandwidth
        alone = [float(route(network("dgx-1-p100"), Group(size, 1)).bandwidth) for size in (2, 4, 5, 8)]
        np.testing.assert_allclose(wide, alone)


@given(group=GROUPS)
def test_a_full_switch_gives_what_a_tier_without_links_gives(group: Group) -> None:
    bare = (tier(8, "10 GB/s"), tier(256, "2 GB/s", ports=2))
    links = [{"joins": ("0 1 2 3 4 5 6 7 - switch",)}]
    listed = (tier(8, "10 GB/s", links=links), tier(256, "2 GB/s", ports=2))
    for way in (route, neighbour):
        expected, found = way(bare, group), way(listed, group)
        for name in ("bandwidth", "ring_latency", "tree_latency"):
            assert float(getattr(found, name)) == pytest.approx(float(getattr(expected, name)))


class TestTorus:
    POD = (tier(256, "200 GB/s", shape=(16, 16), topology="torus", links=[{"bandwidth": "50 GB/s"}]),)
    CUBES = (tier(512, "300 GB/s", shape=(8, 8, 8), topology="torus", links=[{"bandwidth": "50 GB/s", "cube": 4}]),)

    def axes(self, network: tuple[Tier, ...], group: Group) -> list[tuple[float, float]]:
        return [(float(axis.members), float(axis.bandwidth) / 1e9) for axis in route(network, group).axes]

    def test_a_whole_pod_uses_all_its_links(self) -> None:
        assert self.axes(self.POD, Group(256, 1)) == [(16, 100), (16, 100)]
        assert route(self.POD, Group(256, 1)).bandwidth == 200e9

    def test_a_group_along_one_axis_has_its_two_links(self) -> None:
        assert self.axes(self.POD, Group(16, 1, job=256)) == [(16, 100), (1, 0)]
        assert self.axes(self.POD, Group(16, 16, job=256)) == [(1, 0), (16, 100)]

    def test_a_smaller_slice_does_not_wrap_around(self) -> None:
        """64 chips stand 8 x 8: an open line uses one direction to go and the other to return."""
        assert self.axes(self.POD, Group(64, 1)) == [(8, 50), (8, 50)]
        assert self.axes(self.POD, Group(128, 1)) == [(8, 50), (16, 100)]

    def test_whole_cubes_do(self) -> None:
        assert self.axes(self.CUBES, Group(64, 1)) == [(4, 100)] * 3
        assert self.axes(self.CUBES, Group(32, 1)) == [(2, 50), (4, 50), (4, 50)]

    def test_groups_in_between_share_a_line(self) -> None:
        """Every second chip of an axis: two groups on it."""
        assert self.axes(self.POD, Group(8, 2, job=256)) == [(8, 50), (1, 0)]

    def test_axes_that_are_not_used_at_once(self) -> None:
        """Measured on v6e: 236 GB/s in an all-reduce on 256 chips."""
        assert float(route(network("tpu-v6e-pod"), Group(256, 1)).bandwidth) / 1e9 == pytest.approx(236, rel=0.01)

    def test_steps_go_along_one_axis_after_the_other(self) -> None:
        made = route(self.POD, Group(256, 1))
        assert float(made.ring_latency) * 255 == pytest.approx(30e-6)

    def test_a_message_to_the_neighbour_takes_one_link(self) -> None:
        assert float(neighbour(self.POD, Group(16, 1, job=256)).bandwidth) == 50e9
        assert float(neighbour(self.POD, Group(2, 8, job=256)).bandwidth) == pytest.approx(50e9 / 8)

    def test_slices_are_those_that_google_offers(self) -> None:
        flat, cubes = slices((16, 16), 1), slices((16, 20, 28), 4)
        assert [tuple(flat[n]) for n in (4, 8, 32, 128)] == [(2, 2), (2, 4), (4, 8), (8, 16)]
        assert [tuple(cubes[n]) for n in (8, 64, 128, 2048)] == [(2, 2, 2), (4, 4, 4), (4, 4, 8), (8, 16, 16)]
        assert tuple(cubes[192]) == (4, 4, 12)

    def test_no_slice_is_too_small_for_its_job(self) -> None:
        table = slices((4, 6), 1)
        assert (table.prod(axis=1)[1:] >= np.arange(1, 25)).all()


class TestFabrics:
    LEAVES = (tier(8, "100 GB/s"), tier(1024, "10 GB/s", links=[{"leaf": 64, "oversubscription": 4}]))

    def test_a_leaf_is_a_tier_of_its_own(self) -> None:
        assert [(t.devices, float(t.bandwidth)) for t in levels(self.LEAVES)] == [(8, 1e11), (64, 1e10), (1024, 2.5e9)]

    def test_one_ring_crosses_the_spine_with_all_uplinks_of_its_leaf(self) -> None:
        assert float(route(self.LEAVES, Group(1024, 1)).bandwidth) == 8 * 10e9

    def test_groups_with_one_member_in_each_leaf_feel_the_oversubscription(self) -> None:
        assert float(route(self.LEAVES, Group(16, 64)).bandwidth) == 2.5e9
        assert float(route(self.LEAVES, Group(8, 8)).bandwidth) == 10e9

    def test_a_wide_area_ring_waits_for_the_slowest_site(self) -> None:
        sites = (tier(1, "1 GB/s"), tier(4, "1 GB/s", links=[{"rates": ("1 GB/s", "0.25 GB/s"), "overhead": 0.2}]))
        assert float(route(sites[1:], Group(4, 1)).bandwidth) == pytest.approx(0.2e9)


def test_nothing_is_crossed_by_one_rank() -> None:
    assert route(network("dgx-1-p100"), Group(1, 1)) == Route(np.inf, 0.0, 0.0)
