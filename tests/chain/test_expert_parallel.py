"""Experts spread over ranks: who exchanges what, what is conserved, what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel import api
from perfmodel.cost.capacity import footprint
from perfmodel.cost.holdings import fullest
from perfmodel.errors import InputError
from perfmodel.graph import expand
from perfmodel.graph.kernels import Repeated
from perfmodel.graph.ops import Experts
from perfmodel.library import find
from perfmodel.parallel import Group, Layout, LocalOp, divide
from perfmodel.parallel.expert import ExpertGroups, destinations
from perfmodel.parallel.sharded_state import state_of
from perfmodel.prediction import predict_layout
from perfmodel.specs import Strategy
from perfmodel.specs.strategy import ORDER
from perfmodel.timeline import duration

ORDERS = ["-".join(order) for order in permutations(ORDER)]
MODEL = find("workloads", "mixtral-8x7b", {"model.layers": (4, "test")})
TOKENS, HIDDEN, INNER = 4096, 4096, 14336


def layout(**degrees: Any) -> Layout:
    filled = {"tp": 1, "pp": 1, "cp": 1, "dp": 1, "vpp": 1, "microbatch": 1, "batch": 64} | degrees
    return Layout(**{"shard_group": filled["dp"] * filled["cp"]} | filled)


def experts_of(made: Layout, **fields: Any) -> LocalOp:
    strategy = Strategy(sequence_parallel=True, **fields)
    share = divide(expand(MODEL, microbatch=made.microbatch, fused=True), made, strategy)
    return next(local for local in share.body[0].ops if isinstance(local.op, Experts))


def members(group: Group, start: int = 0) -> set[int]:
    row = round(float(group.size / group.rows))
    rows = range(round(float(group.rows)))
    return {start + i * round(float(group.stride)) + j * round(float(group.apart)) for j in rows for i in range(row)}


def stage_ranks(order: str, sizes: dict[str, int]) -> list[int]:
    """Ranks of the first stage in their order, counted one by one."""
    names = [name for name in order.split("-") if name != "ep"]
    found = []
    for rank in range(np.prod([sizes[name] for name in names])):
        rest, at = rank, {}
        for name in names:
            rest, at[name] = divmod(rest, sizes[name])
        if at["pp"] == 0:
            found.append(rank)
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("ep", "etp"), [(1, 1), (4, 1), (2, 2), (8, 1), (4, 2), (16, 1), (16, 2)])
def test_groups_number_the_ranks_of_a_stage_anew(order: str, ep: int, etp: int) -> None:
    """In the strategy's order, with etp in the place of tp and copies in that of dp."""
    sizes = {"tp": 2, "cp": 2, "dp": 8, "pp": 4}
    groups = ExpertGroups(layout(**sizes, ep=ep, etp=etp, order=order))
    ranks = stage_ranks(order, sizes)
    degrees = {"tp": etp, "ep": ep, "dp": 32 // (ep * etp)}
    inner = [name for name in order.split("-") if name in degrees]
    made = {"tp": groups.tensor, "ep": groups.exchange, "dp": groups.between("N", "G")}
    row = np.prod(
        [
            sizes[n]
            for n in [n for n in order.split("-") if n != "ep"][
                : [n for n in order.split("-") if n != "ep"].index("pp")
            ]
        ]
    )
    for name, group in made.items():
        stride = int(np.prod([degrees[n] for n in inner[: inner.index(name)]]))
        if stride < row < stride * degrees[name] and row % stride:
            continue  # neither whole rows nor parts of one
        assert members(group) == {ranks[i * stride] for i in range(degrees[name])}, name


@given(
    tp=st.sampled_from([1, 2, 4]), cp=st.sampled_from([1, 2]), dp=st.sampled_from([2, 4, 8]),
    ep=st.sampled_from([1, 2, 4, 8]), etp=st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_all_ranks_together_hold_the_experts_and_do_the_work(tp: int, cp: int, dp: int, ep: int, etp: int) -> None:
    if (tp * cp * dp) % (ep * etp):
        return
    made = layout(tp=tp, cp=cp, dp=dp, ep=ep, etp=etp)
    held = experts_of(made).op
    whole = next(op for op in expand(MODEL, microbatch=1, fused=True).body[0].ops if isinstance(op, Experts))
    assert isinstance(held, Experts)
    ranks, copies = tp * cp * dp, ExpertGroups(made).copies
    balanced = replace(held, load=1.0)
    flops = sum(kernel.flops for kernel in (*balanced.forward(), *balanced.backward()))
    assert held.parameters * ranks / copies == pytest.approx(whole.parameters)
    assert flops * ranks == pytest.approx(dp * sum(kernel.flops for kernel in (*whole.forward(), *whole.backward())))


def test_dispatch_sends_a_copy_for_each_expert_of_a_token() -> None:
    local = experts_of(layout(dp=8, ep=8))
    sent = [message for message in local.forward if message.collective == "all-to-all"]
    assert [message.size for message in sent] == [TOKENS * 2 * HIDDEN * 2] * 2
    assert {message.imbalance for message in sent} == {1.06}
    assert local.backward == local.forward


def test_tensor_ranks_send_their_part_of_the_sequence_and_share_what_arrives() -> None:
    """With etp = tp each expert's ranks gather what each of them received."""
    dispatch, gather, scatter, combine = experts_of(layout(tp=4, dp=8, ep=8, etp=4)).forward
    assert dispatch.size == combine.size == TOKENS / 4 * 2 * HIDDEN * 2
    assert gather.size == scatter.size == pytest.approx(TOKENS * 2 * HIDDEN * 2 * 1.06)
    assert (dispatch.group.stride, gather.group.stride, gather.group.size) == (4, 1, 4)


def test_a_gathering_dispatcher_moves_all_tokens() -> None:
    gather, scatter = experts_of(layout(tp=2, dp=8, ep=8, etp=2), dispatcher="all-gather").forward
    assert gather.size == scatter.size == TOKENS / 2 * 16 * HIDDEN * 2
    assert gather.group.size == 16


def test_one_copy_for_each_host_and_there_one_for_each_rank() -> None:
    between, near, *_ = experts_of(layout(dp=8, ep=8, host=4), dispatcher="deduplicated").forward
    op = expand(MODEL, microbatch=1, fused=True).body[0].ops
    whole = next(o for o in op if isinstance(o, Experts))
    assert (between.group.size, between.group.stride, near.group.size) == (2, 4, 4)
    assert between.size == pytest.approx(TOKENS * HIDDEN * 2 * destinations(whole, 2))
    assert near.size == pytest.approx(TOKENS * HIDDEN * 2 * destinations(whole, 8))


def test_destinations_by_counting() -> None:
    """Of 8 experts two, on 4 ranks of two: all pairs but those on one rank go to two ranks: 2 - 4 / 28."""
    op = Experts("experts", TOKENS, HIDDEN, INNER, 8, 2, top_k=2)
    assert destinations(op, 4) == pytest.approx(2 - 4 / 28)
    assert destinations(op, 1) == pytest.approx(1)
    assert destinations(op, 8) == pytest.approx(2)


def test_groups_of_experts_bound_the_hosts_of_a_token() -> None:
    op = Experts("experts", TOKENS, HIDDEN, 2048, 256, 2, top_k=8, groups=8, top_groups=4)
    assert destinations(op, 8) == 4
    assert destinations(op, 2) <= 2
    assert destinations(replace(op, groups=1, top_groups=1), 8) > 5


def test_a_capacity_fixes_the_load_and_imbalance_sets_it() -> None:
    loads = {}
    for name, changes in {"free": {}, "skewed": {"imbalance": 1.7}, "capacity": {"capacity": 1.25}}.items():
        model = find("workloads", "mixtral-8x7b", {f"model.experts.{k}": (v, "test") for k, v in changes.items()})
        share = divide(expand(model, microbatch=1, fused=True), layout(dp=8, ep=8), Strategy())
        op = next(local.op for local in share.body[0].ops if isinstance(local.op, Experts))
        loads[name] = float(op.load)
    assert loads == {"free": 1.06, "skewed": 1.7, "capacity": 1.25}


def predicted(**settings: Any) -> Any:
    fields: dict[str, Any] = {"devices": 64, "ep": 8, "pp": 4, "batch": 128, "strategy": "megatron-core"} | settings
    return api.predict("mixtral-8x7b", "dgx-h100", **fields)


class TestSteps:
    def test_imbalance_costs(self) -> None:
        even, skewed = (predicted(sets={"workload.model.experts.imbalance": x}).step_time for x in (1.0, 1.7))
        assert skewed > 1.2 * even

    def test_tokens_that_travel_beside_another_pass_cost_less(self) -> None:
        plain, hidden = predicted(), predicted(sets={"strategy.expert_overlap": "passes"})
        assert hidden.step_time < plain.step_time
        assert hidden.kinds["expert parallel"][0] == pytest.approx(plain.kinds["expert parallel"][0])
        assert hidden.kinds["expert parallel"][1] < 0.5 * plain.kinds["expert parallel"][1]

    def test_experts_across_hosts_are_slower_and_copies_for_hosts_help(self) -> None:
        """Tutel issue 187: the exchange is many times slower where it leaves the host."""
        near, far = (predicted(pp=1, tp=tp, sets={"strategy.etp": 1, "strategy.sequence_parallel": True, "strategy.order": order})
                     .kinds["expert parallel"][0] for tp, order in ((1, "tp-cp-ep-dp-pp"), (1, "tp-cp-dp-ep-pp")))  # fmt: skip
        assert far > 3 * near
        many = {d: api.predict("deepseek-v2", "dgx-h100", devices=64, ep=32, batch=64, sets={"strategy.dispatcher": d})
                for d in ("all-to-all", "deduplicated")}  # fmt: skip
        assert many["deduplicated"].step_time < many["all-to-all"].step_time

    def test_few_tokens_leave_cores_idle_where_each_expert_has_products_of_its_own(self) -> None:
        """128 experts with 32 tokens each, and 2 with thousands, whose waves are full either way."""
        ratios = []
        for workload, ep in (("qwen3-30b-a3b", 1), ("mixtral-8x7b", 4)):
            grouped, each = (
                api.predict(workload, "dgx-h100", devices=8, ep=ep, batch=8, seq=512 if ep == 1 else 4096,
                            sets={"strategy.expert_kernels": kernels}).kinds["matmul"][0]
                for kernels in ("grouped", "each")
            )  # fmt: skip
            ratios.append(each / grouped)
        assert ratios[0] > 1.3
        assert ratios[1] < 1.1

    def test_tokens_are_sorted_before_tensor_ranks_gather_them(self) -> None:
        """One expert on each rank: no second sort, and each of 4 ranks has sorted a quarter of what its expert gets."""
        sorts = []
        for etp in (1, 4):
            made = api.predict(
                "mixtral-8x7b", "dgx-h100", devices=32, tp=4, ep=8, batch=8,
                sets={"strategy.etp": etp, "strategy.sequence_parallel": True},
            )  # fmt: skip
            sorts.append(sum(t for leaf, t, _ in made.terms if leaf.name == "experts sort"))
        assert sorts[0] == pytest.approx(sorts[1], rel=1e-9)

    def test_a_router_that_no_kernel_fuses_launches_many(self) -> None:
        names = [
            {leaf.name for leaf, _, _ in api.predict("mixtral-8x7b", "dgx-h100", devices=8, ep=8, batch=8,
                                                      sets={"strategy.permutation": how}).terms}
            for how in ("fused", "indexed")
        ]  # fmt: skip
        assert {"experts routing", "experts routing backward"} == {n for n in names[1] - names[0] if "routing" in n}

    @pytest.mark.parametrize(("capacity", "counts"), [(None, (20, 15)), (1.25, (30, 25))])
    def test_a_capacity_adds_ten_each_way(self, capacity: float | None, counts: tuple[int, int]) -> None:
        op = Experts("experts", 4096, 1024, 4096, 8, 2, top_k=2, permutation="indexed", capacity=capacity)
        found = [[k.times for k in way if isinstance(k, Repeated)] for way in (op.forward(), op.backward())]
        assert found == [[counts[0]], [counts[1]]]

    def test_each_expert_launched_alone_costs_where_the_host_binds(self) -> None:
        times = [
            api.predict("qwen3-30b-a3b", "dgx-h100", devices=8, ep=8, batch=64, strategy="nemo-eager",
                        sets={"strategy.expert_kernels": kernels}).step_time
            for kernels in ("grouped", "each")
        ]  # fmt: skip
        assert times[1] > 1.2 * times[0]

    def test_graphs_leave_the_host_what_concerns_experts(self) -> None:
        """Of a layer, its kernels and messages, those of each expert alone; other launches are the graphs'."""
        made = {
            name: api.predict("qwen3-30b-a3b", "dgx-b200", devices=8, ep=4, batch=64, strategy=name)
            for name in ("nemo", "nemo-graphs", "nemo-eager")
        }
        times = [made[name].step_time for name in ("nemo", "nemo-graphs", "nemo-eager")]
        assert times[0] < times[1] < times[2]
        assert times[1] > 1.4 * times[0]
        layers, microbatches, held = 48, 8, 128 // 4
        framework, speed = made["nemo-graphs"].strategy.framework, made["nemo-graphs"].hardware.host.launcher.speed
        assert framework is not None
        assert framework.dispatch is not None
        assert framework.loop is not None
        of_layer = (5 + 4 + 7 + 4) * framework.dispatch / speed + (2 + 4) * (held - 1) * framework.loop / speed
        assert made["nemo-graphs"].kinds["host"][0] == pytest.approx(layers * microbatches * of_layer)

    def test_what_a_call_launches_in_a_loop_takes_as_long_as_a_dispatch_unless_stated(self) -> None:
        """Primus states a dispatch alone."""
        job: dict[str, Any] = {"devices": 8, "ep": 8, "batch": 64, "strategy": "primus"}
        alone = api.predict("qwen3-30b-a3b", "dgx-b200", **job).terms
        times = {t.name: float(t.inputs["time"]) for t, *_ in alone if t.kind == "host"}
        assert times == pytest.approx({"dispatch": 121.7e-6, "dispatch in loops": 121.7e-6})

    def test_users_ladder_has_the_order_that_they_found(self) -> None:
        """A mixture of 16 B on 8 B200 (torchtitan, pull request 1993): 13.5, 16, 18 and 20 % MFU."""
        steps: list[dict[str, Any]] = [
            {"ep": 8, "microbatch": 4, "recompute": "full"}, {"ep": 8, "microbatch": 4}, {"ep": 1, "microbatch": 4},
            {"ep": 1, "microbatch": 6},
        ]  # fmt: skip
        found = [
            api.predict(
                "deepseek-v2-lite", "dgx-b200", strategy="torchtitan-fsdp2", devices=8, batch=8 * s["microbatch"], **s
            )
            for s in steps
        ]
        mfu = [prediction.mfu("causal") for prediction in found]
        assert mfu == sorted(mfu)
        assert all(prediction.fits for prediction in found)

    def test_finer_experts_are_slower(self) -> None:
        """MaxText, issue 1256: the same work cut into seven times as many experts."""
        finer = {"count": 56, "top_k": 14, "ffn_hidden": 2048}
        sets = {f"workload.model.experts.{name}": value for name, value in finer.items()}
        job: dict[str, Any] = {
            "devices": 32,
            "strategy": "maxtext-fsdp",
            "batch": 384,
            "microbatch": 12,
            "recompute": "full",
        }
        coarse, fine = (api.predict("mixtral-8x7b", "tpu-v5p-pod", sets=s, **job) for s in ({}, sets))
        assert fine.flops() == pytest.approx(coarse.flops(), rel=1e-2)
        assert fine.mfu("causal") < 0.97 * coarse.mfu("causal")

    def test_exposed_times_add_up(self) -> None:
        prediction = predicted(sets={"strategy.expert_overlap": "passes"})
        assert sum(seen for _, _, seen in prediction.terms) == pytest.approx(prediction.step_time, rel=1e-9)

    @pytest.mark.parametrize("zero", [0, 1, 2, 3])
    def test_experts_are_synchronised_among_their_copies(self, zero: int) -> None:
        """Every rank has another expert: with no copies there is nothing to send."""
        alone, copied = predicted(pp=8, zero=zero), predicted(pp=4, zero=zero)
        names = {term.name for term, *_ in alone.terms}, {term.name for term, *_ in copied.terms}
        assert not any(name.startswith("expert gradient") for name in names[0])
        assert any(name.startswith("expert gradient") for name in names[1])


class TestMemory:
    def test_spreading_experts_leaves_only_theirs_smaller(self) -> None:
        whole, spread = (predicted(pp=1, ep=ep).footprint for ep in (1, 8))
        experts = 32 * 8 * 3 * HIDDEN * INNER * 2
        assert float(whole.weights[0] - spread.weights[0]) == pytest.approx(experts * 7 / 8)

    def test_states_of_experts_are_shared_by_fewer(self) -> None:
        """ZeRO 1: 64 ranks share the states of all else, 8 those of an expert."""
        state = predicted(pp=1, zero=1).footprint.optimizer[0]
        experts = 32 * 3 * HIDDEN * INNER
        dense = predicted().graph.parameters - 8 * experts
        assert float(state) == pytest.approx(12 * (experts / 8 + dense / 64), rel=1e-9)

    def test_the_first_stage_of_deepseek_has_the_dense_layers(self) -> None:
        prediction = api.predict("deepseek-v3", "gb200-nvl72", devices=256, pp=4, ep=64, batch=256,
                                 sets={"strategy.stage_layers": "last-fewer"})  # fmt: skip
        stages = np.asarray(prediction.footprint.optimizer)
        dense, expert = 3 * 7168 * 18432, 3 * 7168 * 2048
        mixture = (256 / 64 + 1) * expert + 7168 * 256
        assert stages[1] == stages[2]
        assert stages[0] - stages[1] == 12 * (129280 * 7168 + 3 * (dense - mixture))

    def test_recomputed_modules_save_memory_and_cost_time(self) -> None:
        both = [predicted(sets={"strategy.recompute_modules": m}) for m in ("", "norms+activations")]
        assert both[1].memory_peak < 0.93 * both[0].memory_peak
        assert both[1].step_time > both[0].step_time


FIELDS: list[dict[str, Any]] = [
    {}, {"dispatcher": "deduplicated", "expert_overlap": "passes", "zero": 3}, {"dispatcher": "all-gather"}
]  # fmt: skip


FOLDED: list[tuple[str, int, tuple[int, int, int, int], tuple[int, int, int, int], float, float]] = [
    ("mixtral-8x22b", 128, (2, 8, 4, 2), (2, 8, 8, 1), 0.494, 0.522),
    ("qwen2-57b-a14b", 64, (2, 4, 4, 2), (2, 4, 4, 1), 0.362, 0.399),
    ("mixtral-8x22b-g8t8", 128, (2, 8, 8, 2), (4, 8, 8, 1), 0.198, 0.300),
]
"""Model, H100, (tp, pp, ep, etp) plain and folded, and their MFU: Liu et al., 2025 (arXiv:2504.14960), batch 1024, capacity 1.

Microbatch and virtual stages are not printed; one sequence and none here, so that absolute figures are no test.
"""


@pytest.mark.parametrize(("model", "devices", "plain", "folded", "before", "after"), FOLDED)
def test_folding_helps_as_much_as_was_measured(
    model: str, devices: int, plain: tuple[int, ...], folded: tuple[int, ...], before: float, after: float
) -> None:
    found = []
    for tp, pp, ep, etp in (plain, folded):
        sets = {"workload.model.experts.capacity": 1.0, "strategy.etp": etp}
        job: dict[str, Any] = {
            "devices": devices,
            "tp": tp,
            "pp": pp,
            "ep": ep,
            "batch": 1024,
            "seq": 4096,
            "strategy": "nemo",
        }
        found.append(api.predict(model, "dgx-h100", sets=sets, **job).mfu("causal"))
    assert found[1] > found[0]
    assert found[1] / found[0] == pytest.approx(after / before, rel=0.15)


@pytest.mark.parametrize("fields", FIELDS)
def test_columns_are_scalars_row_by_row(fields: dict[str, Any]) -> None:
    rows = [
        {"tp": 1, "dp": 16, "ep": 8, "etp": 1, "pp": 1}, {"tp": 2, "dp": 8, "ep": 4, "etp": 2, "pp": 2},
        {"tp": 2, "dp": 8, "ep": 8, "etp": 1, "pp": 4}, {"tp": 4, "dp": 4, "ep": 1, "etp": 4, "pp": 1},
    ]  # fmt: skip
    hardware, strategy = find("hardware", "dgx-h100"), Strategy(sequence_parallel=True, **fields)

    def made(row: dict[str, Any]) -> Any:
        degrees = layout(**row, host=8)
        prediction = predict_layout(MODEL, hardware, strategy, degrees)
        memory = footprint(prediction.share, state_of(MODEL, strategy), degrees, strategy, 0 * degrees.pp).total
        return duration(prediction.tree), memory, *fullest(prediction.share, degrees, strategy).values()

    wide = made({name: np.array([row[name] for row in rows]) for name in rows[0]})
    for index, row in enumerate(rows):
        for column, number in zip(wide, made(row), strict=True):
            assert np.broadcast_to(column, len(rows))[index] == pytest.approx(float(number), rel=1e-12)


REFUSED = [
    ({"ep": 3}, "--ep: 3 does not divide 8 experts; nearest that do: 2 and 4"),
    ({"ep": 8, "pp": 16}, "--ep: ep x etp = 8 x 1 does not divide the 4 devices of a stage (tp x cp x dp); nearest that do: 4"),
    ({"tp": 2}, "sequence_parallel: experts take the tokens of each of the tp 2 ranks, which without it all hold the same; turn it on"),
    ({"sets": {"strategy.etp": 3}}, "--set strategy.etp: etp: 3 does not divide the width 14336 of an expert; nearest that do: 2 and 4"),
    ({"sync": "peer-to-peer", "zero": 0}, "--sync: peer-to-peer keeps whole replicas, but ep 8 spreads the experts"),
    ({"pp": 3, "devices": 96, "sets": {"strategy.stage_layers": "last-fewer"}}, None),
    ({"pp": 64, "devices": 512, "ep": 1, "sets": {"strategy.stage_layers": "last-fewer"}}, "64 x 1 chunks of 1 layers are 32 more than the 32 of the model"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_what_cannot_be_laid_out_is_refused_with_the_remedy(settings: dict[str, Any], message: str | None) -> None:
    changes = {"pp": 1, "strategy": None, **settings}
    if message is None:
        assert predicted(**changes).step_time > 0
        return
    with pytest.raises(InputError) as caught:
        predicted(**changes)
    assert any(message in str(problem) for problem in caught.value.problems), caught.value


def test_a_dense_model_has_no_experts_to_spread() -> None:
    with pytest.raises(InputError, match="has no experts to spread; leave ep at 1"):
        api.predict("llama-3.1-8b", "dgx-h100", devices=8, ep=2)
