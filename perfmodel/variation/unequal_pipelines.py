"""A step of pipelines that differ: each stage priced by the whole chain, each pipeline played pass by pass."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.chain import processor_of
from perfmodel.cost.capacity import Footprint, footprint
from perfmodel.errors import InputError, Place, Problem
from perfmodel.formulas.uneven import left_over
from perfmodel.library import find
from perfmodel.origin import place_of
from perfmodel.parallel.cut import EVEN
from perfmodel.parallel.near import divisors
from perfmodel.prediction import Prediction, predict_layout
from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.parts import weight_gradients
from perfmodel.schedule.simulate import Times
from perfmodel.schedule.step import beside
from perfmodel.specs.workload import Transformer
from perfmodel.timeline import Part, Repeat, Serial, duration, term
from perfmodel.variation.reweigh import slowed
from perfmodel.variation.varied import Pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.parallel import Share
    from perfmodel.specs.pipelines import UnequalPipeline, UnequalStage
    from perfmodel.variation.varied import Varied

STAGES = "stragglers.pipelines"


@dataclass(frozen=True)
class PricedStage:
    """One stage of one pipeline."""

    given: UnequalStage
    place: int
    """Counted from 0."""
    made: Prediction
    """Of equal stages with its degree and device."""

    @cached_property
    def share(self) -> Share:
        """What one of its devices has of the model."""
        share = self.made.share
        return replace(share, body=tuple(replace(block, repeat=block.repeat * self.fullness) for block in share.body))

    @property
    def fullness(self) -> float:
        """Its layers over those of an equal stage."""
        return float(self.given.layers) / float(self.made.share.layers)

    @property
    def is_last(self) -> bool:
        """Whether it has the head."""
        return self.place == int(self.made.layout.pp) - 1

    @cached_property
    def forward(self) -> Part:
        """One microbatch, with the embedding or the head where it has them."""
        return self._pass("forward", self.made.stage.body_forward, 0)

    @cached_property
    def backward(self) -> Part:
        """Likewise."""
        return self._pass("backward", self.made.stage.body_backward, 1)

    def _pass(self, name: str, body: Part, at: int) -> Part:
        ends = [self.made.stage.prologue] if self.place == 0 else []
        ends += [self.made.stage.epilogue] if self.is_last else []
        parts = (Repeat(name, body, self.fullness), *(end.parts[at] for end in ends if isinstance(end, Serial)))
        return slowed(Serial(name, parts), float(self.given.slowdown))

    @property
    def sends(self) -> tuple[Part, ...]:
        """Of one microbatch, both ways; a pipeline of one stage has none."""
        return self.made.stage.sends if self.made.layout.pp > 1 else ()

    @cached_property
    def microbatch(self) -> Serial:
        """All that one of them takes."""
        return Serial("microbatch", (self.forward, self.backward, *self.sends))

    def exchanged(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """What is done once a step, for so many layers as it has."""
        return tuple(slowed(Repeat(part.name, part, self.fullness), float(self.given.slowdown)) for part in parts)

    @property
    def memory(self) -> Footprint:
        """Of one of its devices."""
        made = self.made
        return footprint(self.share, made.state, made.layout, made.strategy, np.array(self.place))

    @property
    def room(self) -> float:
        """Memory that its devices have."""
        return float(self.made.hardware.device.memory.capacity)


@dataclass(frozen=True)
class PricedPipeline:
    """One replica."""

    stages: tuple[PricedStage, ...]
    microbatches: int

    @cached_property
    def time(self) -> float:
        """Seconds until all its microbatches have passed, by the exact simulation of the schedule."""
        passes = [(one.forward, one.backward, float(weight_gradients(one.backward))) for one in self.stages]
        sends = sum(float(duration(part)) for part in self.stages[0].sends)
        times = Times(
            [float(duration(ahead)) for ahead, _, _ in passes],
            [float(duration(back)) - weight for _, back, weight in passes],
            [weight for _, _, weight in passes],
            send=sends / 2,
        )
        schedule = SCHEDULES[self.stages[0].made.strategy.schedule]
        return schedule.step(len(self.stages), 1, self.microbatches, times)

    @property
    def fullest(self) -> PricedStage:
        """The stage that sets the pace."""
        return max(self.stages, key=lambda stage: float(duration(stage.microbatch)))


def with_pipelines(prediction: Varied, pipelines: tuple[UnequalPipeline, ...], name: str) -> Varied:
    """The step with these pipelines in the place of the equal ones.

    It ends with the last pipeline; then gradients travel and weights are updated as the slowest stage takes for it, of as many
    replicas as there are pipelines. Raises InputError where the pipelines hold another model or batch, or more devices than the
    job has.
    """
    _check(prediction, pipelines)
    priced = tuple(_priced(prediction, pipeline, len(pipelines)) for pipeline in pipelines)
    last = max(priced, key=lambda pipeline: pipeline.time)
    stages = [stage for pipeline in priced for stage in pipeline.stages]
    memory = [stage.memory for stage in stages]
    made = Pipelines(
        name, tuple(pipelines), tuple(pipeline.time for pipeline in priced),
        Footprint(*(np.array([float(getattr(one, f.name)) for one in memory]) for f in fields(Footprint))),
        fits=all(float(one.total) <= stage.room for one, stage in zip(memory, stages, strict=True)),
    )  # fmt: skip
    return replace(prediction, tree=_tree(prediction, last, stages), pipelines=made)


def _priced(prediction: Varied, pipeline: UnequalPipeline, replicas: int) -> PricedPipeline:
    def made(stage: UnequalStage) -> Prediction:
        layout = prediction.layout
        shared = replicas * layout.cp if layout.shard_group > 1 else 1
        own = replace(
            layout, tp=stage.tp, etp=stage.tp, pp=len(pipeline.stages), dp=replicas, shard_group=shared, cut=EVEN,
            batch=replicas * pipeline.microbatches * layout.microbatch,
        )  # fmt: skip
        hardware = prediction.hardware
        if stage.device is not None:
            hardware = hardware.model_copy(update={"device": find("hardware", str(stage.device)).device})
        return predict_layout(prediction.workload, hardware, prediction.strategy, own)

    stages = enumerate(pipeline.stages)
    return PricedPipeline(
        tuple(PricedStage(stage, place, made(stage)) for place, stage in stages), int(pipeline.microbatches)
    )


def _tree(prediction: Varied, last: PricedPipeline, stages: list[PricedStage]) -> Part:
    """The step of the stage that sets the pace of the last pipeline, with what it waits for."""
    one, count = last.fullest, last.microbatches
    holder = max(
        stages, key=lambda s: sum(float(duration(p)) for p in s.exchanged((*s.made.sync.gradients, *s.made.sync.after)))
    )
    sync, strategy = holder.made.sync, prediction.strategy
    slowdown = processor_of(prediction.workload, one.made.hardware, strategy).slowdown
    gradients, overlap = holder.exchanged(sync.gradients), strategy.gradient_overlap == "backward"
    passing = float(duration(one.microbatch))
    waiting = term(
        "bubble of unequal stages", left_over, kind="bubble", time=max(last.time, count * passing), busy=count * passing
    )
    return Serial("step of unequal pipelines", (
        Repeat("microbatches", one.microbatch, count - 1), one.forward,
        beside("last backward", one.backward, gradients if overlap else (), slowdown), *one.sends, waiting,
        *(() if overlap else gradients), *holder.exchanged(sync.after),
    ))  # fmt: skip


def _check(prediction: Varied, pipelines: tuple[UnequalPipeline, ...]) -> None:
    problems = [Problem(place, path, message) for place, path, message in _faults(prediction, pipelines)]
    if problems:
        raise InputError(problems)


def _faults(prediction: Varied, pipelines: tuple[UnequalPipeline, ...]) -> Iterator[tuple[Place, str, str]]:
    model, layout = prediction.workload.model, prediction.layout
    here = place_of(pipelines[0].microbatches, Place("--stragglers"))
    if not isinstance(model, Transformer) or model.decoder_layers:
        yield here, STAGES, f"need a chain of equal layers, which {prediction.workload.name} is not"
        return
    if pipelines[0].layers != model.layers:
        yield here, STAGES, f"hold {pipelines[0].layers} layers; {prediction.workload.name} has {model.layers}"
    held, wanted = sum(int(p.microbatches) for p in pipelines), layout.batch / layout.microbatch
    if held != wanted:
        yield (
            here,
            STAGES,
            f"take {held} microbatches; the batch of {layout.batch} has {wanted:g} of {layout.microbatch}",
        )
    devices = sum(int(stage.tp) for p in pipelines for stage in p.stages) * int(layout.cp)
    if devices > layout.devices:
        yield here, STAGES, f"take {devices} devices; the job has {layout.devices}, give --devices"
    schedule = SCHEDULES[prediction.strategy.schedule]
    if layout.vpp > 1 or schedule.turns or schedule.both_ways or schedule.once:
        yield here, STAGES, "pass each stage once; take vpp 1 and schedule 1f1b, gpipe or zero-bubble-h1"
    if {prediction.strategy.sharding.parameters, prediction.strategy.sharding.gradients} != {"N"}:
        yield here, STAGES, "share no gradients or weights by ZeRO, whose shards would differ; take --zero 1 or 0"
    for index, pipeline in enumerate(pipelines):
        for place, stage in enumerate(pipeline.stages):
            if model.heads % stage.tp:
                message = f"{stage.tp} does not divide {model.heads} attention heads; nearest that do: {divisors(stage.tp, model.heads)}"
                yield place_of(stage.tp, here), f"{STAGES}.{index}.stages.{place}.tp", message
