"""The order of the ranks: strides as products, the default as before, refusals, and what it does to a step."""

from __future__ import annotations

from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.parallel import Group, Layout
from perfmodel.specs.strategy import ORDER

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = ["-".join(order) for order in permutations(ORDER)]
SIZES = {"tp": 2, "cp": 3, "dp": 4, "pp": 5}


def layout(order: str, shard_group: int = 12, **sizes: int) -> Layout:
    degrees: dict[str, Any] = {**SIZES, **sizes}
    return Layout(**degrees, vpp=1, microbatch=1, batch=4, shard_group=shard_group, order=order)


def members(group: Group, start: int = 0) -> set[int]:
    """The ranks of one group, listed."""
    row = int(group.size / group.rows)
    return {start + int(i * group.stride) + int(j * group.apart) for j in range(int(group.rows)) for i in range(row)}


def ranks_with(order: str, fixed: dict[str, int]) -> set[int]:
    """Ranks whose coordinates are these, counted one by one."""
    names = [name for name in order.split("-") if name != "ep"]
    found = set()
    for rank in range(prod(SIZES.values())):
        rest, at = rank, {}
        for name in names:
            rest, at[name] = divmod(rest, SIZES[name])
        if all(at[name] == value for name, value in fixed.items()):
            found.add(rank)
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_groups_are_the_ranks_that_differ_in_one_degree(order: str) -> None:
    made = layout(order)
    others = {name: {n: 0 for n in SIZES if n != name} for name in SIZES}
    assert members(made.tensor) == ranks_with(order, others["tp"])
    assert members(made.context) == ranks_with(order, others["cp"])
    assert members(made.pipeline) == ranks_with(order, others["pp"])
    assert members(made.replicas) == ranks_with(order, {"tp": 0, "pp": 0})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shard_group", [1, 2, 3, 4, 6, 12])
def test_shards_and_those_across_make_up_the_replicas(order: str, shard_group: int) -> None:
    near = SIZES[min(("cp", "dp"), key=order.index)]
    if near % shard_group and shard_group % near:
        return  # neither whole rows nor parts of one
    made = layout(order, shard_group)
    starts = members(made.between("I", "G"))
    assert len(starts) == 12 // shard_group
    assert len(members(made.between("N", "I"))) == shard_group
    assert set().union(*(members(made.between("N", "I"), start) for start in starts)) == members(made.replicas)


def test_the_default_is_tensor_then_context_then_data_then_pipeline() -> None:
    made = layout("tp-cp-ep-dp-pp")
    strides = made.tensor.stride, made.context.stride, made.replicas.stride, made.pipeline.stride
    assert strides == (1, 2, 2, 24)


GROUPS: dict[str, Callable[[Layout], Group]] = {
    "tensor": lambda made: made.tensor, "context": lambda made: made.context, "replicas": lambda made: made.replicas,
    "pipeline": lambda made: made.pipeline, "across": lambda made: made.between("I", "G"),
}  # fmt: skip


@given(sizes=st.lists(st.integers(1, 8), min_size=4, max_size=4), order=st.sampled_from(ORDERS))
def test_columns_equal_numbers(sizes: list[int], order: str) -> None:
    both = [dict(zip(SIZES, some, strict=True)) for some in (sizes, sizes[::-1])]

    def made(degrees: dict[str, Any]) -> Layout:
        return Layout(**degrees, vpp=1, microbatch=1, batch=4, shard_group=1, order=order)

    wide = made({name: np.array([degrees[name] for degrees in both]) for name in SIZES})
    for index, degrees in enumerate(both):
        alone = made(degrees)
        for name, of in GROUPS.items():
            for field in ("size", "stride", "rows"):
                column = np.broadcast_to(getattr(of(wide), field), 2)
                assert column[index] == getattr(of(alone), field), (name, field)


def step(order: str) -> float:
    prediction = api.predict(
        "gpt3-175b", "dgx-h100", strategy="megatron-core", tp=2, pp=2, dp=8, batch=64, sets={"strategy.order": order}
    )
    return float(prediction.step_time)


def test_data_parallel_ranks_inside_a_host_exchange_gradients_faster() -> None:
    """With 2 x 2 model ranks inside, two replicas share a host; with the pipeline outermost, four do."""
    near, far = step("tp-cp-ep-dp-pp"), step("tp-cp-ep-pp-dp")
    assert near != far
    assert step("ep-tp-cp-dp-pp") == near


def test_an_order_that_is_none_is_refused_with_its_option() -> None:
    with pytest.raises(InputError) as caught:
        step("tp-pp")
    assert [str(problem) for problem in caught.value.problems] == [
        "--set strategy.order: order: 'tp-pp' lacks 'cp' and 'ep' and 'dp'; write each of tp, cp, ep, dp, pp once, innermost first, as tp-cp-ep-dp-pp"
    ]
