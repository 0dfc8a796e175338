"""Embedding tables: what ranks hold, look up and send, against ids that are dealt out one by one."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.formulas.embedding import distinct_rows, popular_share
from perfmodel.graph.tables import SECTOR, Pairs, Tables
from perfmodel.library import find
from perfmodel.parallel.layout import Layout
from perfmodel.parallel.messages import ELSEWHERE
from perfmodel.parallel.tables import TableGroups, messages, packed, shard
from perfmodel.prediction import Prediction, predict
from perfmodel.specs import Strategy
from perfmodel.specs.recommender import Shape
from perfmodel.specs.tables import TableSharding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfmodel.specs import Workload

BATCH = 64
RANKS = 8
LARGE = tuple(Shape(10**7, 32, lookups, 0.0) for lookups in (1, 4, 2, 1, 1, 3, 1, 1))
WAYS = ("table", "row", "column", "table-row", "replicated")


def layout(dp: int = RANKS, host: int = 0) -> Layout:
    return Layout(tp=1, pp=1, vpp=1, cp=1, dp=dp, microbatch=BATCH, batch=dp * BATCH, shard_group=dp, host=host)


def held(by: str, *, shapes: tuple[Shape, ...] = LARGE, host: int = 4, **fields: Any) -> Tables:
    op = Tables("tables", BATCH, shapes, 4.0, 4.0, under="bottom network")
    found = shard(op, layout(host=host), TableSharding.model_validate({"by": by, **fields}))
    assert isinstance(found, Tables)
    return found


def job(workload: str | Workload = "dlrm-criteo-t15", devices: int = 8, **fields: Any) -> Prediction:
    model = find("workloads", workload) if isinstance(workload, str) else workload
    strategy = Strategy.model_validate({"devices": devices, "microbatch": 65536 // devices, **fields})
    return predict(model, find("hardware", "dgx-a100-80gb"), strategy)


def drawn(skew: float, rows: int, count: int, seed: int = 0) -> NDArray[np.int64]:
    weights = np.arange(1, rows + 1) ** -skew
    return np.random.default_rng(seed).choice(rows, size=count, p=weights / weights.sum())


@pytest.mark.parametrize(("skew", "rows", "lookups"), list(product((0.0, 0.7, 1.2), (50, 5000), (100, 20_000))))
def test_rows_that_occur(skew: float, rows: int, lookups: int) -> None:
    seen = np.mean([len(np.unique(drawn(skew, rows, lookups, seed))) for seed in range(20)])
    assert distinct_rows(table=rows, lookups=lookups, skew=skew) == pytest.approx(seen, rel=0.08)


@pytest.mark.parametrize(("skew", "kept"), list(product((0.0, 0.5, 1.0, 1.3), (1000, 50_000, 100_000))))
def test_lookups_that_hit_the_popular_rows(skew: float, kept: int) -> None:
    weights = np.arange(1, 100_001) ** -skew
    share = weights[:kept].sum() / weights.sum()
    assert popular_share(table=100_000, kept=kept, skew=skew) == pytest.approx(share, rel=0.06)


@pytest.mark.parametrize(("seed", "ranks"), list(product(range(4), (2, 3))))
def test_packing_is_within_a_third_of_the_best(seed: int, ranks: int) -> None:
    """Graham's bound for the longest first, against all ways to deal tables out."""
    work = np.random.default_rng(seed).integers(1, 50, size=7)
    shapes = tuple(Shape(1000, 1, int(one), 0.0) for one in work)
    best = min(np.bincount(deal, work, ranks).max() for deal in product(range(ranks), repeat=len(work)))
    load = float(packed(shapes, ranks).load) * work.sum() / ranks
    assert best - 1e-9 <= load <= best * (4 / 3 - 1 / (3 * ranks)) + 1e-9


def test_packing_of_columns_is_that_of_each_number() -> None:
    ranks = np.array([[1, 8], [3, 8]])
    found = packed(LARGE, ranks)
    assert np.asarray(found.load).tolist() == [[float(packed(LARGE, int(one)).load) for one in row] for row in ranks]


def test_the_fullest_rank_does_what_ids_dealt_out_give_it() -> None:
    """Whole tables: the rank with most lookups of vectors; each lookup is a row of four sectors."""
    op = held("table")
    wanted = max(BATCH * RANKS * shape.lookups for shape in LARGE)  # as many ranks as tables
    read = wanted * 32 * 4
    made = BATCH * op.vectors * 4 * op.load
    (lookup,) = op.forward()
    assert lookup.traffic == pytest.approx(read + made, rel=0.001)  # of 10 million rows hardly any occurs twice


@pytest.mark.parametrize("by", WAYS)
def test_ranks_hold_the_tables_between_them(by: str) -> None:
    op = held(by)
    copies = RANKS if by == "replicated" else 1
    assert op.weights / op.fullness * RANKS == pytest.approx(copies * op.parameters * 4)
    if by not in {"table", "table-row"}:
        assert op.fullness == 1


@pytest.mark.parametrize("by", ["table", "row", "replicated"])
def test_ranks_look_up_each_id_once(by: str) -> None:
    op = held(by)
    rows = (op.forward()[0].traffic - BATCH * op.vectors * 4 * op.partial * op.load) / (32 * 4) / op.load
    assert rows * RANKS == pytest.approx(BATCH * RANKS * op.lookups, rel=0.001)


def test_narrow_columns_fill_sectors_in_part() -> None:
    """Of 32 numbers on 8 ranks each has 16 bytes of every row, for which memory moves 32."""
    whole, columns = held("row"), held("column")
    vectors = BATCH * whole.vectors * 4
    read = whole.forward()[0].traffic - RANKS * vectors
    assert columns.forward()[0].traffic - vectors == pytest.approx(read * RANKS * SECTOR / 128, rel=0.001)


def test_a_row_that_occurs_twice_is_read_once() -> None:
    one = (Shape(10, 32, 1, 0.0),)
    assert held("replicated", shapes=one).forward()[0].traffic == pytest.approx(10 * 128 + BATCH * 128, rel=0.01)


def test_an_update_reads_and_writes_what_it_keeps_for_each_row() -> None:
    plain, kept = (Tables("t", BATCH, LARGE, 4.0, 4.0, states) for states in ((0, 0), (0, 1)))
    more = kept.backward()[1].traffic - plain.backward()[1].traffic
    assert more == pytest.approx(2 * SECTOR * BATCH * plain.lookups, rel=0.001)
    assert kept.moments == 4 * sum(shape.rows for shape in LARGE)


class TestMessages:
    def of(self, by: str, *, backward: bool = False, host: int = 4, **fields: Any) -> list[Any]:
        sharding = TableSharding.model_validate({"by": by, **fields})
        op = held(by, host=host, **fields)
        return list(messages(op, layout(host=host), sharding, backward=backward))

    def test_whole_tables_send_a_vector_for_each_sample(self) -> None:
        ids, vectors = self.of("table")
        assert (ids.collective, ids.under) == ("all-to-all", ELSEWHERE)
        assert ids.size == 8 * BATCH * sum(shape.lookups for shape in LARGE)
        assert (vectors.collective, vectors.under) == ("all-to-all", "bottom network")
        assert vectors.size == BATCH * len(LARGE) * 32 * 4

    def test_rows_add_up_parts_of_all_samples(self) -> None:
        _, vectors = self.of("row")
        (gradients,) = self.of("row", backward=True)
        assert (vectors.collective, gradients.collective) == ("reduce-scatter", "all-gather")
        assert vectors.size == gradients.size == RANKS * BATCH * len(LARGE) * 32 * 4

    def test_hosts_add_up_near_and_deal_out_far(self) -> None:
        _, near, far = self.of("table-row")
        assert (near.collective, near.group.size, near.group.stride) == ("reduce-scatter", 4, 1)
        assert (far.collective, far.group.size, far.group.stride) == ("all-to-all", 2, 4)
        again = self.of("table-row", backward=True)
        assert [m.collective for m in again] == ["all-to-all", "all-gather"]

    def test_groups_stride_over_their_copies(self) -> None:
        groups = TableGroups(layout(), TableSharding.model_validate("table/2"))
        assert (groups.exchange.size, groups.exchange.stride) == (2, 4)
        assert (groups.copies.size, groups.copies.stride) == (4, 1)

    def test_without_overlap_nothing_hides(self) -> None:
        assert {m.under for m in self.of("table", overlap="none")} == {""}


class TestPrediction:
    def test_counts_of_the_source(self) -> None:
        """doc/DLRM.md: 4.2 billion parameters, of which tables take 15.6 GiB."""
        made = job(devices=1, microbatch=65536)
        assert made.graph.parameters == pytest.approx(4.2e9, rel=0.01)
        assert sum(op.weights for op in made.share.tables) / 2**30 == pytest.approx(15.6, abs=0.05)

    def test_a_network_for_numbers_hides_vectors(self) -> None:
        hidden, plain = job(), job(tables={"overlap": "none"})
        assert hidden.step_time < plain.step_time
        total = [sum(t for term, t, _ in made.terms if term.kind == "table parallel") for made in (hidden, plain)]
        assert total[0] == pytest.approx(total[1])

    def test_a_period_thins_out_the_copies(self) -> None:
        each, tenth = (job(devices=16, tables={"group": 8, "period": period}) for period in (1, 10))
        whole, part = (
            next(t for term, t, _ in made.terms if term.name == "table all-reduce") for made in (each, tenth)
        )
        assert part == pytest.approx(whole / 10)

    def test_groups_hold_more_each(self) -> None:
        all_ranks, half = job(devices=16, tables="row"), job(devices=16, tables="row/8")
        assert half.share.tables[0].weights == pytest.approx(2 * all_ranks.share.tables[0].weights)
        assert half.memory_peak > all_ranks.memory_peak

    @pytest.mark.parametrize(("hit_rate", "like"), [(1.0, "device"), (0.0, "host")])
    def test_a_cache_lies_between_device_and_host(self, hit_rate: float, like: str) -> None:
        cached = job(tables={"memory": "cache", "hit_rate": hit_rate})
        assert cached.step_time == pytest.approx(job(tables={"memory": like}).step_time)

    def test_popular_rows_are_in_the_cache(self) -> None:
        """At a skew of 1.45 a hundredth of the rows serves nearly all lookups."""
        device, cached, host = (job(tables={"memory": memory}) for memory in ("device", "cache", "host"))
        assert device.step_time < cached.step_time < (device.step_time + host.step_time) / 2
        assert cached.memory_peak < device.memory_peak / 2
        assert cached.kept_off["host"]["tables"] == pytest.approx(8 * cached.share.tables[0].weights)
        assert device.kept_off["host"] == {}

    def test_slices_make_the_fullest_rank_emptier(self) -> None:
        whole, cut = (job(tables={"slice": size}) for size in (None, "500 MB"))
        assert cut.share.tables[0].fullness < whole.share.tables[0].fullness
        assert cut.share.tables[0].parameters == whole.share.tables[0].parameters

    def test_what_is_left_out_of_the_bottom_waits(self) -> None:
        """Without a network for numbers nothing runs beside the vectors, which must not vanish for that."""
        model = find("workloads", "dlrm-criteo-t15")
        bare = model.model_copy(update={"model": model.model.model_copy(update={"bottom": (), "interaction": "cat"})})
        made = job(bare)
        shown = {term.name: (time, exposed) for term, time, exposed in made.terms}
        time, exposed = shown["table all-to-all"]
        assert exposed == pytest.approx(time)

    def test_losses_add_up_and_name_the_vectors(self) -> None:
        made = job()
        assert sum(made.losses.values()) == pytest.approx(made.step_time)
        assert made.losses["exposed table parallel"] > 0

    def test_pairs_come_once_each(self) -> None:
        assert Pairs("pairs", 1, 27, 128, 4.0).outputs == 27 * 26 // 2 + 128

    def test_every_rule_at_once(self) -> None:
        with pytest.raises(InputError) as caught:
            job(tables="row/3", sync="peer-to-peer")
        told = str(caught.value)
        assert "3 does not divide 8 replicas; nearest that do: 2 and 4" in told
        assert "tables are spread by row; take all-reduce" in told

    def test_models_without_tables_spread_none(self) -> None:
        with pytest.raises(InputError, match="has no embedding tables to spread; leave it out"):
            predict(
                find("workloads", "gpt2-124m"),
                find("hardware", "dgx-a100-80gb"),
                Strategy.model_validate({"tables": "row"}),
            )
