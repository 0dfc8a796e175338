"""The simulation against bubble rates that others computed: Qi et al., Zero bubble pipeline parallelism, arXiv:2401.10241.

Table 9 gives the times of passes and sends that they profiled, Table 5 the share of the longest stage's time that is no
pass, by their own calculation; sends delay the receiver alone.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.simulate import Times


class Row(NamedTuple):
    """Milliseconds of one microbatch through a stage, and the rates."""

    stages: int
    microbatches: int
    forward: float
    backward: float
    weight: float
    send: float
    chunks: int
    """Of the interleaved schedule: every layer one."""
    plain: float
    interleaved: float
    h1: float
    h2: float


ROWS = [
    Row(8, 24, 18.522, 18.086, 9.337, 0.601, 3, 0.2431, 0.1055, 0.1585, 0.1083),
    Row(8, 32, 18.513, 18.086, 9.331, 0.626, 3, 0.1985, 0.0818, 0.1242, 0.0837),
    Row(8, 64, 18.546, 18.097, 9.321, 0.762, 3, 0.1240, 0.0443, 0.0674, 0.0444),
    Row(8, 24, 29.718, 29.444, 19.927, 0.527, 4, 0.2347, 0.0808, 0.1323, 0.0698),
    Row(8, 32, 29.802, 29.428, 19.530, 0.577, 4, 0.1898, 0.0628, 0.1045, 0.0559),
    Row(8, 64, 29.935, 29.621, 19.388, 0.535, 4, 0.1091, 0.0320, 0.0554, 0.0294),
    Row(16, 48, 11.347, 11.248, 8.132, 0.377, 3, 0.2552, 0.1104, 0.1397, 0.0672),
    Row(16, 64, 11.307, 11.254, 8.101, 0.379, 3, 0.2082, 0.0852, 0.1088, 0.0516),
    Row(16, 128, 11.325, 11.308, 8.109, 0.378, 3, 0.1251, 0.0445, 0.0576, 0.0266),
    Row(32, 96, 10.419, 10.207, 7.715, 0.408, 2, 0.2646, 0.1493, 0.1421, 0.0641),
    Row(32, 128, 10.408, 10.204, 7.703, 0.408, 2, 0.2168, 0.1164, 0.1106, 0.0490),
    Row(32, 256, 10.402, 10.248, 7.698, 0.460, 2, 0.1352, 0.0624, 0.0594, 0.0257),
]
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.stages}x{row.microbatches}")
ROUNDED = 0.6e-4
"""Half of the last digit that is printed, and what rounded times leave."""


def rate(row: Row, schedule: str, chunks: int = 1) -> float:
    """(cost - m (T_F + T_B + T_W)) / cost, cost the longest time of a stage."""

    def each(time: float) -> list[float]:
        return [time / chunks] * row.stages * chunks

    times = Times(each(row.forward), each(row.backward), each(row.weight), row.send, blocking=False)
    cost = max(SCHEDULES[schedule].play(row.stages, chunks, row.microbatches, times).spans)  # type: ignore[index]
    return 1 - row.microbatches * (row.forward + row.backward + row.weight) / cost


@every_row
def test_1f1b_and_both_zero_bubble_schedules_to_the_last_digit(row: Row) -> None:
    assert rate(row, "1f1b") == pytest.approx(row.plain, abs=ROUNDED)
    assert rate(row, "zero-bubble-h1") == pytest.approx(row.h1, abs=ROUNDED)
    assert rate(row, "zero-bubble-h2") == pytest.approx(row.h2, abs=ROUNDED)


@every_row
def test_interleaved_is_near(row: Row) -> None:
    """Theirs waits a little less for sends than Megatron-LM's order here does."""
    ours = rate(row, "1f1b", row.chunks)
    assert row.interleaved < ours < row.interleaved + 0.004
