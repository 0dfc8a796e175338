"""Embedding tables spread over ranks: what each holds and looks up, and how vectors come to the samples that want them.

Ranks of a group hold all tables between them and look up for the batches of all; groups hold copies (2D sparse parallelism,
Zhang et al., 2025, arXiv:2508.03854).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfmodel.graph.tables import INDEX, Tables
from perfmodel.parallel.layout import Group
from perfmodel.parallel.messages import ELSEWHERE, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.graph.ops import Op
    from perfmodel.parallel.layout import Layout
    from perfmodel.specs.recommender import Shape
    from perfmodel.specs.tables import TableSharding
    from perfmodel.units import Bytes, Count


@dataclass(frozen=True, slots=True)
class TableGroups:
    """Who holds and who exchanges what, among data-parallel replicas."""

    layout: Layout
    sharding: TableSharding

    @property
    def size(self) -> Count:
        """Ranks that hold all tables between them."""
        if self.sharding.by == "replicated":
            return 1
        return self.layout.dp if self.sharding.group is None else self.sharding.group

    @property
    def copies(self) -> Group:
        """Ranks that hold the same: neighbours, as 2D sparse parallelism wants them, since weights are more than vectors."""
        return Group(self.layout.dp / np.asarray(self.size), 1, job=self.layout.devices)

    @property
    def exchange(self) -> Group:
        """Ranks among which vectors travel, each a copy's ranks from the next."""
        return Group(self.size, self.copies.size, job=self.layout.devices)

    @property
    def inside(self) -> Group:
        """Of them, those in one host."""
        return self.exchange.inside(self._host)

    @property
    def outside(self) -> Group:
        """One rank of each host, among those that vectors travel between."""
        return self.exchange.outside(self._host)

    @property
    def _host(self) -> Count:
        return self.layout.host or self.layout.devices


class Packing(NamedTuple):
    """What the fullest of several ranks has, over the mean."""

    load: Count
    """Of the work."""
    fullness: Count
    """Of the bytes."""


def packed(shapes: tuple[Shape, ...], ranks: Count) -> Packing:
    """Whole tables to so many ranks, a number or a column.

    >>> from perfmodel.specs.recommender import Shape
    >>> packed(tuple(Shape(1000, 64, 1, 0.0) for _ in range(26)), 8).load
    array(1.23076923)
    """
    distinct, place = np.unique(np.asarray(ranks, dtype=int), return_inverse=True)
    found = np.array([_packed(shapes, int(one)) for one in distinct])[place].reshape(*np.shape(ranks), 2)
    return Packing(found[..., 0], found[..., 1])


@lru_cache(maxsize=4096)
def _packed(shapes: tuple[Shape, ...], ranks: int) -> Packing:
    """The most work first, to the rank with the least so far; of equal ones the largest, to that with the fewest bytes."""
    wanted = sorted(((s.lookups * s.width, s.rows * s.width) for s in shapes), reverse=True)
    bins = np.zeros((ranks, 2))
    for work, size in wanted:
        bins[np.lexsort((bins[:, 1], bins[:, 0]))[0]] += work, size
    return Packing(*(bins.max(axis=0) / bins.mean(axis=0)))


def sliced(op: Tables, most: Bytes | None) -> tuple[Shape, ...]:
    """Tables, those that are larger than so many bytes cut by columns into the fewest pieces that are not."""
    if most is None:
        return op.shapes
    return tuple(
        piece for shape in op.shapes for piece in _cut(shape, int(-(-shape.rows * shape.width * op.number // most)))
    )


def _cut(shape: Shape, pieces: int) -> Iterator[Shape]:
    """Columns dealt out as evenly as they go; none of no width."""
    widths = (len(range(piece, shape.width, pieces)) for piece in range(pieces))
    yield from (shape._replace(width=width) for width in widths if width)


def shard(op: Op, layout: Layout, sharding: TableSharding) -> Op:
    """What the fullest rank of a group holds and looks up."""
    if not isinstance(op, Tables):
        return op
    groups = TableGroups(layout, sharding)
    ranks, host = groups.size, groups.inside.size
    shapes = sliced(op, sharding.slice)
    whole = {"table": ranks, "table-row": ranks / np.asarray(host)}.get(str(sharding.by))
    packing = Packing(1.0, 1.0) if whole is None else packed(shapes, whole)
    return replace(
        op, shapes=shapes, ranks=ranks, load=packing.load, fullness=packing.fullness,
        pieces=ranks if sharding.by == "column" else 1,
        partial={"row": ranks, "table-row": host}.get(str(sharding.by), 1),
        kept=sharding.on_device, hit_rate=None if sharding.hit_rate is None else float(sharding.hit_rate),
    )  # fmt: skip


def messages(held: Op, layout: Layout, sharding: TableSharding, *, backward: bool) -> tuple[Message, ...]:
    """Vectors to their samples, or their gradients to the tables; before the forward pass the ids.

    Args:
        held: what one rank has of the tables.
        layout: degrees.
        sharding: how tables are spread.
        backward: gradients, which go the other way.
    """
    if not isinstance(held, Tables):
        return ()
    groups = TableGroups(layout, sharding)
    under = held.under if sharding.overlap == "bottom" else ""
    vectors = _vectors(held, groups, sharding, under)
    if backward:
        return tuple(map(_reversed, vectors[::-1]))
    ids = INDEX * held.batch * held.lookups * held.pieces
    early = ELSEWHERE if sharding.overlap == "bottom" else ""
    return (Message("table ids", "all-to-all", ids, groups.exchange, early, held.load), *vectors)


def _vectors(held: Tables, groups: TableGroups, sharding: TableSharding, under: str) -> tuple[Message, ...]:
    """Whole vectors or columns of them are dealt out; parts of sums are added up on the way."""
    own = held.batch * held.vectors * held.element
    match sharding.by:
        case "row":
            return (Message("table reduce-scatter", "reduce-scatter", own * groups.size, groups.exchange, under),)
        case "table-row":
            return (
                Message("table reduce-scatter", "reduce-scatter", own * held.partial * held.load, groups.inside, under),
                Message("table all-to-all", "all-to-all", own, groups.outside, under, held.load),
            )
        case _:
            return (Message("table all-to-all", "all-to-all", own, groups.exchange, under, held.load),)


def _reversed(message: Message) -> Message:
    """Of gradients: what was added up is handed to all."""
    if message.collective != "reduce-scatter":
        return message
    return replace(message, name="table all-gather", collective="all-gather")
