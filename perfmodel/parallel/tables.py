"""Embedding tables spread over ranks: what each holds and looks up, and how vectors come to the samples that want them.

Ranks of a group hold all tables between them and look up for the batches of all; groups hold copies (2D sparse parallelism,
Zhang et al., 2025, arXiv:2508.03854).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
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
    parts: Count = 1.0
    """Vectors that leave the ranks for each that a sample wants."""


def packed(shapes: tuple[Shape, ...], ranks: Count, *, even: bool = False) -> Packing:
    """Whole tables to so many ranks, a number or a column; if even, those with more work than the mean in pieces of their rows.

    >>> from perfmodel.specs.recommender import Shape
    >>> packed(tuple(Shape(1000, 64, 1, 0.0) for _ in range(26)), 8).load
    array(1.23076923)
    >>> hot = (Shape(1000, 64, 13, 0.0), *(Shape(1000, 64, 1, 0.0) for _ in range(13)))
    >>> [float(packed(hot, 4, even=even).load) for even in (False, True)]
    [2.0, 1.0769230769230769]
    """
    distinct, place = np.unique(np.asarray(ranks, dtype=int), return_inverse=True)
    found = np.array([_packed(shapes, int(one), even) for one in distinct])[place].reshape(*np.shape(ranks), 3)
    return Packing(found[..., 0], found[..., 1], found[..., 2])


@lru_cache(maxsize=4096)
def _packed(shapes: tuple[Shape, ...], ranks: int, even: bool) -> Packing:
    """The most work first, to the rank with the least so far; of equal ones the largest, to that with the fewest bytes."""
    mean = sum(s.lookups * s.width for s in shapes) / ranks
    cuts = [max(1, min(ranks, ceil(s.lookups * s.width / mean))) if even else 1 for s in shapes]
    pieces = [
        (s.lookups * s.width / n, s.rows * s.width / n) for s, n in zip(shapes, cuts, strict=True) for _ in range(n)
    ]
    wanted = sorted(pieces, reverse=True)
    parts = sum(s.width * n for s, n in zip(shapes, cuts, strict=True)) / sum(s.width for s in shapes)
    bins = np.zeros((ranks, 2))
    for work, size in wanted:
        bins[np.lexsort((bins[:, 1], bins[:, 0]))[0]] += work, size
    load, fullness = bins.max(axis=0) / bins.mean(axis=0)
    return Packing(load, fullness, parts)


def _apart(op: Tables, sharding: TableSharding) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Tables that are spread, in slices, and those that every rank has; at least one is spread."""
    most = sharding.copied or 0.0
    small = tuple(shape for shape in op.shapes if shape.rows * shape.width * op.number <= most)
    if len(small) == len(op.shapes):
        small = ()
    large = tuple(shape for shape in op.shapes if shape not in small)
    return sliced(replace(op, shapes=large), sharding.slice), small


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
    shapes, copies = _apart(op, sharding)
    whole = {"table": ranks, "table-row": ranks / np.asarray(host)}.get(str(sharding.by))
    packing = Packing(1.0, 1.0) if whole is None else packed(shapes, whole, even=bool(sharding.even))
    return replace(
        op, shapes=shapes, copies=copies, sparse=sharding.update == "sparse", parts=packing.parts, ranks=ranks, load=packing.load, fullness=packing.fullness,
        pieces=ranks if sharding.by == "column" else 1, popular=sharding.by == "hybrid",
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
        return (*map(_reversed, vectors[::-1]), *_copied(held, groups, under))
    ids = INDEX * held.batch * held.lookups * held.pieces
    early = ELSEWHERE if sharding.overlap == "bottom" else ""
    return (Message("table ids", "all-to-all", ids, groups.exchange, early, held.load), *vectors)


def _copied(held: Tables, groups: TableGroups, under: str) -> tuple[Message, ...]:
    """Gradients of what all ranks have: whole tables, or the popular rows."""
    numbers = sum(shape.rows * shape.width for shape in held.copies) + held.popular_numbers
    if not (held.copies or held.popular):
        return ()
    layout = groups.layout
    replicas = Group(layout.dp, 1, job=layout.devices)
    return (Message("table copies all-reduce", "all-reduce", numbers * held.element, replicas, under),)


def _vectors(held: Tables, groups: TableGroups, sharding: TableSharding, under: str) -> tuple[Message, ...]:
    """Whole vectors or columns of them are dealt out; parts of sums are added up on the way."""
    own = held.batch * held.travelling * held.element * held.parts
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
