"""What software does with embedding tables: copies small ones, cuts hot ones, updates rows in several kernels, waits to send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.embedding import frequent_rows, popular_share
from perfmodel.graph.tables import Tables
from perfmodel.library import find
from perfmodel.parallel.layout import Layout
from perfmodel.parallel.tables import messages, packed, shard
from perfmodel.prediction import Prediction, predict
from perfmodel.specs import Strategy
from perfmodel.specs.recommender import Shape
from perfmodel.specs.tables import TableSharding

BATCH = 64
LAYOUT = Layout(tp=1, pp=1, vpp=1, cp=1, dp=8, microbatch=BATCH, batch=8 * BATCH, shard_group=8, host=8)
SMALL = Shape(100, 32, 1, 0.0)
LARGE = Shape(10**7, 32, 1, 0.0)
HOT = Shape(10**7, 32, 20, 0.0)
SHAPES = (HOT, *(LARGE,) * 10, *(SMALL,) * 5)


def held(element: float = 4.0, shapes: tuple[Shape, ...] = SHAPES, **fields: Any) -> Tables:
    op = Tables("tables", BATCH, shapes, element, 4.0, under="bottom network")
    found = shard(op, LAYOUT, TableSharding.model_validate(fields))
    assert isinstance(found, Tables)
    return found


def read(op: Tables) -> Any:
    """Bytes of the lookup."""
    lookup: Any = op.forward()[0]
    return lookup.traffic


def sent(*, backward: bool = False, shapes: tuple[Shape, ...] = SHAPES, **fields: Any) -> dict[str, Any]:
    found = messages(held(shapes=shapes, **fields), LAYOUT, TableSharding.model_validate(fields), backward=backward)
    return {message.name: message for message in found}


def job(devices: int = 8, **fields: Any) -> Prediction:
    strategy = Strategy.model_validate({"devices": devices, "microbatch": 8192, "sources": {"ddp": "x"}, **fields})
    return predict(find("workloads", "dlrm-criteo-t15"), find("hardware", "dgx-a100-80gb"), strategy)


class TestEven:
    @given(
        lookups=st.lists(st.integers(1, 100), min_size=1, max_size=30),
        ranks=st.integers(1, 40),
    )
    def test_no_rank_has_more_than_twice_the_mean(self, lookups: list[int], ranks: int) -> None:
        """No piece is more than the mean, and the longest first never puts one on a rank that has the mean already."""
        shapes = tuple(Shape(1000, 8, one, 0.0) for one in lookups)
        whole, cut = packed(shapes, ranks), packed(shapes, ranks, even=True)
        assert float(cut.load) <= min(2.0, float(whole.load)) + 1e-9
        assert 1 <= float(cut.parts) <= ranks

    def test_each_piece_sends_a_vector_of_its_own(self) -> None:
        """Of 35 lookups on 8 ranks the mean is 4.4; 20 of one table make five pieces."""
        plain, cut = sent(), sent(even=True)
        extra = cut["table all-to-all"].size / plain["table all-to-all"].size
        assert extra == pytest.approx((len(SHAPES) + 4) / len(SHAPES))
        assert cut["table all-to-all"].imbalance < plain["table all-to-all"].imbalance / 3

    def test_lookups_stay_those_of_the_samples(self) -> None:
        plain, cut = held(), held(even=True)
        rows = [(read(op) / op.load - BATCH * op.vectors * 4 * op.parts) for op in (plain, cut)]
        assert rows[0] == pytest.approx(rows[1])

    def test_columns_of_ranks_are_those_of_each(self) -> None:
        ranks = np.array([2, 8, 16])
        assert np.asarray(packed(SHAPES, ranks, even=True).parts).tolist() == [
            float(packed(SHAPES, int(one), even=True).parts) for one in ranks
        ]


class TestCopied:
    def test_small_tables_send_no_vectors_but_gradients(self) -> None:
        plain, some = sent(), sent(copied="100 kB")
        assert some["table all-to-all"].size == plain["table all-to-all"].size * 11 / 16
        gradients = sent(backward=True, copied="100 kB")["table copies all-reduce"]
        assert (gradients.collective, gradients.group.size) == ("all-reduce", 8)
        assert gradients.size == 5 * 100 * 32 * 4
        assert "table copies all-reduce" not in sent(backward=True)

    def test_every_rank_has_them(self) -> None:
        plain, some = held(), held(copied="100 kB")
        copies = 5 * 100 * 32 * 4
        spread = plain.parameters * 4 - copies
        assert some.weights == pytest.approx(spread / 8 * some.fullness + copies)
        assert some.parameters == plain.parameters

    def test_their_rows_are_looked_up_for_the_batch_of_the_rank(self) -> None:
        alone = read(held(shapes=(LARGE,), by="row"))
        both = read(held(shapes=(LARGE, SMALL), by="row", copied="100 kB"))
        occurring = 100 * (1 - (1 - 1 / 100) ** BATCH)
        assert both - alone == pytest.approx(occurring * 128 + BATCH * 128, rel=0.01)

    def test_if_all_are_small_none_is_copied(self) -> None:
        assert held(shapes=(SMALL,) * 3, copied="1 MB") == held(shapes=(SMALL,) * 3)


class TestHybrid:
    SKEWED = (Shape(10**6, 32, 1, 1.2), Shape(100, 32, 1, 0.0), Shape(50, 32, 1, 0.0))

    def test_rows_are_frequent_that_a_batch_wants_once(self) -> None:
        """Against ids that are dealt out one by one."""
        table, lookups, skew = 10_000, 5_000, 1.1
        weights = np.arange(1, table + 1) ** -skew
        wanted = lookups * weights / weights.sum()
        found = float(frequent_rows(table=table, lookups=lookups, skew=skew))
        assert found == pytest.approx(np.sum(wanted >= 1), rel=0.1)

    def test_without_skew_all_or_none_are(self) -> None:
        rows = [float(frequent_rows(table=100.0, lookups=one, skew=0.0)) for one in (99.0, 101.0)]
        assert rows == [0.0, pytest.approx(100)]

    def test_only_rare_rows_travel(self) -> None:
        """Of 64 samples of a rank all want the table of 50 rows, none that of 100 often enough."""
        op = held(shapes=self.SKEWED, by="hybrid")
        kept = frequent_rows(table=1e6, lookups=BATCH, skew=1.2)
        rare = 1 - popular_share(table=1e6, kept=kept, skew=1.2)
        assert op.travelling == pytest.approx(32 * (rare + 1))
        found = sent(shapes=self.SKEWED, by="hybrid")
        assert found["table all-to-all"].size == pytest.approx(BATCH * op.travelling * 4)

    def test_gradients_of_the_others_are_reduced(self) -> None:
        op = held(shapes=self.SKEWED, by="hybrid")
        message = sent(backward=True, shapes=self.SKEWED, by="hybrid")["table copies all-reduce"]
        assert message.size == pytest.approx(op.popular_numbers * 4)
        assert op.weights == pytest.approx(op.parameters * 4 / 8 + op.popular_numbers * 4)

    def test_no_rank_has_more_than_others(self) -> None:
        assert (held(by="hybrid").load, held(by="hybrid").fullness) == (1.0, 1.0)


class TestSparse:
    @pytest.mark.parametrize(("element", "passes"), [(4.0, 1), (2.0, 2)])
    def test_gradients_of_lookups_are_written_and_scaled(self, element: float, passes: int) -> None:
        op = held(element, update="sparse")
        numbers = BATCH * 35 * 32 * op.load
        kernels: dict[str, Any] = {kernel.name: kernel for kernel in op.backward()}
        assert kernels["tables gradients"].traffic == pytest.approx(numbers * (element + 4))
        scaled = [kernel.traffic for name, kernel in kernels.items() if "scale" in name]
        assert scaled == [pytest.approx(2 * 4 * numbers)] * passes
        assert kernels["tables update"].elements == pytest.approx(numbers)

    def test_rows_beyond_the_link_are_changed_there(self) -> None:
        near, far = held(update="sparse"), held(update="sparse", memory="host")
        assert [kernel.name for kernel in far.backward()] == [
            *(kernel.name for kernel in near.backward()), "tables update beyond the link",
        ]  # fmt: skip
        first: Any = far.forward()[0]
        last: Any = far.backward()[-1]
        assert last.missed == 2 * first.missed

    def test_it_takes_longer_than_one_kernel(self) -> None:
        fused, sparse = (job(1, tables={"update": update}) for update in ("fused", "sparse"))
        assert sparse.step_time > fused.step_time
        assert sparse.memory_peak == fused.memory_peak


class TestCycle:
    def framework(self, cycle: str | None) -> dict[str, Any]:
        return {"framework": {"name": "x", "source": "ddp", "status": "assumed", "cycle": cycle}}

    def test_each_message_waits_half_of_it(self) -> None:
        plain, cycled = (job(**self.framework(cycle), tables={"overlap": "none"}) for cycle in (None, "4 ms"))
        waits = {term.name: time for term, time, _ in cycled.terms if term.name.endswith(" start")}
        assert waits == {
            "table ids start": pytest.approx(2e-3),
            "table all-to-all start": pytest.approx(4e-3),  # vectors, and their gradients
            "gradient all-reduce start": pytest.approx(2e-3),
        }
        assert cycled.step_time >= plain.step_time + 3 * 2e-3 * 0.99  # gradients of networks wait beside the pass

    def test_one_device_waits_for_nobody(self) -> None:
        times = {job(1, **self.framework(cycle)).step_time for cycle in (None, "4 ms")}
        assert len(times) == 1


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"by": "replicated", "copied": "1 MB"}, "tables.copied: replicated tables are all copied"),
        (
            {"by": "column", "even": True},
            "tables.even: cuts tables before they go to ranks; tables by column are even already",
        ),
    ],
)
def test_what_rules_the_others_out_is_told(tables: dict[str, Any], told: str) -> None:
    faults = {f"{fault.path}: {fault.message}" for fault in TableSharding.model_validate(tables).faults()}
    assert any(fault.startswith(told) for fault in faults)
