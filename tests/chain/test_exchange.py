"""Messages on a network: every collective in its limits, columns as scalars, algorithms that a user fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.cost.algorithms import ALGORITHMS
from perfmodel.cost.communication import exchange
from perfmodel.errors import InputError
from perfmodel.library import find
from perfmodel.parallel import Group, Message

if TYPE_CHECKING:
    from perfmodel.specs import Hardware

COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "send")
MACHINES = ("dgx-h100", "dgx-2", "ac922-4gpu", "tpu-v4-pod", "gb200-nvl72", "cloud-cpu-8core")
FIXED = [(kind, name) for kind, names in ALGORITHMS.items() for name in names]
SIZES = st.floats(1.0, 1e11)


def time(collective: Any, size: Any, ranks: Any, machine: Hardware, stride: Any = 1, **more: Any) -> Any:
    imbalance = more.pop("imbalance", 1.0)
    message = Message("m", collective, size, Group(ranks, stride), imbalance=imbalance)
    return exchange(message, machine.network, "k", **more).time


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_rank_costs_nothing_and_more_bytes_cost_more(name: str, collective: str) -> None:
    machine = find("hardware", name)
    assert float(time(collective, 1e6, 1, machine)) == 0
    for ranks in (2, 4, 8, 64):
        if ranks <= machine.reach:
            times = [float(time(collective, 10.0**power, ranks, machine)) for power in range(12)]
            assert times == sorted(times)
            assert times[0] > 0


@pytest.mark.parametrize("collective", COLLECTIVES)
@given(data=st.data())
def test_columns_equal_scalars(collective: str, data: st.DataObject) -> None:
    machine = find("hardware", data.draw(st.sampled_from(MACHINES)))
    rows = data.draw(
        st.lists(
            st.tuples(SIZES, st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 4, 8])), min_size=2, max_size=5
        )
    )
    size, ranks, stride = (np.array(column) for column in zip(*rows, strict=True))
    column = np.broadcast_to(time(collective, size, ranks, machine, stride), len(rows))
    alone = [float(time(collective, s, n, machine, k)) for s, n, k in rows]
    np.testing.assert_allclose(column, alone, rtol=1e-12)


@pytest.mark.parametrize("ranks", [8, 64, 1024])
def test_large_all_reduces_reach_what_the_slowest_tier_carries(ranks: int) -> None:
    """A ring is bound by the narrowest tier; two hosts and a reducing switch do better, never worse."""
    machine = find("hardware", "dgx-a100-80gb")
    inner, outer = machine.network
    carried = min(inner.bandwidth * inner.efficiency, 8 * outer.bandwidth * outer.efficiency if ranks > 8 else np.inf)
    bound = 2 * (ranks - 1) / ranks * 1e15 / carried
    assert float(time("all-reduce", 1e15, ranks, machine)) == pytest.approx(bound, rel=1e-3)


def test_two_hosts_pass_the_network_once_where_their_ranks_have_links_of_their_own() -> None:
    """Two p4de reached 78 GB/s of bus bandwidth over cards of 50 GB/s; PCIe boxes stay with the ring."""
    efa, pcie = find("hardware", "aws-p4de-24xlarge"), find("hardware", "pcie-4gpu-10gbe")
    for machine, devices, often in ((efa, 8, 1.0), (pcie, 4, 2 * 7 / 8)):
        cards = machine.network[-1].bandwidth * machine.network[-1].efficiency * devices
        assert float(time("all-reduce", 1e13, 2 * devices, machine)) == pytest.approx(often * 1e13 / cards, rel=1e-2)


def test_the_chain_of_a_tree_may_be_slower_than_a_ring() -> None:
    machine = find("hardware", "dgx-a100-80gb")
    tier = machine.network[0]
    assert tier.chain is not None
    slow = machine.network[0].model_copy(update={"chain": 0.01})
    wide = machine.network[1].model_copy(update={"bandwidth": 1e12})
    changed = machine.model_copy(update={"network": (slow, wide)})
    tree = float(time("all-reduce", 1e13, 16, changed, algorithm="chained-tree"))
    assert float(time("all-reduce", 1e13, 16, changed)) < tree


@given(size=SIZES, ranks=st.sampled_from([2, 8, 16, 64, 512, 4096]))
def test_the_library_is_never_slower_than_the_flat_ring(size: float, ranks: int) -> None:
    machine = find("hardware", "dgx-h100")
    assert float(time("all-reduce", size, ranks, machine)) <= float(
        time("all-reduce", size, ranks, machine, algorithm="ring")
    ) * (1 + 1e-9)


@given(size=st.floats(1.0, 1e5), nodes=st.sampled_from([2, 8, 64]))
def test_levels_save_steps_of_small_messages(size: float, nodes: int) -> None:
    machine = find("hardware", "dgx-a100-80gb")
    ring, levels = (
        float(time("all-reduce", size, 8 * nodes, machine, algorithm=name)) for name in ("ring", "hierarchical")
    )
    assert levels <= ring


@pytest.mark.parametrize(("collective", "algorithm"), FIXED)
def test_a_fixed_algorithm_is_a_term_that_names_it(collective: str, algorithm: str) -> None:
    machine = find("hardware", "dgx-h100")
    message = Message("gradients", collective, 1e8, Group(8, 1))  # type: ignore[arg-type]
    made = exchange(message, machine.network, "k", algorithm=algorithm)
    assert made.name == f"gradients ({algorithm})"
    assert float(made.time) > 0
    if algorithm != "in-network":
        assert float(time(collective, 1e8, 1, machine, algorithm=algorithm)) == 0


def test_an_algorithm_that_is_none_is_refused_with_those_that_are() -> None:
    machine = find("hardware", "dgx-a100-80gb")
    with pytest.raises(InputError, match="all-reduce has no algorithm 'rign'; did you mean 'ring'"):
        time("all-reduce", 1e6, 8, machine, algorithm="rign")
    with pytest.raises(InputError, match="no switch of this group reduces"):
        time("all-reduce", 1e6, 8, machine, algorithm="in-network")


def test_another_library_has_constants_of_its_own() -> None:
    machine = find("hardware", "dgx-2")
    tier = machine.network[0]
    assert tier.through("cuda-memcpy").efficiency > 0.95 > tier.efficiency
    assert tier.through("none of these") is tier


def test_the_switch_takes_large_all_reduces_of_a_host_and_no_gathers() -> None:
    machine = find("hardware", "dgx-h100")
    reduce, gather = (float(time(kind, 1e10, 8, machine)) for kind in ("all-reduce", "all-gather"))
    assert reduce < 2 * gather


def test_a_skewed_all_to_all_takes_as_long_as_its_busiest_rank() -> None:
    machine = find("hardware", "dgx-h100")
    even, skewed = (float(time("all-to-all", 1e10, 64, machine, imbalance=by)) for by in (1.0, 2.0))
    assert skewed == pytest.approx(2 * even, rel=0.01)
