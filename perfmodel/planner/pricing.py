"""Candidates priced by the functions of `predict`: what few degrees decide is priced once for each tuple of them, and gathered."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel import prediction as chain
from perfmodel.cost.capacity import Footprint, footprint_of
from perfmodel.cost.holdings import Holdings, holdings, telling_stages
from perfmodel.parallel import Layout
from perfmodel.parallel.cut import cut_of
from perfmodel.parallel.layout import host_of
from perfmodel.parallel.sharded_state import state_of
from perfmodel.timeline import Overlap, Repeat, Serial, Term, duration, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfmodel.cost.compute import Processor
    from perfmodel.planner.space import Choice, Column, Space
    from perfmodel.schedule import Stage
    from perfmodel.specs import Hardware, Strategy, Workload
    from perfmodel.sync import Synchronisation
    from perfmodel.timeline import Part
    from perfmodel.units import Count, Number, Seconds

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pricing:
    """Prices the candidates of one space, by tables that are kept from one choice to the next."""

    workload: Workload
    hardware: Hardware
    strategy: Strategy
    space: Space

    def __post_init__(self) -> None:
        """Tables are filled as choices ask for them."""
        object.__setattr__(self, "_tables", {})

    def chosen(self, choice: Choice) -> Strategy:
        """The strategy of a choice, its degrees left open."""
        return self.strategy.model_copy(update={f.name: getattr(choice, f.name) for f in fields(choice)})

    @cached_property
    def processor(self) -> Processor:
        """The device as this job uses it."""
        return chain.processor_of(self.workload, self.hardware, self.strategy)

    @cached_property
    def _passes(self) -> tuple[Column, Column]:
        """Rows with distinct factorisation and microbatch, by the first of them, and the place of every row."""
        space = self.space
        key = space.factors * (int(space.microbatch.max(initial=0)) + 1) + space.microbatch
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        return first, place.astype(np.int64)

    def candidates(self, choice: Choice, rows: Column, groups: Column) -> Candidates:
        """Some rows with their shard groups, under one choice."""
        strategy, place = self.chosen(choice), self._passes[1][rows]
        passes = (choice.sequence_parallel, choice.recompute)
        stage, _ = self._table(("stage", *passes), self._stages, strategy)
        sync, states = self._table(("sync", choice.zero), self._synchronisations, strategy)
        passing = self._table(("memory", *passes, choice.schedule), self._passing, strategy)
        columns = {name: column[rows] for name, column in self._columns.items()}
        layout = self._layout(columns, self.space.groups.size[groups])
        return Candidates(
            strategy, layout, self.processor, _chunked(_gathered(stage, place), columns["vpp"]), _gathered(sync, groups),
            tuple((kept, groups, held, rows) for kept, held in zip(states, passing, strict=True)),
        )  # fmt: skip

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return self.space.columns

    @cached_property
    def _state(self) -> Any:
        return state_of(self.workload, self.strategy)

    def _table(self, key: tuple[Any, ...], make: Callable[[Strategy], Any], strategy: Strategy) -> Any:
        tables: dict[Any, Any] = self.__dict__["_tables"]
        if key not in tables:
            tables[key] = make(strategy)
        return tables[key]

    def _stages(self, strategy: Strategy) -> tuple[Stage, tuple[Holdings, ...]]:
        """Of each distinct pass, with one chunk to a stage: its times, and what a device of each telling stage holds."""
        first = self._passes[0]
        columns = {name: column[first] for name, column in self._columns.items()}
        layout = self._layout({**columns, "vpp": np.ones_like(first)}, columns["dp"] * columns["cp"])
        work = chain.work_of(self.workload, strategy, layout)
        stage = chain.stage_of(work, self.processor, self.hardware, strategy, layout)
        held = (holdings(work.share, layout, strategy, each) for each in telling_stages(layout.pp))
        return _flat(stage, len(first)), tuple(
            Holdings(**{f.name: _column(getattr(one, f.name), len(first)) for f in fields(one)}) for one in held
        )

    def _synchronisations(self, strategy: Strategy) -> tuple[Synchronisation, tuple[Floats, ...]]:
        """Of each factorisation and shard group: its times, and the states that each stage holds.

        With one sample to a microbatch, which weights do not depend on.
        """
        groups = self.space.groups
        columns = {name: column[groups.base] for name, column in self.space.base.items()}
        ones = np.ones_like(groups.base)
        layout = self._layout({**columns, "vpp": ones, "microbatch": ones}, groups.size)
        work = chain.work_of(self.workload, strategy, layout)
        held = tuple(holdings(work.share, layout, strategy, stage) for stage in telling_stages(layout.pp))
        sync = _flat(chain.sync_of(work, self.hardware, strategy, layout), len(ones))
        return sync, self._stagewise(held, layout, strategy, lambda footprint: footprint.states)

    def _passing(self, strategy: Strategy) -> tuple[Floats, ...]:
        """Activations of each row, by stage."""
        _, held = self._table(("stage", strategy.sequence_parallel, strategy.recompute), self._stages, strategy)
        place = self._passes[1]
        wide = tuple(replace(one, **{f.name: getattr(one, f.name)[place] for f in fields(one)}) for one in held)
        layout = self._layout(self._columns, self._columns["dp"] * self._columns["cp"])
        return self._stagewise(wide, layout, strategy, lambda footprint: footprint.passing)

    def _stagewise(
        self, held: tuple[Holdings, ...], layout: Layout, strategy: Strategy, part: Callable[[Footprint], Number]
    ) -> tuple[Floats, ...]:
        """Bytes on the stages of which one is the fullest."""
        stages = zip(held, telling_stages(layout.pp), strict=True)
        footprints = (footprint_of(one, self._state, layout, strategy, stage) for one, stage in stages)
        return tuple(_column(part(each), np.size(layout.tp)) for each in footprints)

    def _layout(self, columns: dict[str, Column], shard_group: Column) -> Layout:
        s = self.strategy
        return Layout(
            **columns, batch=float(self.workload.training.batch), shard_group=shard_group, order=s.order,
            ep=s.ep, etp=columns["tp"] if s.etp is None else s.etp, host=host_of(self.hardware),
            cut=cut_of(self.workload.model, SimpleNamespace(**columns, stage_layers=s.stage_layers)),
        )  # fmt: skip


@dataclass(frozen=True)
class Candidates:
    """A chunk of candidates: each property is a column."""

    strategy: Strategy
    layout: Layout
    processor: Processor
    stage: Stage
    sync: Synchronisation
    _memory: tuple[tuple[Floats, Column, Floats, Column], ...]
    """Of each telling stage: states and their rows, activations and theirs."""

    @cached_property
    def _tree(self) -> Part:
        return chain.tree_of(self.stage, self.sync, self.strategy, self.layout, self.processor)

    @cached_property
    def step_time(self) -> Floats:
        """Of one step."""
        return self._wide(duration(self._tree))

    @cached_property
    def memory(self) -> Floats:
        """On the fullest device."""
        totals = (states[groups] + passing[rows] for states, groups, passing, rows in self._memory)
        most: Floats = reduce(np.maximum, totals)
        return most

    @cached_property
    def computing(self) -> Floats:
        """Time that the fullest device spends in kernels."""
        priced = (pair for pair in _executed(self._tree) if pair[0].formula is _given)
        return self._wide(sum((count * leaf.inputs["computing"][leaf.inputs["place"]] for leaf, count in priced), 0.0))

    def _wide(self, column: Number) -> Floats:
        return _column(column, np.size(self.layout.tp))


def _executed(part: Part, count: Count = 1.0) -> Iterator[tuple[Term, Count]]:
    """Each term, and how often a step has it."""
    match part:
        case Term():
            yield part, count
        case Repeat():
            yield from _executed(part.part, count * part.count)
        case Serial() | Overlap():
            for each in part.parts:
                yield from _executed(each, count)


def _computing(part: Part) -> Number:
    """Time of the kernels of a part, hidden or not."""
    return sum((time for leaf, time, _ in leaves(part) if leaf.kind not in chain.IDLE), start=0.0)


def _column(value: Number, size: int) -> Floats:
    return np.array(np.broadcast_to(np.asarray(value, dtype=float), size))


def _each(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A stage or a synchronisation with each of its parts changed."""
    values = {f.name: getattr(thing, f.name) for f in fields(thing)}
    changed = {k: tuple(map(change, v)) if isinstance(v, tuple) else change(v) for k, v in values.items()}
    return replace(thing, **changed)


def _flat(thing: Any, size: int) -> Any:
    """Each part as one term: a column of times, and beside it of what of them goes into kernels. Numbers are columns too."""

    def flat(part: Any) -> Any:
        if not isinstance(part, Term | Repeat | Serial | Overlap):
            return _column(part, size)
        inputs = {"computing": _column(_computing(part), size), "place": slice(None)}
        return Term("priced", _given, inputs, _column(duration(part), size))

    return _each(thing, flat)


def _gathered(thing: Any, place: Column) -> Any:
    def gathered(one: Any) -> Any:
        if not isinstance(one, Term):
            return one[place]
        return replace(one, time=np.asarray(one.time)[place], inputs={**one.inputs, "place": place})

    return _each(thing, gathered)


def _given(time: Seconds) -> Seconds:
    """A time that was priced before."""
    return time


def _chunked(stage: Stage, chunks: Column) -> Stage:
    """Sends were priced for one chunk; each chunk of a stage has its own."""
    return replace(stage, sends=tuple(Repeat("chunks", part, chunks) for part in stage.sends))
