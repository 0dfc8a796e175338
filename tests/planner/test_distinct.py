"""Kernels that are priced once for rows that are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfmodel.cost.compute import Processor
from perfmodel.graph.kernels import Gemm
from perfmodel.library import find
from perfmodel.planner.distinct import Distinct, DistinctProcessor, priced
from perfmodel.timeline import Term, duration

if TYPE_CHECKING:
    from perfmodel.timeline import Part

TP = np.array([1, 2, 1, 2, 4, 1])
PP = np.array([1, 1, 2, 2, 1, 4])


def product(rows: Any) -> Gemm:
    return Gemm("product", rows=rows, columns=4096, depth=1024, element=2)


def test_classes_are_rows_that_are_alike() -> None:
    made = Distinct.in_columns((TP,))
    assert made.first.tolist() == [0, 1, 4]
    assert made.place.tolist() == [0, 1, 0, 1, 2, 0]


@pytest.mark.parametrize("rows", [4096 / TP, 4096 / (TP * PP), 4096], ids=["decided", "undecided", "a number"])
def test_times_are_those_of_every_row(rows: Any) -> None:
    device = find("hardware", "dgx-a100-80gb").device
    once = DistinctProcessor(device, "bf16", classes=(Distinct.in_columns((TP,)),)).time(product(rows))
    each = Processor(device, "bf16").time(product(rows))
    np.testing.assert_array_equal(duration(once), duration(each))


def test_the_formula_sees_one_row_of_each_class() -> None:
    seen = []

    def price(kernel: Gemm) -> Part:
        seen.append(np.asarray(kernel.rows).tolist())
        return Term("product", float, {}, np.asarray(kernel.rows, dtype=float))

    coarse, fine = Distinct.in_columns((TP,)), Distinct.in_columns((TP, PP))
    priced(product(8 / TP), price, (coarse, fine))
    priced(product(TP + PP), price, (coarse, fine))
    assert seen == [[8.0, 4.0, 2.0], (TP + PP)[fine.first].tolist()]
