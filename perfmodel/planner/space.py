"""The space of one number of devices: every factorisation as rows of columns, and masks of what the rules refuse."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import combinations, product
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.parallel.layout import host_of
from perfmodel.specs.sharding import sharding_of
from perfmodel.specs.workload import Transformer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfmodel.planner.axes import Axes
    from perfmodel.planner.refusals import Refusals
    from perfmodel.specs import Strategy, Workload
    from perfmodel.specs.offload import Offload

    Column = NDArray[np.int64]
    Mask = NDArray[np.bool_]

BASE = ("tp", "cp", "pp", "dp")
"""Degrees that multiply to the devices."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of each structural axis."""

    sequence_parallel: bool
    zero: int | str
    recompute: str
    schedule: str
    order: str
    stage_layers: str
    offload: Offload | None
    context: str


@dataclass(frozen=True, slots=True)
class Groups:
    """Shard groups of each factorisation, one after the other in one table."""

    base: Column
    """The factorisation of each row of the table."""
    size: Column
    start: Column
    """Of each factorisation, its first row."""
    count: Column
    """Rows that ZeRO may take."""
    whole: Column
    """The row of all replicas."""


@dataclass(frozen=True, slots=True)
class Space:
    """Candidates for one number of devices."""

    devices: int
    base: dict[str, Column]
    """Factorisations: columns of `BASE`, of the degrees of experts where there are some, and of the chunks of a stage where these
    decide which layers it has."""
    factors: Column
    """The factorisation of each row."""
    own: dict[str, Column]
    """Of each row: microbatch, and chunks where they are no matter of the base."""
    groups: Groups

    @property
    def columns(self) -> dict[str, Column]:
        """All degrees of each row but the shard group."""
        return {**{name: column[self.factors] for name, column in self.base.items()}, **self.own}

    def only(self, rows: Column) -> Space:
        """Some rows of it, numbered anew."""
        own = {name: column[rows] for name, column in self.own.items()}
        return replace(self, factors=self.factors[rows], own=own)

    def candidates(self, rows: Column, zero: int | str, size: int) -> Iterator[tuple[Column, Column]]:
        """Rows with their shard groups (rows of `groups`), about ``size`` at a time."""
        at = self.factors[rows]
        if not grouped(zero):
            for part in _parts(len(rows), size):
                yield rows[part], self.groups.whole[at[part]]
            return
        counts = self.groups.count[at]
        ends = np.cumsum(counts)
        for part in _parts_of(ends, size):
            repeats = counts[part]
            first = np.repeat(self.groups.start[at[part]], repeats)
            within = np.arange(len(first)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            yield np.repeat(rows[part], repeats), first + within

    def count(self, rows: Column, zero: int | str) -> int:
        """Candidates that `candidates` yields."""
        return len(rows) if not grouped(zero) else int(self.groups.count[self.factors[rows]].sum())


def space_of(workload: Workload, axes: Axes, refused: Refusals) -> Space:
    """All divisors on all axes, or what the user named of them, of the factorisations that some layout may have."""
    devices = refused.devices
    model, batch = workload.model, int(workload.training.batch)
    factors = _factorisations(devices, axes)
    if isinstance(model, Transformer) and model.experts:
        factors = _with_experts(factors, int(model.experts.count), axes)
    base = refused.factorisations(factors, axes)
    apart = not are_alike(model) or axes.choices["stage_layers"] != ("equal",)
    at, chunks = _expand(np.arange(len(base["dp"])), [_chunks(model, int(pp), axes) for pp in base["pp"]])
    if apart:
        base = {**{name: column[at] for name, column in base.items()}, "vpp": chunks}
        at = np.arange(len(chunks))
    sizes = _microbatches(base, batch, axes)
    rows, microbatch = _expand(np.arange(len(at)), [sizes[int(row)] for row in at])
    own = {"microbatch": microbatch} if apart else {"vpp": chunks[rows], "microbatch": microbatch}
    return Space(devices, base, at[rows], own, _groups(base, axes))


def _microbatches(base: dict[str, Column], batch: int, axes: Axes) -> list[tuple[int, ...]]:
    """Samples of a microbatch, for each factorisation."""
    named = axes.degrees.get("microbatch")
    if not axes.accumulates:
        only = (
            (batch // int(dp * pp),) if batch % (dp * pp) == 0 else ()
            for dp, pp in zip(base["dp"], base["pp"], strict=True)
        )
        return [tuple(each for each in own if named is None or each in named) for own in only]
    sizes = {int(dp): named or (divisors(batch // int(dp)) if batch % dp == 0 else (1,)) for dp in set(base["dp"])}
    return [sizes[int(dp)] for dp in base["dp"]]


def layers_of(model: object) -> int:
    """Layers that a pipeline may cut; none where the model is no chain of them."""
    return int(model.layers) if isinstance(model, Transformer) and not model.decoder_layers else 0


def _chunks(model: object, stages: int, axes: Axes) -> tuple[int, ...]:
    """Numbers of chunks on a stage."""
    if named := axes.degrees.get("vpp"):
        return named
    layers = layers_of(model)
    if not layers or stages == 1:
        return (1,)
    if axes.choices["stage_layers"] == ("equal",):
        return divisors(layers // stages) if layers % stages == 0 else (1,)
    return tuple(range(1, -(-layers // stages) + 1))


def _with_experts(factors: dict[str, Column], experts: int, axes: Axes) -> dict[str, Column]:
    """Each factorisation with all degrees of its experts: groups that divide them, over ranks of a stage."""
    rows: list[tuple[int, int, int]] = []
    for row, (tp, ranks) in enumerate(zip(factors["tp"], factors["tp"] * factors["cp"] * factors["dp"], strict=True)):
        for etp in axes.degrees.get("etp") or divisors(int(tp)):
            open_groups = (ep for ep in divisors(experts) if ranks % (ep * etp) == 0)
            rows += [(row, ep, etp) for ep in axes.degrees.get("ep") or open_groups]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return {**{name: column[table[:, 0]] for name, column in factors.items()}, "ep": table[:, 1], "etp": table[:, 2]}


def are_alike(model: object) -> bool:
    """Whether all layers of a model are; else which ones a chunk has decides what a stage holds."""
    if not isinstance(model, Transformer):
        return True
    return len(model.kinds) <= 1


def strategy_of(strategy: Strategy, choice: Choice, degrees: dict[str, int], shard_group: int | None) -> Strategy:
    """One candidate as a strategy that `predict` takes."""
    chosen = {f.name: getattr(choice, f.name) for f in fields(choice)}
    return strategy.model_copy(update={**chosen, **degrees, "shard_group": shard_group, "devices": None})


def choices(axes: Axes) -> tuple[Choice, ...]:
    """The product of the structural axes."""
    return tuple(Choice(**dict(zip(axes.choices, values, strict=True))) for values in product(*axes.choices.values()))


def sharing(choice: Choice) -> tuple[Any, ...]:
    """What choices have in common that share masks and tables of passes."""
    return (
        choice.sequence_parallel, choice.recompute, choice.schedule, choice.stage_layers, str(choice.offload), choice.context,
    )  # fmt: skip


def allowed(space: Space, choice: Choice, axes: Axes, refused: Refusals) -> Column:
    """Rows that no rule refuses, without those that come to the same as a plainer choice."""
    columns = space.columns
    same = np.zeros(len(space.factors), dtype=bool)
    if choice.sequence_parallel and False in axes.choices["sequence_parallel"]:
        same |= columns["tp"] == 1
    if choice.schedule != axes.choices["schedule"][0]:
        same |= columns["pp"] == 1
    if choice.context != axes.choices["context"][0]:
        same |= columns["cp"] == 1
    orders = axes.choices["order"]
    for before in orders[: orders.index(choice.order)]:
        inside = refused.devices <= host_of(refused.hardware)
        same |= inside | _is_order_alike(before, choice.order, columns)
    if choice.stage_layers != axes.choices["stage_layers"][0]:
        same |= layers_of(refused.workload.model) % (columns["pp"] * columns["vpp"]) == 0
    return np.flatnonzero(refused.mask(columns, choice) & ~same)


def _is_order_alike(one: str, other: str, columns: dict[str, Column]) -> Mask:
    """Where two orders number ranks alike: of any two degrees that they swap one at least is 1."""
    first, second = one.split("-"), other.split("-")
    swapped = [(a, b) for a, b in combinations(first, 2) if second.index(a) > second.index(b)]
    alike = np.ones(len(columns["tp"]), dtype=bool)
    for a, b in swapped:
        alike &= (columns.get(a, _ONE) == 1) | (columns.get(b, _ONE) == 1)
    return alike


_ONE = np.ones(1, dtype=np.int64)
"""Degree of experts where there are none."""


def divisors(of: int) -> tuple[int, ...]:
    """In ascending order.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    small = [d for d in range(1, isqrt(of) + 1) if of % d == 0]
    return tuple(sorted({*small, *(of // d for d in small)}))


def grouped(zero: int | str) -> bool:
    """Whether it matters which replicas make a shard group."""
    return "I" in sharding_of(zero)


def _factorisations(devices: int, axes: Axes) -> dict[str, Column]:
    rows = [
        (tp, cp, pp, devices // (tp * cp * pp))
        for tp in divisors(devices)
        for cp in divisors(devices // tp)
        for pp in divisors(devices // (tp * cp))
    ]
    table = np.array(rows, dtype=np.int64).T
    keep = np.ones(len(rows), dtype=bool)
    for name, column in zip(BASE, table, strict=True):
        keep &= axes.allows(name, column)
    return dict(zip(BASE, table[:, keep], strict=True))


def _groups(base: dict[str, Column], axes: Axes) -> Groups:
    """Divisors of the replicas; a group of one is no sharding, and so is ZeRO with a single replica."""
    kinds: list[tuple[int, int]] = []
    start, count, whole = [], [], []
    for index, replicas in enumerate((base["dp"] * base["cp"]).tolist()):
        sizes = [size for size in divisors(replicas) if size > 1 or (replicas == 1 and 0 not in axes.choices["zero"])]
        named = [size for size in sizes if axes.allows("shard_group", np.array([size]))[0]]
        start.append(len(kinds))
        count.append(len(named))
        own = named if replicas in named else [*named, replicas]
        whole.append(start[-1] + own.index(replicas))
        kinds += [(index, size) for size in own]
    table = np.array(kinds, dtype=np.int64).reshape(-1, 2)
    return Groups(table[:, 0], table[:, 1], *(np.array(each, dtype=np.int64) for each in (start, count, whole)))


def _expand(rows: Column, values: Sequence[Iterable[int]]) -> tuple[Column, Column]:
    """Each row once for each of its values."""
    lists = [tuple(each) for each in values]
    repeats = np.array([len(each) for each in lists], dtype=np.int64)
    flat = np.array([value for each in lists for value in each], dtype=np.int64)
    return np.repeat(rows, repeats), flat


def _parts(total: int, size: int) -> Iterator[slice]:
    for begin in range(0, total, size):
        yield slice(begin, begin + size)


def _parts_of(ends: Column, size: int) -> Iterator[slice]:
    """Slices of rows that have about ``size`` candidates each."""
    begin, total = 0, int(ends[-1]) if len(ends) else 0
    while begin < len(ends):
        done = int(ends[begin - 1]) if begin else 0
        if done >= total:
            return
        stop = max(int(np.searchsorted(ends, done + size, side="right")), begin + 1)
        yield slice(begin, stop)
        begin = stop
