"""A predicted step with its delays, and a training with its failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.formulas.mitigation import straggler_delay
from perfmodel.timeline import Part, Repeat, Serial, duration, term
from perfmodel.variation.failures import reliability
from perfmodel.variation.machines import machine_factor
from perfmodel.variation.mitigation import Plan, plans
from perfmodel.variation.reweigh import Base, base_of, loaded, slowed
from perfmodel.variation.simulate import Job, Simulation, drawn, simulate
from perfmodel.variation.slowest import Phase, Shape
from perfmodel.variation.tables import LOGITS, Table
from perfmodel.variation.unequal import drawn_with_lengths, with_lengths
from perfmodel.variation.unequal_pipelines import with_pipelines
from perfmodel.variation.varied import Varied, Waiting, varied

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction
    from perfmodel.specs import Variation
    from perfmodel.specs.variation import Stragglers

KIND = "stragglers"
"""Of the terms that delays add to a step."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One plan: the tree of its step with the delays, its spread, and the share of the batch that counts."""

    tree: Part
    deviation: float
    counted: float


def vary(
    prediction: Prediction, stragglers: Variation | None = None, failures: Variation | None = None,
    *, lengths: Variation | None = None, steps: int = 0, seed: int = 0,
) -> Varied:  # fmt: skip
    """The prediction with unequal sequences, delays and failures.

    Args:
        prediction: of a step without any of them.
        stragglers: a file with a section of this name.
        failures: likewise; all may be one file.
        lengths: likewise, of sequences.
        steps: to simulate beside the closed forms; 0 simulates none.
        seed: of the simulation.

    Raises InputError where a file lacks the section, or asks for what so many replicas cannot do.
    """
    problems = [
        Problem(Place(f"--{name}"), str(file.name), f"has no section '{name}'")
        for name, file in (("stragglers", stragglers), ("failures", failures), ("lengths", lengths))
        if file is not None and getattr(file, name) is None
    ]
    section = stragglers.stragglers if stragglers else None
    if section is not None and section.pipelines and lengths is not None:
        problems.append(
            Problem(Place("--lengths"), "", "are dealt to equal pipelines; leave out those of --stragglers")
        )
    if problems:
        raise InputError(problems)
    made = varied(prediction)
    if section is not None and section.pipelines:
        made = with_pipelines(made, section.pipelines, str(stragglers.name))  # type: ignore[union-attr]
    if lengths is not None and lengths.lengths is not None:
        made = with_lengths(made, lengths.lengths, str(lengths.name))
    undelayed = made
    if section is not None and not section.is_plan_only:
        made = _delayed(made, section, str(stragglers.name))  # type: ignore[union-attr]
    if failures is not None and failures.failures is not None:
        made = replace(made, reliability=reliability(made, failures.failures, str(failures.name)))
    if steps:
        made = replace(made, simulation=_simulated(undelayed, made, section, steps, seed))
    return made


def _simulated(prediction: Prediction, made: Varied, section: Stragglers | None, steps: int, seed: int) -> Simulation:
    jobs = []
    if section is not None and made.waiting is not None:
        compute, messages = _phases(prediction, section)
        unequal = slowed(prediction.tree, made.waiting.machine_factor)
        jobs = [
            Job(
                base_of(loaded(unequal, plan.load, plan.reduction)),
                plan,
                share,
                compute,
                messages,
            )
            for plan, share in made.waiting.plans
        ]
    simulated = simulate(jobs, made.reliability, steps=steps, seed=seed)
    if made.sequences is None:
        return simulated
    return replace(simulated, sequences=drawn(drawn_with_lengths(made, steps, np.random.default_rng(seed))))


def shape_of(prediction: Prediction) -> Shape:
    """Who waits for whom in a job."""
    layout = prediction.layout
    layers = float(np.max(prediction.share.layers))
    return Shape(
        group=int(layout.tp * layout.cp), stages=int(layout.pp), replicas=int(layout.dp),
        node=int(prediction.hardware.host.devices), passes=max(2 * layers * float(layout.microbatches), 1.0),
    )  # fmt: skip


def _phases(prediction: Prediction, section: Stragglers) -> tuple[Phase, Phase]:
    shape = shape_of(prediction)
    return Phase(section.compute, shape), Phase(section.communication, shape)


def _delayed(prediction: Varied, section: Stragglers, name: str) -> Varied:
    compute, messages = _phases(prediction, section)
    factor = machine_factor(prediction, section.machines)
    unequal = slowed(prediction.tree, factor)
    if section.mitigation is None:
        outcomes = [(_all(unequal, compute, messages), Plan("none", compute.shape.replicas), 1.0)]
    else:
        outcomes = _mitigated(unequal, section, compute, messages)
    deviation = float(np.sqrt(sum(share * one.deviation**2 for one, _, share in outcomes)))
    trees = tuple(one.tree if share == 1 else Repeat("phase", one.tree, share) for one, _, share in outcomes)
    tree = trees[0] if len(trees) == 1 else Serial("phases", trees)
    waiting = Waiting(
        name, compute.slowest, messages.slowest, factor, float(duration(tree)) - prediction.step_time, deviation,
        counted=sum(share * one.counted for one, _, share in outcomes),
        plans=tuple((plan, share) for _, plan, share in outcomes),
    )  # fmt: skip
    return replace(prediction, tree=tree, waiting=waiting)


def _all(tree: Part, compute: Phase, messages: Phase) -> _Outcome:
    """All wait for the slowest of all, in computing and again in exchanging."""
    base = base_of(tree)
    working = base.compute + base.update
    delays = (
        term("waiting for slow devices", straggler_delay, kind=KIND, time=working, factor=compute.slowest),
        term(
            "slow fill and drain",
            straggler_delay,
            kind=KIND,
            time=base.bubble,
            factor=compute.fill_factor(working, base.bubble),
        ),
        term("waiting for slow messages", straggler_delay, kind=KIND, time=base.communication, factor=messages.slowest),
    )
    own = np.hypot(working * compute.deviation, base.communication * messages.deviation)
    deviation = float(np.hypot(own, _shared_deviation(working + base.bubble, base.communication, compute, messages)))
    delay = sum(float(d.time) for d in delays)
    return _Outcome(_with(tree, delays, delay), deviation, 1.0)


def _mitigated(tree: Part, section: Stragglers, compute: Phase, messages: Phase) -> list[tuple[_Outcome, Plan, float]]:
    """The plans that the file asks for, or the best ones."""
    if compute.shape.shares_nodes and (compute.of_nodes or messages.of_nodes):
        message = (
            f"{compute.shape.node} devices of a node hold parts of several replicas of {compute.shape.group} devices for "
            "each stage, which a slow node delays together; give the delay per device, or leave the mitigation out"
        )
        raise InputError([Problem(Place("stragglers"), "stragglers.mitigation", message)])
    worker = lru_cache(lambda load, reduction: Worker(tree, compute, messages, load, reduction))

    def cost(plan: Plan) -> float:
        one = worker(plan.load, plan.reduction).outcome(plan)
        return float(duration(one.tree)) / one.counted

    chosen = plans(section.mitigation, compute.shape.replicas, cost)
    return [(worker(plan.load, plan.reduction).outcome(plan), plan, share) for plan, share in chosen]


class Worker:
    """One replica with the load and the messages that a plan gives it."""

    def __init__(self, tree: Part, compute: Phase, messages: Phase, load: float, reduction: float) -> None:
        """Weigh the terms of the step and add up the delays."""
        self.tree = loaded(tree, load, reduction)
        self.base = base_of(self.tree)
        self.compute, self.messages = compute, messages
        self.time = self._time(self.base)

    def _time(self, base: Base) -> Table:
        """Until a replica has handed over its gradients; delays that all share left out."""
        time = self.compute.replica(base.compute, base.bubble)
        return time.plus(self.messages.worker.scaled(base.communication)) if base.communication else time

    def outcome(self, plan: Plan) -> _Outcome:
        """Wait as the plan says."""
        base, n = self.base, self.compute.shape.replicas
        shared = (base.compute + base.bubble) * self.compute.everywhere[
            0
        ] + base.communication * self.messages.everywhere[0]
        table, counted = self.time, plan.waited / n
        if plan.deadline is not None:
            return self._deadline(plan.deadline)
        if plan.copies > 1 or plan.kind == "replication":
            table, counted, late = table.smallest(plan.copies), 1.0, 0.0
        else:
            late = n - plan.waited
            counted = 1.0 if plan.kind in {"gradient-coding", "data-encoding"} else counted
        waited = table.kth(plan.waited, late) + shared + base.update
        common = _shared_deviation(base.compute + base.bubble, base.communication, self.compute, self.messages)
        return self._outcome(waited, float(np.hypot(table.deviation(plan.waited, late), common)), counted)

    def _deadline(self, deadline: float) -> _Outcome:
        """All stop computing at a time; each sends what it has done by then."""
        base, worker = self.base, self.compute.worker_with_everywhere
        values = worker.quantile(LOGITS)
        middle, mass = (values[1:] + values[:-1]) / 2, np.diff(np.interp(values, worker.value, worker.reached))
        done = np.minimum(1.0, deadline / middle)
        counted = float(np.sum(done * mass) / np.sum(mass))
        slowest = self.messages.slowest
        time = (base.compute + base.bubble) * deadline + base.communication * slowest + base.update
        common = _shared_deviation(0.0, base.communication, self.compute, self.messages)
        deviation = float(np.hypot(base.communication * self.messages.deviation, common))
        return self._outcome(time, deviation, counted)

    def _outcome(self, time: float, deviation: float, counted: float) -> _Outcome:
        expected = time / self.base.total if self.base.total else 1.0
        delay = term("waiting for replicas", straggler_delay, kind=KIND, time=self.base.total, factor=expected)
        return _Outcome(_with(self.tree, (delay,), float(delay.time)), deviation, counted)


def _shared_deviation(working: float, exchanging: float, compute: Phase, messages: Phase) -> float:
    """Standard deviation of a step by the delays that all devices share."""
    return float(np.hypot(working * np.sqrt(compute.everywhere[1]), exchanging * np.sqrt(messages.everywhere[1])))


def _with(tree: Part, delays: tuple[Any, ...], delay: float) -> Part:
    """The step and its delays; where the fastest end before the predicted time, less of it."""
    if delay >= 0:
        return Serial("step with stragglers", (tree, *delays))
    return Repeat("fastest replicas", tree, 1 + delay / float(duration(tree)))
