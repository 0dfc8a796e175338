"""Context parallelism: what each form computes, sends and hides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from perfmodel import api
from perfmodel.errors import InputError
from perfmodel.graph.ops import Attention
from perfmodel.parallel import Group
from perfmodel.parallel.context import Form, form_of, messages, shard
from perfmodel.specs import Strategy
from perfmodel.specs.strategy import Context

if TYPE_CHECKING:
    from perfmodel.cost.capacity import Footprint
    from perfmodel.parallel import Message
    from perfmodel.prediction import Prediction

NAMES: tuple[Context, ...] = get_args(get_args(Context)[0])
every_form = pytest.mark.parametrize("name", NAMES)


def attention(**changed: Any) -> Attention:
    shape = {"batch": 1, "queries": 4096, "keys": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "element": 2.0}
    return Attention("attention", **shape | changed, causal=True, fused=True, dropout=False)


def flops(op: Attention) -> float:
    return float(sum(kernel.flops for kernel in (*op.forward(), *op.backward())))


def form(name: Context, inside: int = 2) -> Form:
    """Ulysses inside a ring takes pairs of ranks."""
    return form_of(Strategy(context=name, ulysses_degree=inside if name == "ulysses-ring" else None))


def sent(name: Context, ranks: int, *, backward: bool, inside: int = 2) -> float:
    """Bytes that one rank sends."""
    part = shard(attention(), form(name, inside), ranks=ranks)
    made = messages(part, form(name, inside), Group(ranks, 1), backward=backward)

    def wire(message: Message) -> float:
        rounds, size = (1 if message.rounds is None else message.rounds), message.group.size
        return float(message.size * rounds * (1 if message.collective == "send" else (size - 1) / size))

    return sum(map(wire, made))


def predicted(name: str, **settings: Any) -> Prediction:
    given: dict[str, Any] = {"tp": 1, "cp": 8, "dp": 1, "batch": 4, "seq": 32768, "zero": 3} | settings
    degree = given.pop("ulysses_degree", 4 if name == "ulysses-ring" else None)
    sets = {"strategy.context": name} | ({"strategy.ulysses_degree": degree} if degree else {})
    return api.predict("llama-3.1-8b", "dgx-h100", sets=sets, **given)


@every_form
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_ranks_share_the_arithmetic_equally(name: Context, ranks: int) -> None:
    assert flops(shard(attention(), form(name), ranks=ranks)) == pytest.approx(flops(attention()) / ranks, rel=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_bytes_on_the_wire(ranks: int) -> None:
    """Keys and values of one rank are n; a ring sends p - 1 of them, and as many again and p gradients backward."""
    whole = 2 * 4096 * 8 * 128 * 2.0
    block, moved = whole / ranks, (ranks - 1) / ranks * whole
    assert sent("all-gather", ranks, backward=False) == pytest.approx(moved)
    assert sent("ring", ranks, backward=False) == pytest.approx(moved)
    assert sent("all-gather", ranks, backward=True) == pytest.approx(2 * moved)
    assert sent("ring", ranks, backward=True) == pytest.approx(2 * moved + block)
    assert sent("gathered-ring", ranks, backward=False) == pytest.approx(moved)
    assert sent("gathered-ring", ranks, backward=True) == pytest.approx(moved + 2 * (moved + block))


def test_ulysses_sends_less_the_more_ranks_there_are() -> None:
    """4 N h / p with as many heads of keys as of queries (DeepSpeed-Ulysses, section 3.2)."""
    hidden = 32 * 128
    for ranks in (2, 4, 8):
        part = shard(attention(kv_heads=32), form("ulysses"), ranks=ranks)
        made = messages(part, form("ulysses"), Group(ranks, 1), backward=False)
        assert sum(float(m.size) for m in made) == pytest.approx(4 * 4096 * hidden * 2.0 / ranks)


def test_few_heads_of_keys_are_copied() -> None:
    part = shard(attention(kv_heads=2), form("ulysses"), ranks=8)
    assert isinstance(part, Attention)
    assert float(part.kv_heads) == 1.0


class TestRing:
    def test_hides_all_but_the_last_gradients_behind_long_blocks(self) -> None:
        """With one message to each block, only the gradients that go home and contention are exposed."""
        ring, gathered = predicted("ring"), predicted("all-gather")
        total, exposed = ring.kinds["context parallel"]
        home = next(time for leaf, time, _ in ring.terms if leaf.name == "context send of gradients home")
        assert home <= exposed < 0.4 * total
        assert exposed < gathered.kinds["context parallel"][1]

    def test_short_blocks_hide_no_more_than_they_last(self) -> None:
        """Over a slow network each message waits for its block no longer than that lasts; contention comes on top."""
        short = api.predict(
            "llama-3.1-8b", "pcie-4gpu-10gbe", cp=16, batch=1, seq=8192, zero=3, precision="fp16",
            sets={"strategy.context": "ring"},
        )  # fmt: skip
        named = {leaf.name: (leaf, time, exposed) for leaf, time, exposed in short.terms}
        _, time, exposed = named["context send of both"]
        hidden = 14 * 32 * float(named["attention core backward"][0].time)
        assert 0 < hidden < time
        assert time - hidden <= exposed < time

    def test_one_rank_has_no_ring(self) -> None:
        assert (
            predicted("ring", cp=1, dp=8, batch=8, seq=4096).step_time
            == predicted("all-gather", cp=1, dp=8, batch=8, seq=4096).step_time
        )


class TestGatheredRing:
    """PyTorch's: one gather, then blocks, whose gradients go around in fp32."""

    def test_hides_the_gather_behind_the_first_block_and_gradients_behind_the_others(self) -> None:
        """What goes home is left, and contention with what hides."""
        made = predicted("gathered-ring")
        total, exposed = made.kinds["context parallel"]
        home = next(time for leaf, time, _ in made.terms if leaf.name == "context send of gradients home")
        assert home <= exposed < 0.4 * total

    @pytest.mark.parametrize("name", ["ring", "gathered-ring"])
    def test_compiled_programs_wait_for_each_message(self, name: str) -> None:
        """As many messages, and all of them exposed."""
        beside, alone = (
            api.predict(
                "llama-3.1-8b", "dgx-h100", cp=8, dp=1, batch=4, seq=32768, zero=3,
                sets={"strategy.context": name, "strategy.context_overlap": overlap},
            ).kinds["context parallel"]
            for overlap in ("blocks", "none")
        )  # fmt: skip
        assert alone[0] == pytest.approx(alone[1], rel=1e-12) == pytest.approx(beside[0], rel=1e-12)
        assert beside[1] < 0.4 * alone[1]


class TestSharedHeads:
    """32 heads of queries and 8 of keys and values."""

    @staticmethod
    def job(heads: str, **sets: str) -> Prediction:
        chosen = {"strategy.shared_heads": heads, "strategy.context": "gathered-ring"} | sets
        return api.predict("llama-3.1-8b", "dgx-h100", cp=8, dp=1, batch=1, seq=32768, zero=3, sets=chosen)

    def test_copies_travel(self) -> None:
        sizes = [
            next(
                float(leaf.inputs["size"]) for leaf, _, _ in self.job(heads).terms if leaf.name == "context all-gather"
            )
            for heads in ("read", "copied")
        ]
        assert sizes[0] == 2 * 32768 * 8 * 128 * 2
        assert sizes[1] == 4 * sizes[0]

    def test_copies_are_made_and_their_gradients_summed(self) -> None:
        """Forward they write 32 heads of each for 8 that are read, backward the other way: bytes of one rank and layer."""
        moved = {
            leaf.name: float(leaf.inputs["traffic"])
            for leaf, _, _ in self.job("copied").terms
            if "traffic" in leaf.inputs
        }
        copies = 2 * 4096 * (32 + 8) * 128 * 2
        assert moved["heads copied"] == moved["heads copied backward"] == copies

    def test_copies_that_are_made_again_are_not_kept(self) -> None:
        read, copied = (
            self.job(heads, **{"strategy.recompute_modules": "heads"}).footprint for heads in ("read", "copied")
        )
        kept = self.job("copied").footprint

        def largest(footprint: Footprint) -> float:
            return float(np.max(footprint.activations))

        assert largest(copied) == pytest.approx(largest(read), rel=1e-12)
        assert largest(kept) - largest(copied) == 32 * 2 * 4096 * (32 - 8) * 128 * 2

    def test_a_model_without_groups_has_none(self) -> None:
        times = {
            api.predict("llama-2-7b", "dgx-h100", devices=8, zero=3, sets={"strategy.shared_heads": heads}).step_time
            for heads in ("read", "copied")
        }
        assert len(times) == 1


class TestUlyssesInsideARing:
    def test_needs_its_degree(self) -> None:
        with pytest.raises(InputError, match="ulysses-ring needs ulysses_degree"):
            api.predict("llama-3.1-8b", "dgx-h100", cp=8, sets={"strategy.context": "ulysses-ring"})

    @pytest.mark.parametrize("ranks", [4, 8])
    @pytest.mark.parametrize("backward", [False, True])
    def test_sends_what_its_parts_do(self, ranks: int, *, backward: bool) -> None:
        """Of heads of keys a pair has half each: (u - 1)/u of 2 (h + k) s/p d inside, then 2 k/u d s u/p in each step of the ring."""
        inside, outside = 2, ranks // 2
        exchanged = 2 * (32 + 8) * 4096 / ranks * 128 * 2.0 * (inside - 1) / inside
        block = 2 * 8 / inside * 128 * 4096 / outside * 2.0
        steps = 2 * (outside - 1) + 1 if backward else outside - 1
        assert sent("ulysses-ring", ranks, backward=backward) == pytest.approx(exchanged + steps * block)

    @pytest.mark.parametrize(("inside", "same"), [(1, "ring"), (8, "ulysses")])
    def test_ends_in_its_parts(self, inside: int, same: str) -> None:
        """One rank inside is a ring, all of them Ulysses."""
        both = predicted("ulysses-ring", ulysses_degree=inside)
        assert both.step_time == pytest.approx(predicted(same).step_time, rel=1e-12)

    def test_keeps_the_slow_network_out_of_the_exchange_of_heads(self) -> None:
        """Two hosts: Ulysses inside them and a ring of two between expose less than either alone."""
        exposed = {
            name: predicted(
                name, cp=16, batch=1, seq=131072, ulysses_degree=8 if name == "ulysses-ring" else None
            ).kinds["context parallel"][1]
            for name in ("ring", "ulysses", "ulysses-ring")
        }
        assert exposed["ulysses-ring"] < min(exposed["ring"], exposed["ulysses"])


@every_form
def test_columns_equal_numbers(name: Context) -> None:
    ranks = np.array([1, 2, 8])
    wide = shard(attention(), form(name), ranks=ranks)
    made = messages(wide, form(name), Group(ranks, 1), backward=True)
    for index, one in enumerate(ranks.tolist()):
        alone = shard(attention(), form(name), ranks=one)
        for column, number in zip(made, messages(alone, form(name), Group(one, 1), backward=True), strict=True):
            assert np.broadcast_to(column.size, 3)[index] == number.size


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ring", {"cp": 8, "seq": 4104}, "a balanced ring has two pieces of a sequence on each rank, and 16 do not divide 4104 tokens"),
        ("ring", {"attention": "unfused"}, "a ring joins blocks of fused attention; take attention flash, or context all-gather"),
        ("ulysses", {"cp": 64, "seq": 4096, "batch": 1}, "tp x cp = 64 does not divide the 32 heads that ulysses spreads; take context ring"),
        ("ulysses-ring", {"ulysses_degree": 3}, "3 does not divide cp 8; nearest that do: 2 and 4"),
        ("ulysses-ring", {"cp": 64, "ulysses_degree": 64, "batch": 1}, "tp x ulysses_degree = 64 does not divide the 32 heads that ulysses spreads; take a smaller one"),
        ("ulysses-ring", {"seq": 4104}, "a balanced ring has two pieces of a sequence on each rank, and 16 do not divide 4104 tokens"),
        ("ring", {"ulysses_degree": 4}, "ring has no such degree; take context ulysses-ring, or leave ulysses_degree out"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        predicted(name, **settings)


def test_the_planner_chooses_a_form_where_sequences_are_cut() -> None:
    """Without context parallelism all forms come to the same, and are searched once."""
    job: dict[str, Any] = {"devices": 16, "batch": 16, "seq": 8192, "strategy": "fsdp", "top": 1}
    counts = [
        api.plan("llama-3.1-8b", "dgx-h100", **job, fix={"cp": cp, "context": forms}).evaluated
        for cp in (1, 2)
        for forms in ("all-gather", ["all-gather", "ring", "ulysses"])
    ]
    assert counts[0] == counts[1]
    assert counts[3] == 3 * counts[2]
