"""Every closed form against the exact simulation, for equal stages and hundreds of random shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.cost.in_flight import IN_FLIGHT
from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.dual_pipe import paired
from perfmodel.schedule.passes import Costs
from perfmodel.schedule.simulate import Times

EXAMPLES = 250
EVERY = pytest.mark.parametrize("name", SCHEDULES)
TIMES = st.floats(0.1, 10.0)


@dataclass(frozen=True)
class Shape:
    """A pipeline of equal stages."""

    stages: int
    chunks: int
    microbatches: int
    forward: float
    backward: float
    weight: float
    shared: float = 1.0

    @property
    def alone(self) -> float:
        """Of one microbatch through a stage."""
        return self.forward + self.backward + self.weight

    def times(self, positions: int) -> Times:
        def per(time: float) -> list[float]:
            return [time / self.chunks] * positions

        return Times(per(self.forward), per(self.backward), per(self.weight), shared=self.shared)


@st.composite
def shapes(draw: st.DrawFn, name: str) -> Shape:
    """Shapes that a schedule allows."""
    stages, chunks, more, shared = draw(st.integers(1, 7)), 1, draw(st.integers(0, 12)), 1.0
    times = [draw(TIMES) for _ in range(3)]
    microbatches = 1 + more
    match name:
        case "1f1b":
            chunks = draw(st.integers(1, 4)) if stages > 1 else 1
            microbatches = stages * draw(st.integers(1, 4)) if chunks > 1 else 1 + more
        case "breadth-first":
            chunks = draw(st.integers(1, 4))
        case "zero-bubble-h2":
            microbatches = 2 * stages - 1 + more
        case "zero-bubble-v":
            chunks, microbatches = 2, 2 * stages - 1 + more
            times[2] = times[0] * draw(st.floats(0.5, 3.0))
        case "dual-pipe":
            stages = 2 * draw(st.integers(1, 5))
            microbatches = 2 * (stages + more)
            times = [1.0, draw(st.floats(0.8, 2.5)), draw(st.floats(0.5, 1.2))]
            shared = draw(st.floats(0.7, 1.0))
    forward, backward, weight = times
    return Shape(stages, chunks, microbatches, forward, backward, weight, shared)


def closed(name: str, shape: Shape) -> float:
    """The time of the passes of one stage, and the idle time by the closed form."""
    schedule, alone = SCHEDULES[name], shape.alone  # type: ignore[index]
    costs = Costs(
        shape.forward, shape.backward, shape.weight, alone, alone * shape.shared,
        shape.stages, shape.chunks, shape.microbatches,
    )  # fmt: skip
    pairs = paired(shape.stages, shape.microbatches) if name == "dual-pipe" else 0
    busy = shape.microbatches * (alone + schedule.repeats * shape.forward) - pairs * alone * (1 - shape.shared)
    return float(busy + schedule.bubble(costs).time)


def play(name: str, shape: Shape) -> Any:
    schedule = SCHEDULES[name]  # type: ignore[index]
    positions = shape.stages * (shape.chunks + schedule.repeats)
    return schedule, (shape.stages, shape.chunks, shape.microbatches, shape.times(positions))


@EVERY
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_closed_forms_are_those_of_the_simulation(name: str, data: st.DataObject) -> None:
    """Idle time, and the microbatches that each stage keeps."""
    shape = data.draw(shapes(name))
    schedule, given_ = play(name, shape)
    assert schedule.step(*given_) == pytest.approx(closed(name, shape), rel=1e-9)
    simulation = schedule.play(*given_)
    kept = [simulation.fullest(stage) / shape.chunks for stage in range(shape.stages)]
    forms = [IN_FLIGHT[name](s, shape.stages, shape.chunks, shape.microbatches) for s in range(shape.stages)]  # type: ignore[index]
    assert kept == pytest.approx([float(form) for form in forms])


def test_one_number_of_the_zero_bubble_paper() -> None:
    """Its first figure of bubbles, passes of equal length: 1F1B, ZB-H1, ZB-H2 and ZB-V as 9 : 3 : 0 : 0 for four stages."""
    idle = {}
    for name in ("1f1b", "zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v"):
        shape = Shape(4, 2 if name.endswith("v") else 1, 8, 1.0, 1.0, 1.0)
        schedule, given_ = play(name, shape)
        idle[name] = schedule.step(*given_) - 8 * 3
    assert list(idle.values()) == pytest.approx([9, 3, 0, 0])


def test_the_table_of_dualpipe() -> None:
    """Where forward and backward passes are alike: (p/2 - 1)(F&B + B - 3W), against (p - 1)(F + B) and (p - 1)(F + B - 2W)."""
    shape = Shape(8, 1, 20, 1.0, 1.0, 1.0)
    whole = shape.backward + shape.weight
    assert closed("dual-pipe", shape) - 60 == pytest.approx((8 / 2 - 1) * (3 + whole - 3))
    assert closed("1f1b", shape) - 60 == pytest.approx(7 * (1 + whole))
    assert closed("zero-bubble-h1", shape) - 60 == pytest.approx(7 * (1 + whole - 2))


def test_decoupled_backward_is_its_papers_equation() -> None:
    """T_F + T_B / K: with T_B = 2 T_F the speed-up is 1.5, 1.8 and 2 on 2, 3 and 4 devices."""
    for devices, speedup in ((2, 1.5), (3, 1.8), (4, 2.0)):
        forward = 1.0 / devices
        step = closed("decoupled-backward", Shape(devices, 1, 1, forward, forward, forward))
        assert 3.0 / step == pytest.approx(speedup)
