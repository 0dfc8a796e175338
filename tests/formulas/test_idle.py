"""Idle times of each stage against a 1F1B pipeline that is played pass by pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.idle import bubble_share, drain_wait, fill_wait, first_backward_wait, steady_wait
from perfmodel.formulas.pipeline import one_f_one_b_bubble


def played(stages: int, microbatches: int, forward: float, backward: float) -> list[list[tuple[float, float, bool]]]:
    """Start, end and direction of each pass of each stage."""
    orders = []
    for stage in range(stages):
        fill = min(stages - stage, microbatches)
        passes = [(False, k) for k in range(fill)]
        for k in range(microbatches):
            passes.append((True, k))
            if fill + k < microbatches:
                passes.append((False, fill + k))
        orders.append(passes)
    ends: dict[tuple[int, bool, int], float] = {}
    done: list[list[tuple[float, float, bool]]] = [[] for _ in range(stages)]
    while any(orders):
        for stage, passes in enumerate(orders):
            while passes:
                back, k = passes[0]
                last = stage == stages - 1
                needs = (stage, False, k) if back and last else (stage + 1, True, k) if back else (stage - 1, False, k)
                if needs[0] >= 0 and needs not in ends:
                    break
                passes.pop(0)
                free = done[stage][-1][1] if done[stage] else 0.0
                start = max(free, ends.get(needs, 0.0))
                end = start + (backward if back else forward)
                ends[stage, back, k] = end
                done[stage].append((start, end, back))
    return done


@given(stages=st.integers(1, 7), microbatches=st.integers(1, 12), forward=st.floats(0.1, 5), backward=st.floats(0.1, 5))
def test_each_kind_of_each_stage(stages: int, microbatches: int, forward: float, backward: float) -> None:
    done = played(stages, microbatches, forward, backward)
    end = max(passes[-1][1] for passes in done)
    for stage, passes in enumerate(done):
        behind = stages - 1 - stage
        first = next(i for i, (_, _, back) in enumerate(passes) if back)
        gap = passes[first][0] - passes[first - 1][1]
        idle = end - sum(stop - start for start, stop, _ in passes)
        assert fill_wait(stage=stage, forward=forward) == pytest.approx(passes[0][0])
        assert drain_wait(stage=stage, backward=backward) == pytest.approx(end - passes[-1][1], abs=1e-9)
        waits = first_backward_wait(behind=behind, microbatches=microbatches, forward=forward, backward=backward)
        between = steady_wait(behind=behind, microbatches=microbatches, forward=forward)
        assert waits == pytest.approx(gap, abs=1e-9)
        assert between == pytest.approx(idle - gap - passes[0][0] - (end - passes[-1][1]), abs=1e-8)
        whole = one_f_one_b_bubble(microbatch=forward + backward, stages=stages, chunks=1)
        assert idle == pytest.approx(whole, abs=1e-8)


@pytest.mark.parametrize(("stages", "microbatches", "share"), [(4, 4, 0.429), (2, 4, 0.2), (2, 8, 0.111), (1, 7, 0.0)])
def test_share_of_the_step(stages: int, microbatches: int, share: float) -> None:
    """FreeRide's settings; its abstract says more than 40 %."""
    assert bubble_share(stages=stages, microbatches=microbatches, chunks=1) == pytest.approx(share, abs=5e-4)
