"""Candidates priced by the functions of `predict`: what few degrees decide is priced once for each tuple of them, and gathered."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel import chain
from perfmodel.cost.capacity import Moments, passing, standing
from perfmodel.cost.kept_off import activations_kept_off, on_host, states_kept_off
from perfmodel.parallel import Layout
from perfmodel.parallel.cut import cut_of
from perfmodel.parallel.layout import host_of
from perfmodel.planner.distinct import Classes, Distinct, DistinctPasses, DistinctProcessor
from perfmodel.planner.priced import column_of, computing, each_part, flattened, gathered
from perfmodel.planner.telling import paired, telling
from perfmodel.schedule import SCHEDULES
from perfmodel.timeline import Repeat, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfmodel.cost.compute import Processor
    from perfmodel.cost.kept_off import KeptOff
    from perfmodel.planner.space import Choice, Column, Space
    from perfmodel.schedule import Stage
    from perfmodel.specs import Hardware, Strategy, Workload
    from perfmodel.sync import Synchronisation
    from perfmodel.timeline import Part
    from perfmodel.units import Number

    Floats = NDArray[np.float64]


def _classes(columns: dict[str, Column]) -> Classes:
    """Rows that are alike in what decides a kernel or a message of a layer, the coarsest first: outside of experts, in them, and between both."""
    tp, cp, microbatch = columns["tp"], columns["cp"], columns["microbatch"]
    experts = [columns[name] for name in ("ep", "etp") if name in columns]
    inside = ((microbatch / (tp * cp), *experts),) if experts else ()
    return tuple(map(Distinct.in_columns, ((tp, cp, microbatch), *inside, (tp, cp, microbatch, *experts))))


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

    def _passes(self, strategy: Strategy) -> Distinct:
        """Rows with distinct factorisation, microbatch and layers of the ends, by the first of them, and the place of every row."""
        # chunks do not change a pass, unless which layers a stage has does
        uneven = getattr(self.workload.model, "pattern", None) is not None
        columns = {name: column for name, column in self.space.base.items() if name != "vpp" or uneven}
        _, core = np.unique(np.stack(list(columns.values())), axis=1, return_inverse=True)
        digits = [core.reshape(-1)[self.space.factors], self.space.own["microbatch"]]
        if strategy.stage_layers != "equal":
            cut = cut_of(self.workload.model, SimpleNamespace(**self._columns, stage_layers=strategy.stage_layers))
            digits += [np.asarray(cut.chunk * self._columns["vpp"]), np.asarray(cut.spare)]
        return Distinct.in_columns(digits)

    def candidates(self, choice: Choice, rows: Column, groups: Column) -> Candidates:
        """Some rows with their shard groups, under one choice."""
        strategy = self.chosen(choice)
        passes, schedule = (
            (
                choice.sequence_parallel,
                choice.recompute,
                choice.stage_layers,
                choice.offload,
                choice.context,
                choice.tables,
            ),
            SCHEDULES[strategy.schedule],
        )
        place = self._table(("passes", choice.stage_layers), self._passes, strategy).place[rows]
        stage = self._table(("stage", *passes, choice.order, schedule.splits), self._stages, strategy)
        sync, states = self._table(
            ("sync", choice.zero, choice.schedule, choice.order, choice.stage_layers, choice.offload, choice.tables,
             strategy.weight_regather and choice.recompute == "full"),
            self._synchronisations, strategy,
        )  # fmt: skip
        activations = self._table(("memory", *passes, choice.schedule), self._passing, strategy)
        columns = {name: column[rows] for name, column in self._columns.items()}
        layout = self._layout(columns, self.space.groups.size[groups], strategy)
        return Candidates(
            strategy, layout, self.processor, _chunked(_gathered(stage, place), columns["vpp"]), _gathered(sync, groups),
            tuple((held, groups, moved, rows) for held, moved in paired(states, activations)),
            self._kept_off(choice, strategy, rows, groups),
        )  # fmt: skip

    def _kept_off(self, choice: Choice, strategy: Strategy, rows: Column, groups: Column) -> dict[str, Floats]:
        """Bytes that one host keeps, by tier."""
        if not strategy.keeps_off.tiers and strategy.spreads_tables.memory == "device":
            return {}
        states = self._table(
            ("states off", choice.zero, choice.stage_layers, choice.schedule, choice.offload, choice.tables),
            self._states_off,
            strategy,
        )
        key = ("activations off", choice.sequence_parallel, choice.recompute, choice.stage_layers)
        moved = self._table((*key, choice.schedule, choice.offload), self._activations_off, strategy)
        devices = on_host(self.hardware, self.space.devices)
        return {
            tier: devices
            * reduce(np.maximum, (one[groups] + other[rows] for one, other in paired(states[tier], moved[tier])))
            for tier in ("host", "nvme")
        }

    def _states_off(self, strategy: Strategy) -> dict[str, tuple[Floats, ...]]:
        """Of each factorisation and shard group, by stage: bytes that one device keeps on its host."""
        layout, work = self._of_groups(strategy)
        kept = [
            states_kept_off(held, work.state, layout, strategy) for held, _ in telling(work.share, layout, strategy)
        ]
        return _by_tier(kept, len(self.space.groups.base))

    def _activations_off(self, strategy: Strategy) -> dict[str, tuple[Floats, ...]]:
        """Likewise activations of each row."""
        layout, work = self._of_rows(strategy)
        kept = [
            activations_kept_off(held, layout, strategy, stage) for held, stage in telling(work.share, layout, strategy)
        ]
        return _by_tier(kept, np.size(layout.tp))

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return self.space.columns

    def _table(self, key: tuple[Any, ...], make: Callable[[Strategy], Any], strategy: Strategy) -> Any:
        tables: dict[Any, Any] = self.__dict__["_tables"]
        if key not in tables:
            tables[key] = make(strategy)
        return tables[key]

    def _stages(self, strategy: Strategy) -> Stage:
        """Times of each distinct pass, with one chunk to a stage."""
        first = self._table(("passes", strategy.stage_layers), self._passes, strategy).first
        columns = {name: column[first] for name, column in self._columns.items()}
        layout = replace(self._layout(columns, columns["dp"] * columns["cp"], strategy), vpp=np.ones_like(first))
        work = chain.work_of(self.workload, strategy, layout)
        classes = _classes(columns)
        processor = DistinctProcessor(
            self.hardware.device,
            self.workload.training.precision,
            strategy.attention,
            link=self.processor.link,
            classes=classes,
        )
        stage = chain.stage_of(
            work,
            DistinctPasses(processor, self.hardware.network, self.hardware.host, strategy, work.state, classes),
            layout,
        )  # fmt: skip
        made: Stage = flattened(stage, len(first), apart=SCHEDULES[strategy.schedule].splits)
        return made

    def _synchronisations(self, strategy: Strategy) -> tuple[Synchronisation, tuple[Moments, ...]]:
        """Of each factorisation and shard group: its times, and what each stage holds at each moment.

        With one sample to a microbatch, and one chunk to a stage where weights do not depend on it.
        """
        layout, work = self._of_groups(strategy)
        sync = chain.sync_of(work, self.hardware, strategy, layout)
        stands = (
            standing(held, work.state, layout, strategy, stage) for held, stage in telling(work.share, layout, strategy)
        )
        size = len(self.space.groups.base)
        states = tuple(_columns(each.total, size) for each in stands)
        return flattened(sync, size, apart=SCHEDULES[strategy.schedule].splits), states

    def _passing(self, strategy: Strategy) -> tuple[Moments, ...]:
        """Activations of each row, by stage."""
        layout, work = self._of_rows(strategy)
        moved = (passing(held, layout, strategy, stage) for held, stage in telling(work.share, layout, strategy))
        return tuple(_columns(each.total, np.size(layout.tp)) for each in moved)

    def _of_groups(self, strategy: Strategy) -> tuple[Layout, chain.Work]:
        """Each factorisation and shard group, with one sample to a microbatch."""
        groups = self.space.groups
        columns = {name: column[groups.base] for name, column in self.space.base.items()}
        ones = np.ones_like(groups.base)
        layout = self._layout({"vpp": ones, **columns, "microbatch": ones}, groups.size, strategy)
        return layout, chain.work_of(self.workload, strategy, layout)

    def _of_rows(self, strategy: Strategy) -> tuple[Layout, chain.Work]:
        """Each row, where shard groups do not matter."""
        layout = self._layout(self._columns, self._columns["dp"] * self._columns["cp"], strategy)
        key = ("work", strategy.sequence_parallel, strategy.stage_layers, strategy.context, strategy.tables)
        return layout, self._table(key, lambda s: chain.work_of(self.workload, s, layout), strategy)

    def _layout(self, columns: dict[str, Any], shard_group: Column, strategy: Strategy) -> Layout:
        s = strategy
        return Layout(
            **{"ep": s.ep, "etp": s.etp or columns["tp"], **columns}, batch=float(self.workload.training.batch),
            shard_group=shard_group, order=s.order, host=host_of(self.hardware),
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
    _memory: tuple[tuple[Moments, Column, Moments, Column], ...]
    """Of each telling stage: what it holds at each moment and the rows, activations and theirs."""
    _off: dict[str, Floats] = field(default_factory=dict)
    """Bytes that one host keeps, by tier; none where nothing leaves the devices."""

    def kept_off(self, tier: str) -> Floats:
        """In the memory of one host, or on its drives."""
        return self._off[tier] if self._off else np.zeros(np.size(self.layout.tp))

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
        totals = (
            np.asarray((_rows(states, groups) + _rows(activations, rows)).most)
            for states, groups, activations, rows in self._memory
        )
        most: Floats = reduce(np.maximum, totals)
        return most

    @cached_property
    def computing(self) -> Floats:
        """Time that the fullest device spends in kernels."""
        return self._wide(computing(self._tree))

    def _wide(self, column: Number) -> Floats:
        return column_of(column, np.size(self.layout.tp))


def _by_tier(kept: list[KeptOff], size: int) -> dict[str, tuple[Floats, ...]]:
    """All states of a tier together, by stage."""
    return {
        tier: tuple(column_of(sum(getattr(one, tier).values(), start=0.0), size) for one in kept)
        for tier in ("host", "nvme")
    }


def _columns(moments: Moments, size: int) -> Moments:
    """Each moment as a column."""
    return Moments(*(column_of(part, size) for part in (moments.loss, moments.layer, moments.step)))


def _rows(moments: Moments, place: Column) -> Moments:
    """Some rows of columns."""
    return Moments(moments.loss[place], moments.layer[place], moments.step[place])  # type: ignore[index]


def _gathered(thing: Any, place: Column) -> Any:
    """Rows of a table, for each candidate."""
    return each_part(thing, lambda part: gathered(part, place))


def _chunked(stage: Stage, chunks: Column) -> Stage:
    """Sends were priced for one chunk; each chunk of a stage has its own."""
    return replace(stage, sends=tuple(Repeat("chunks", part, chunks) for part in stage.sends))
