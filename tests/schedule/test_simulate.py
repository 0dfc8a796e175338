"""The simulation itself: by hand, with unequal stages, with sends, and where an order cannot run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.passes import arranged, backward_pass, forward_pass, whole_backward
from perfmodel.schedule.simulate import Times, gaps, simulate

TIME = st.floats(0.1, 10.0)


def test_two_stages_by_hand() -> None:
    """One microbatch: forward 1 and 2, backward 4 and 3 (of which weights 1 each), a send of 0.5 between."""
    made = simulate(
        arranged([[forward_pass(0, 0), whole_backward(0, 0)], [forward_pass(0, 1), whole_backward(0, 1)]]),
        Times([1.0, 2.0], [3.0, 2.0], [1.0, 1.0], send=0.5),
    )
    assert [(p.start, p.end, p.sent) for p in made.devices[0]] == [(0.0, 1.0, 1.5), (7.0, 11.0, 11.0)]
    assert [(p.start, p.end, p.sent) for p in made.devices[1]] == [(1.5, 3.5, 3.5), (3.5, 6.5, 7.0)]
    assert made.end == 11
    assert made.idle(0) == pytest.approx(5.5)
    assert list(gaps(made, 0)) == [(1.5, 7.0)]
    assert list(made.in_flight(0)) == [(0.0, 1), (11.0, 0)]


def test_a_slow_stage_sets_the_pace() -> None:
    """Far from the ends of the step every stage keeps the time of the slowest."""
    slow = [1.0, 1.0, 1.7, 1.0]
    times = Times(slow, slow, slow)
    many, few = (SCHEDULES["1f1b"].play(4, 1, m, times).end for m in (60, 40))
    assert many - few == pytest.approx(20 * 3 * 1.7)


@given(times=st.lists(TIME, min_size=5, max_size=5), send=st.floats(0, 2))
def test_a_step_lasts_as_long_as_its_busiest_stage_at_least(times: list[float], send: float) -> None:
    for schedule in (SCHEDULES["1f1b"], SCHEDULES["gpipe"], SCHEDULES["zero-bubble-h1"]):
        made = schedule.play(5, 1, 8, Times(times, times, times, send))
        assert made.end >= 8 * 3 * max(times) - 1e-9
        assert all(made.idle(device) >= -1e-9 for device in range(5))


@given(send=st.floats(0, 3), microbatches=st.integers(4, 12))
def test_sends_that_nobody_waits_for_are_no_slower(send: float, microbatches: int) -> None:
    ones = [1.0] * 4
    blocking, free = (
        SCHEDULES["1f1b"].play(4, 1, microbatches, Times(ones, ones, ones, send, blocking=wait)).end
        for wait in (True, False)
    )
    assert free <= blocking + 1e-9


def test_asynchronous_sends_by_hand() -> None:
    """The sender goes on, the receiver waits."""
    made = simulate(
        arranged([[forward_pass(0, 0), forward_pass(1, 0)], [forward_pass(0, 1), forward_pass(1, 1)]]),
        Times([1.0, 1.0], [], [], send=0.5, blocking=False),
    )
    assert [p.start for p in made.devices[0]] == [0, 1]
    assert [p.start for p in made.devices[1]] == [1.5, 2.5]


def test_passes_that_wait_for_one_another_are_refused() -> None:
    with pytest.raises(ValueError, match="device 0 waits for ever"):
        simulate(arranged([[backward_pass(0, 0), forward_pass(0, 0)]]), Times([1.0], [1.0], [1.0]))
    with pytest.raises(ValueError, match="device 1 waits for ever"):
        simulate(arranged([[forward_pass(0, 0)], [forward_pass(1, 1)]]), Times([1.0] * 2, [1.0] * 2, [1.0] * 2))


@pytest.mark.parametrize(("stages", "chunks", "microbatches"), [(3, 1, 8), (4, 1, 9), (4, 1, 6), (4, 2, 8)])
def test_dual_pipe_refuses_what_it_cannot_order(stages: int, chunks: int, microbatches: int) -> None:
    with pytest.raises(ValueError, match="DualPipe needs"):
        SCHEDULES["dual-pipe"].order(stages, chunks, microbatches)


def test_a_v_has_two_chunks() -> None:
    with pytest.raises(ValueError, match="two chunks"):
        SCHEDULES["zero-bubble-v"].order(4, 1, 8)
