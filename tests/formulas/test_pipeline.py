"""The bubble and the microbatches in flight against a pipeline that is played pass by pass."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.formulas.in_flight import in_flight_chunk
from perfmodel.formulas.memory import in_flight_1f1b
from perfmodel.formulas.pipeline import one_f_one_b_bubble

STAGES = st.integers(1, 8)
TIMES = st.floats(0.1, 10.0)


@dataclass(frozen=True)
class Pass:
    """Of one microbatch through one chunk of the layers."""

    backward: bool
    microbatch: int
    chunk: int


def order(stage: int, stages: int, chunks: int, microbatches: int) -> list[Pass]:
    """What a stage executes, as Megatron-LM's schedules do: forward to fill, then one forward one backward."""
    total = microbatches * chunks

    def passes(*, backward: bool) -> list[Pass]:
        made = []
        for k in range(total):
            group, within = divmod(k, stages * chunks)
            chunk = within // stages if chunks > 1 else 0
            microbatch = group * stages + within % stages if chunks > 1 else k
            made.append(Pass(backward, microbatch, chunks - 1 - chunk if backward else chunk))
        return made

    fill = stages - stage - 1 if chunks == 1 else 2 * (stages - stage - 1) + (chunks - 1) * stages
    fill = min(fill, total)
    forward, backward = passes(backward=False), passes(backward=True)
    steady = [each for pair in zip(forward[fill:], backward, strict=False) for each in pair]
    return [*forward[:fill], *steady, *backward[total - fill :]]


def play(stages: int, chunks: int, microbatches: int, forward: float, backward: float) -> float:
    """When the last pass ends, if each starts as soon as its stage is free and its input is there."""
    queues = [order(stage, stages, chunks, microbatches) for stage in range(stages)]
    done: dict[tuple[int, Pass], float] = {}
    free = [0.0] * stages
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue and (ready := _ready(done, stage, queue[0], stages, chunks)) is not None:
                each = queue.pop(0)
                free[stage] = max(free[stage], ready) + (backward if each.backward else forward) / chunks
                done[stage, each] = free[stage]
    return max(free)


def _ready(done: dict[tuple[int, Pass], float], stage: int, each: Pass, stages: int, chunks: int) -> float | None:
    step = -1 if each.backward else 1
    position = each.chunk * stages + stage
    ends = (chunks * stages - 1) if each.backward else 0
    if position == ends:
        return done.get((stage, replace(each, backward=False))) if each.backward else 0.0
    chunk, before = divmod(position - step, stages)
    return done.get((before, Pass(each.backward, each.microbatch, chunk)))


def fullest(stage: int, stages: int, chunks: int, microbatches: int) -> float:
    """Most passes whose activations a stage keeps, in microbatches through the whole stage."""
    kept = most = 0
    for each in order(stage, stages, chunks, microbatches):
        kept += -1 if each.backward else 1
        most = max(most, kept)
    return most / chunks


@given(stages=STAGES, more=st.integers(0, 20), forward=TIMES, backward=TIMES)
def test_bubble_of_1f1b(stages: int, more: int, forward: float, backward: float) -> None:
    microbatches = stages + more
    bubble = one_f_one_b_bubble(microbatch=forward + backward, stages=stages, chunks=1)
    played = play(stages, 1, microbatches, forward, backward)
    assert played == pytest.approx(microbatches * (forward + backward) + bubble)


@given(stages=st.integers(2, 6), chunks=st.integers(2, 4), groups=st.integers(1, 4), forward=TIMES)
def test_bubble_of_interleaved_1f1b(stages: int, chunks: int, groups: int, forward: float) -> None:
    microbatches = stages * groups
    bubble = one_f_one_b_bubble(microbatch=3 * forward, stages=stages, chunks=chunks)
    played = play(stages, chunks, microbatches, forward, 2 * forward)
    assert played == pytest.approx(microbatches * 3 * forward + bubble)


@given(stages=STAGES, microbatches=st.integers(1, 20), data=st.data())
def test_in_flight_of_1f1b(stages: int, microbatches: int, data: st.DataObject) -> None:
    stage = data.draw(st.integers(0, stages - 1))
    closed = in_flight_1f1b(stage=stage, stages=stages, chunks=1, microbatches=microbatches)
    assert closed == fullest(stage, stages, 1, microbatches)


@given(stages=st.integers(2, 8), chunks=st.integers(2, 4), groups=st.integers(2, 4), data=st.data())
def test_in_flight_of_interleaved_1f1b(stages: int, chunks: int, groups: int, data: st.DataObject) -> None:
    stage = data.draw(st.integers(0, stages - 1))
    closed = in_flight_1f1b(stage=stage, stages=stages, chunks=chunks, microbatches=groups * stages)
    assert closed == pytest.approx(fullest(stage, stages, chunks, groups * stages))


def test_one_stage_waits_for_nobody() -> None:
    assert one_f_one_b_bubble(microbatch=1.0, stages=1, chunks=1) == 0
    assert in_flight_1f1b(stage=0, stages=1, chunks=1, microbatches=64) == 1


@given(stages=st.integers(2, 8), chunks=st.integers(2, 4), groups=st.integers(2, 4), data=st.data())
def test_chunks_in_flight_add_up_to_those_of_the_stage(
    stages: int, chunks: int, groups: int, data: st.DataObject
) -> None:
    stage = data.draw(st.integers(0, stages - 1))
    job = {"stage": stage, "stages": stages, "chunks": chunks, "microbatches": groups * stages}
    each = [in_flight_chunk(chunk=chunk, **job) for chunk in range(chunks)]
    assert sum(each) == pytest.approx(chunks * in_flight_1f1b(**job))
    assert min(each) >= 1, "the last chunk has begun"
