"""The best plans played pass by pass, and with stages of unequal layers where those are faster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel import chain
from perfmodel.cost.capacity import footprint
from perfmodel.parallel import divide
from perfmodel.parallel.cut import TURNING, Cut
from perfmodel.planner.partition import partition
from perfmodel.planner.space import are_alike
from perfmodel.prediction import Prediction, predict
from perfmodel.timeline import Serial, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfmodel.schedule import Stage
    from perfmodel.sync import Synchronisation

PLAYED = 60_000
"""Passes of a step above which it is not played: some two seconds."""
WORTH = 0.002
"""Share of the step below which unequal stages gain nothing to speak of."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """A plan by the exact simulation of its step."""

    prediction: Prediction
    simulated: float | None
    """Seconds of the step; None where it has too many passes to play."""
    unequal: Finalist | None = None
    """The same plan with other layers on each stage, where that fits and its step is shorter."""

    @property
    def seconds(self) -> float:
        """Of the step: simulated where it is played, else by the closed form."""
        return self.prediction.step_time if self.simulated is None else self.simulated


def finalist(made: Prediction, room: float) -> Finalist:
    """Play a plan, and look for faster stages.

    Args:
        made: the plan.
        room: bytes of a device that stages may fill.
    """
    simulated = played(made)
    if simulated is None or made.strategy.stage_layers != "equal":
        return Finalist(made, simulated)
    layers = unequal_layers(made, room)
    if layers is None:
        return Finalist(made, simulated)
    strategy = made.strategy.model_copy(update={"stage_layers": layers})
    other = predict(made.workload, made.hardware, strategy)
    time = played(other)
    faster = time is not None and time < simulated * (1 - WORTH) and other.memory_peak <= room
    return Finalist(made, simulated, Finalist(other, time) if faster else None)


def rescued(made: Prediction, room: float) -> Finalist | None:
    """A plan whose fullest stage has no room for its layers, with as many on each stage as find room; None where that does not help.

    Args:
        made: the plan.
        room: bytes of a device that stages may fill.
    """
    layers = unequal_layers(made, room) if made.strategy.stage_layers == "equal" else None
    if layers is None:
        return None
    other = predict(made.workload, made.hardware, made.strategy.model_copy(update={"stage_layers": layers}))
    return Finalist(other, played(other)) if other.memory_peak <= room else None


def played(made: Prediction) -> float | None:
    """Seconds of the step by the exact simulation."""
    layout = made.layout
    passes = 2 * layout.pp * layout.vpp * layout.microbatches
    return float(made.replay.step_time) if passes <= PLAYED else None


def unequal_layers(made: Prediction, room: float) -> str | None:
    """Layers of each chunk with which the longest stage is shortest, as a strategy names them.

    None without a pipeline, where layers are of several kinds, where equal stages are best, and where nothing fits.
    """
    layout, model = made.layout, made.workload.model
    stages, chunks = int(layout.pp), int(layout.vpp)
    if stages == 1 or made.strategy.schedule in TURNING or not are_alike(model):
        return None
    layers, stage = int(made.graph.layers), made.stage
    one = float((duration(stage.body_forward) + duration(stage.body_backward)) / made.share.layers)
    ends = np.zeros(stages)
    ends[0], ends[-1] = float(duration(stage.prologue)), float(duration(stage.epilogue))
    try:
        cut = partition([one] * layers, fixed=ends.tolist(), most=most_layers(made, room).tolist())
    except ValueError:
        return None
    sizes = dealt(cut, chunks)
    return None if len(set(sizes)) == 1 else "-".join(map(str, sizes))


def most_layers(made: Prediction, room: float) -> NDArray[np.int64]:
    """Layers that each stage has room for: what a stage holds grows by as much with every layer."""

    def held(layers: int) -> Any:
        stages, all_layers = int(made.layout.pp), made.graph.layers
        cut = Cut(layers * stages / all_layers, chunk=layers, sizes=(layers,) * stages)
        layout = replace(made.layout, cut=cut)
        share = divide(made.graph, layout, made.strategy)
        return footprint(share, made.state, layout, made.strategy, np.arange(stages)).total

    one, two = held(1), held(2)
    found: NDArray[np.int64] = np.floor((room - one) / (two - one) + 1 + 1e-9).clip(0, made.graph.layers).astype(int)
    return found


def dealt(stages: list[int], chunks: int) -> list[int]:
    """Layers of each chunk along the model; the ends have those fewer that do not divide.

    >>> dealt([3, 4, 4, 3], 2)
    [1, 2, 2, 2, 2, 2, 2, 1]
    """
    each = [[layers // chunks + (at < layers % chunks) for at in range(chunks)] for layers in stages]
    each[0].reverse()
    return [own[at] for at in range(chunks) for own in each]


def differences(made: Prediction) -> dict[str, float]:
    """What the simulation of a step takes longer than its closed form, in seconds by cause: they add up.

    Each cause is what both say with it less what both say without: first the passes of the layers alone, then with sends,
    with embedding and head, with the exchange of gradients and the update.
    """
    before, found = 0.0, {}
    for cause, stage, sync in _ladder(made.stage, made.sync):
        one = replace(made, stage=stage, sync=sync)
        closed = chain.tree_of(stage, sync, made.strategy, made.layout, processor_of(made))
        beyond = float(one.replay.step_time) - float(duration(closed))
        found[cause], before = beyond - before, beyond
    return found


def processor_of(made: Prediction) -> Any:
    """The device as the plan uses it."""
    return chain.processor_of(made.workload, made.hardware, made.strategy)


def _ladder(stage: Stage, sync: Synchronisation) -> Iterator[tuple[str, Stage, Synchronisation]]:
    nothing = Serial("both", (Serial("forward", ()), Serial("backward", ())))
    alone, apart = replace(stage, prologue=nothing, epilogue=nothing), replace(sync, gradients=(), after=())
    yield "passes", replace(alone, sends=()), apart
    yield "sends", alone, apart
    yield "embedding and head", stage, apart
    yield "exchange and update", stage, sync
