"""Rings through a mesh of links, counted as NCCL counts them.

NCCL 2 searches for edge-disjoint rings through all ranks over their direct links; each ring takes one link out of
and one link into every rank. For up to four ranks it also tries links cut in halves, which is how four devices
of a cube mesh use all three links of each (NVIDIA, NCCL 2.0 to 2.4, src/transport/p2p.cu).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

Edge = tuple[int, int]
Links = Mapping[Edge, int]
"""How many links lead from one node to another; both ways are listed."""

HALVES = 4
"""Ranks up to which links are cut in halves."""
ENUMERATED = 8
"""Ranks up to which all rings are tried together; above, one ring after the other is taken."""
STEPS = 20_000
"""After which a search gives the best that it has found."""


def rings(nodes: tuple[int, ...], links: Links) -> float:
    """The most edge-disjoint directed rings through all ``nodes``; half rings count for up to four.

    >>> pair, triangle = {(0, 1): 2}, {(0, 1): 1, (0, 2): 1, (1, 2): 1}
    >>> both = lambda half: {**half, **{(b, a): number for (a, b), number in half.items()}}
    >>> rings((0, 1), both(pair)), rings((0, 1, 2), both(triangle))
    (2.0, 2.0)
    """
    inside = {edge: links[edge] for a in nodes for b in nodes if (edge := (a, b)) in links and a != b}
    numbers = set(inside.values())
    if len(numbers) == 1 and len(inside) == len(nodes) * (len(nodes) - 1):
        return float(numbers.pop() * (len(nodes) - 1))  # complete: all rings together use each link equally
    whole = float(_packed(nodes, inside))
    if len(nodes) > HALVES:
        return whole
    return max(whole, _packed(nodes, {edge: 2 * number for edge, number in inside.items()}) / 2)


def _packed(nodes: tuple[int, ...], links: Links) -> int:
    bound = _degree(nodes, links)
    if not bound:
        return 0
    if len(nodes) > ENUMERATED:
        return _greedy(nodes, dict(links))
    return _Packing(list(_through(nodes, links)), bound).most(dict(links), nodes)


def _degree(nodes: tuple[int, ...], links: Links) -> int:
    """Links of the node that has the fewest: no more rings than these can be."""
    return min(sum(number for (a, _), number in links.items() if a == node) for node in nodes)


def _through(nodes: tuple[int, ...], links: Links) -> Iterator[tuple[Edge, ...]]:
    """Every directed ring through all nodes, begun at the first; of many nodes, those that a bounded search finds."""
    steps = count()

    def onward(path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if next(steps) > STEPS:
            return
        if len(path) == len(nodes):
            if links.get((path[-1], path[0])):
                yield path
            return
        for node in nodes:
            if node not in path and links.get((path[-1], node)):
                yield from onward((*path, node))

    for path in onward(nodes[:1]):
        yield tuple(zip(path, (*path[1:], path[0]), strict=True))


def _greedy(nodes: tuple[int, ...], links: dict[Edge, int]) -> int:
    """Rings taken one after the other, each the first that is found."""
    found = 0
    while ring := next(_through(nodes, links), None):
        for edge in ring:
            links[edge] -= 1
        found += 1
    return found


@dataclass(slots=True)
class _Packing:
    """The search for the most rings that share no link: branch and bound."""

    ways: list[tuple[Edge, ...]]
    bound: int
    best: int = 0
    steps: int = 0

    def most(self, left: dict[Edge, int], nodes: tuple[int, ...]) -> int:
        self._take(0, 0, left, nodes)
        return self.best

    def _take(self, first: int, taken: int, left: dict[Edge, int], nodes: tuple[int, ...]) -> None:
        self.best = max(self.best, taken)
        self.steps += 1
        for index in range(first, len(self.ways)):
            done = self.best == self.bound or self.steps > STEPS
            if done or taken + _degree(nodes, left) <= self.best:
                return
            way = self.ways[index]
            if all(left[edge] for edge in way):
                self._take(index, taken + 1, left | {edge: left[edge] - 1 for edge in way}, nodes)
