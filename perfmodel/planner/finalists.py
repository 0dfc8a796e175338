"""The best plans played pass by pass, and with stages of unequal layers where those are faster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfmodel import chain
from perfmodel.planner.unequal import unequal_layers
from perfmodel.prediction import Prediction, predict
from perfmodel.timeline import Serial, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def finalist(made: Prediction, room: float) -> Finalist:
    """Play a plan, and look for faster stages.

    Args:
        made: the plan.
        room: bytes of a device that stages may fill.
    """
    simulated = played(made)
    layers = unequal_layers(made, room) if simulated is not None else None
    if simulated is None or layers is None:
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
    layers = unequal_layers(made, room)
    if layers is None:
        return None
    other = predict(made.workload, made.hardware, made.strategy.model_copy(update={"stage_layers": layers}))
    return Finalist(other, played(other)) if other.memory_peak <= room else None


def played(made: Prediction) -> float | None:
    """Seconds of the step by the exact simulation."""
    layout = made.layout
    passes = 2 * layout.pp * layout.vpp * layout.microbatches
    return float(made.replay.step_time) if passes <= PLAYED else None


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
