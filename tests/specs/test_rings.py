"""Rings through meshes of links: NCCL's counts on known machines, a brute-force oracle, and what must hold for any mesh."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel import library
from perfmodel.specs.links import Link
from perfmodel.specs.mesh import Mesh, mesh
from perfmodel.specs.rings import rings

Pairs = dict[tuple[int, int], int]


def both_ways(pairs: Pairs) -> Pairs:
    return pairs | {(b, a): number for (a, b), number in pairs.items()}


def link(joins: list[str], bandwidth: str = "10 GB/s", **fields: Any) -> Link:
    return Link.model_validate({
        "name": "link", "bandwidth": bandwidth, "joins": tuple(joins), "source": "none", "status": "assumed", **fields,
    })  # fmt: skip


def mesh_of(name: str) -> Mesh:
    tier = library.find("hardware", name).network[0]
    return mesh(tier.devices, tier.links)


CUBE_P100 = both_ways(dict.fromkeys(
    [*combinations(range(4), 2), *combinations(range(4, 8), 2), (0, 4), (1, 5), (2, 6), (3, 7)], 1
))  # fmt: skip
CUBE_V100 = both_ways({
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
})  # fmt: skip


class TestCounts:
    @pytest.mark.parametrize(("ranks", "expected"), [(2, 1), (3, 2), (4, 3), (5, 0), (6, 2), (7, 2), (8, 4)])
    def test_dgx_1_with_p100(self, ranks: int, expected: int) -> None:
        """Bus bandwidths of 17.3, 34.6, 52.1, 5.6 (PCIe), 34.5, 34.4 and 62.2 GB/s were measured, 17.3 for each ring."""
        assert rings(tuple(range(ranks)), CUBE_P100) == expected

    @pytest.mark.parametrize(("ranks", "expected"), [(2, 1), (3, 2), (4, 4), (5, 0), (8, 6)])
    def test_dgx_1_with_v100(self, ranks: int, expected: int) -> None:
        assert rings(tuple(range(ranks)), CUBE_V100) == expected

    def test_which_pair_matters_where_some_links_are_doubled(self) -> None:
        assert rings((0, 1), CUBE_V100) == 1
        assert rings((0, 3), CUBE_V100) == rings((0, 4), CUBE_V100) == 2
        assert rings((0, 5), CUBE_V100) == 0

    @pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 16])
    def test_a_full_mesh_uses_every_link(self, ranks: int) -> None:
        full = both_ways(dict.fromkeys(combinations(range(ranks), 2), 1))
        assert rings(tuple(range(ranks)), full) == ranks - 1

    def test_a_plain_ring_is_used_both_ways(self) -> None:
        assert rings(tuple(range(12)), both_ways({(i, (i + 1) % 12): 1 for i in range(12)})) == 2

    def test_two_crowds_with_one_link_between_have_none_and_the_search_ends(self) -> None:
        crowds = [*combinations(range(8), 2), *combinations(range(8, 16), 2), (0, 8)]
        assert rings(tuple(range(16)), both_ways(dict.fromkeys(crowds, 1))) == 0


@st.composite
def small_meshes(draw: st.DrawFn) -> tuple[int, Pairs]:
    ranks = draw(st.integers(2, 5))
    numbers = {pair: draw(st.integers(0, 2)) for pair in combinations(range(ranks), 2)}
    return ranks, {pair: number for pair, number in numbers.items() if number}


def packed_by_hand(ranks: int, links: Pairs) -> int:
    """Try all: a ring through everyone, then the best of what is left."""
    best = 0
    for rest in permutations(range(1, ranks)):
        path = (0, *rest)
        edges = [(path[i], path[(i + 1) % ranks]) for i in range(ranks)]
        if all(links.get(edge, 0) for edge in edges):
            best = max(best, 1 + packed_by_hand(ranks, links | {edge: links[edge] - 1 for edge in edges}))
    return best


@given(drawn=small_meshes())
def test_as_many_as_trying_all(drawn: tuple[int, Pairs]) -> None:
    ranks, pairs = drawn
    thin = both_ways(dict.fromkeys(pairs, 1))
    found, expected = rings(tuple(range(ranks)), thin), packed_by_hand(ranks, thin)
    assert expected <= found
    assert found == expected or ranks <= 4 or len(thin) == ranks * (ranks - 1), "halves of links are for up to four"


@st.composite
def hybrid_meshes(draw: st.DrawFn) -> tuple[int, list[str], list[str]]:
    """Devices with some direct links, all of them under switches of a host."""
    ranks, pairs = draw(small_meshes())
    direct = [f"{a} - {b} x{number}" for (a, b), number in pairs.items()]
    switches = [f"{device} - plx{draw(st.integers(0, 1))}" for device in range(ranks)]
    return ranks, direct, [*switches, "plx0 plx1 - cpu"]


def hybrid(ranks: int, direct: list[str], tree: list[str], **fields: Any) -> Mesh:
    links = (link(direct),) if direct else ()
    return Mesh(ranks, (*links, link(tree, "3 GB/s", **fields)))


any_mesh = given(drawn=hybrid_meshes(), data=st.data())


class TestAnyMesh:
    @any_mesh
    def test_no_ring_is_faster_than_the_links_of_a_member(
        self, drawn: tuple[int, list[str], list[str]], data: st.DataObject
    ) -> None:
        ranks, direct, tree = drawn
        size = data.draw(st.integers(2, ranks))
        made = hybrid(ranks, direct, tree)
        total = [sum(10e9 * n for _, pairs in made.kinds for (a, _), n in pairs.items() if a == d) for d in range(size)]
        assert made.ring((size, 1, 1, 0)).bandwidth <= max(min(total), 3e9) * (1 + 1e-12)

    @any_mesh
    def test_another_link_never_slows_a_ring_of_its_own(
        self, drawn: tuple[int, list[str], list[str]], data: st.DataObject
    ) -> None:
        ranks, direct, tree = drawn
        a, b = data.draw(st.sampled_from(list(combinations(range(ranks), 2))))
        size = data.draw(st.integers(ranks // 2 + 1, ranks))
        before = hybrid(ranks, direct, tree).ring((size, 1, 1, 0)).bandwidth
        more = [text for text in direct if not text.startswith(f"{a} - {b}")]
        number = next((int(text.rpartition("x")[2]) for text in direct if text.startswith(f"{a} - {b}")), 0)
        after = hybrid(ranks, [*more, f"{a} - {b} x{number + 1}"], tree).ring((size, 1, 1, 0)).bandwidth
        assert after >= before

    @any_mesh
    def test_a_switch_for_all_is_one_bandwidth(
        self, drawn: tuple[int, list[str], list[str]], data: st.DataObject
    ) -> None:
        ranks, _, _ = drawn
        switch = Mesh(ranks, (link([f"{' '.join(map(str, range(ranks)))} - switch"]),))
        size = data.draw(st.integers(2, ranks))
        assert switch.ring((size, 1, 1, 0)).bandwidth == 10e9
        assert switch.neighbour((size, 1, 1, 0)).bandwidth == 10e9


class TestShared:
    TREE = ("0 1 - plx0", "2 3 - plx1", "plx0 plx1 - cpu")

    def test_a_ring_through_switches_crosses_each_branch_once(self) -> None:
        assert Mesh(4, (link([*self.TREE]),)).ring((4, 1, 1, 0)).bandwidth == 10e9

    def test_rings_that_cross_one_branch_share_it(self) -> None:
        """Ranks 0 and 2, beside 1 and 3: both rings go through the uplinks of the switches."""
        assert Mesh(4, (link([*self.TREE]),)).ring((2, 2, 1, 0)).bandwidth == 5e9

    def test_near_pairs_share_nothing(self) -> None:
        assert Mesh(4, (link([*self.TREE]),)).ring((2, 1, 1, 0)).bandwidth == 10e9

    def test_messages_share_a_branch_in_one_direction(self) -> None:
        assert Mesh(4, (link([*self.TREE]),)).neighbour((4, 1, 1, 0)).bandwidth == 10e9
        assert Mesh(4, (link([*self.TREE]),)).neighbour((2, 2, 1, 0)).bandwidth == 5e9

    def test_two_rows_are_one_ring(self) -> None:
        """Members 0, 1, 4 and 5 of a cube mesh: a square of single links, gone around both ways."""
        assert mesh_of("dgx-1-p100").ring((2, 1, 2, 4)).bandwidth == pytest.approx(2 * 18.48e9)

    def test_of_several_ways_through_switches_the_widest_counts(self) -> None:
        wide = link(["0 - a", "1 - a"], "8 GB/s")
        narrow = link(["0 - b", "1 - b"], "2 GB/s")
        assert Mesh(2, (narrow, wide)).ring((2, 1, 1, 0)).bandwidth == 8e9

    def test_latency_is_that_of_the_links_that_are_used(self) -> None:
        fast, slow = link(["0 - 1", "2 - 3"], latency="2 us"), link(["0 1 2 3 - cpu"], "3 GB/s", latency="9 us")
        made = Mesh(4, (fast, slow))
        assert made.ring((2, 1, 1, 0)).latency == 2e-6
        assert made.ring((4, 1, 1, 0)).latency == 9e-6
