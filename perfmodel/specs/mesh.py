"""Listed links as a graph: what a ring, or a message to a neighbour, gets between the devices of a tier."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from math import isnan, nan
from typing import TYPE_CHECKING

from perfmodel.specs.links import is_device
from perfmodel.specs.rings import rings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perfmodel.specs.links import Link, Pair

Members = tuple[int, ...]
Stride = tuple[int, int, int, int]
"""Members and stride of a group inside one tier; then, where they are not evenly spaced, how many such rows, how far apart."""
Crossing = tuple[int, bool]
"""A branch of the tree and the direction: whether traffic leaves its side."""


@dataclass(frozen=True, slots=True)
class Way:
    """What one step of a ring, or one message, gets."""

    bandwidth: float
    latency: float
    """That of the slowest link, or nan where the links state none."""


NOWHERE = Way(0.0, nan)
NOBODY: Mapping[Crossing, int] = {}


@dataclass(frozen=True, slots=True)
class Branch:
    """A link of the tree through switches and sockets, and the devices on one side of it."""

    way: Way
    devices: frozenset[int]


@dataclass(frozen=True)
class Mesh:
    """Devices with direct links, and a tree through switches and sockets for what has none."""

    devices: int
    links: tuple[Link, ...]

    @cached_property
    def kinds(self) -> tuple[tuple[Way, Counter[tuple[int, int]]], ...]:
        """Direct links by kind: what one gives, and how many lead from one device to another."""
        found = []
        for link in self.links:
            direct: Counter[tuple[int, int]] = Counter()
            for _, (a, b), times in link.pairs:
                if is_device(a) and is_device(b):
                    direct.update({(int(a), int(b)): times, (int(b), int(a)): times})
            if direct:
                found.append((_way(link), direct))
        return tuple(found)

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Of the tree: where several ways lead through switches, traffic takes the widest."""
        ends: dict[Pair, Way] = {}
        for link in self.links:
            for _, (a, b), times in link.pairs:
                if not (is_device(a) and is_device(b)):
                    before = ends.get((min(a, b), max(a, b)), NOWHERE)
                    ends[min(a, b), max(a, b)] = _beside([before, _way(link, times)])
        kept = _widest_tree({pair: way.bandwidth for pair, way in ends.items()})
        sides = [side(pair[0], [other for other in kept if other != pair]) for pair in kept]
        devices = [frozenset(int(node) for node in nodes if is_device(node)) for nodes in sides]
        return tuple(Branch(ends[pair], inside) for pair, inside in zip(kept, devices, strict=True))

    @cached_property
    def rooted(self) -> bool:
        """Whether switches and sockets join all devices."""
        pairs = [pair for link in self.links for _, pair, _ in link.pairs if not all(map(is_device, pair))]
        return {str(device) for device in range(self.devices)} <= side("0", pairs)

    @cache  # noqa: B019 - meshes are made once for each tier
    def ring(self, stride: Stride) -> Way:
        """The slowest of the rings of all groups with these strides, which communicate at the same time.

        Where the groups do not fill the tier, as with five of eight devices, only the first is there.
        """
        return self._slowest(_groups(self.devices, stride), self._rings, closed=True)

    @cache  # noqa: B019 - meshes are made once for each tier
    def neighbour(self, stride: Stride) -> Way:
        """The slowest of the messages that members send to the next of their groups, all at the same time."""
        groups = _groups(self.devices, stride)
        hops: list[Members] = [hop for group in groups for hop in pairwise(group)]
        return self._slowest(hops, self._joined, closed=False)

    def _slowest(self, ways: list[Members], direct: Callable[[Members], Way], *, closed: bool) -> Way:
        """Each way takes its direct links, or the tree where that gives more; branches are shared by all that cross them."""
        crossed = {way: self._crossed(way, closed=closed) for way in ways}
        straight = {way: direct(way) for way in ways}
        through = [way for way in ways if self._narrowest(crossed[way]).bandwidth > straight[way].bandwidth]
        load = Counter(crossing for way in through for crossing in crossed[way])
        taken = [self._narrowest(crossed[way], load) if way in through else straight[way] for way in ways]
        return min(taken, key=lambda way: way.bandwidth)

    def _rings(self, members: Members) -> Way:
        """Rings over direct links, of the kind of link that gives most; faster kinds serve as slower ones."""
        best = NOWHERE
        for unit, _ in self.kinds:
            links: Counter[tuple[int, int]] = Counter()
            used = [(way, pairs) for way, pairs in self.kinds if way.bandwidth >= unit.bandwidth]
            for way, pairs in used:
                number = int(way.bandwidth / unit.bandwidth)
                links.update({pair: times * number for pair, times in pairs.items()})
            found = Way(rings(members, links) * unit.bandwidth, _latest(way.latency for way, _ in used))
            best = max(best, found, key=lambda way: way.bandwidth)
        return best

    def _joined(self, hop: Members) -> Way:
        """All direct links between two devices."""
        return _beside(
            Way(way.bandwidth * times, way.latency) for way, pairs in self.kinds if (times := pairs[hop[0], hop[1]])
        )

    def _crossed(self, members: Members, *, closed: bool) -> frozenset[Crossing]:
        """Branches with members on either side: a ring crosses them both ways, a message one way."""
        found: set[Crossing] = set()
        for index, branch in enumerate(self.branches):
            within = [member in branch.devices for member in members]
            if any(within) and not all(within):
                found |= {(index, True), (index, False)} if closed else {(index, within[0])}
        return frozenset(found)

    def _narrowest(self, crossed: frozenset[Crossing], load: Mapping[Crossing, int] = NOBODY) -> Way:
        """Of the branches that are crossed, each shared by as many as the load says."""
        if not self.rooted:
            return NOWHERE
        ways = [(self.branches[index].way, load.get((index, out), 1)) for index, out in crossed]
        bandwidth = min((way.bandwidth / sharing for way, sharing in ways), default=0.0)
        return Way(bandwidth, _latest(way.latency for way, _ in ways))


@lru_cache(maxsize=256)
def mesh(devices: int, links: tuple[Link, ...]) -> Mesh:
    """The mesh of a tier, made once."""
    return Mesh(devices, links)


def side(start: str, pairs: list[Pair]) -> set[str]:
    """The nodes that can be reached from one of them."""
    found = {start}
    while more := {node for pair in pairs if found & {*pair} for node in pair} - found:
        found |= more
    return found


def _groups(devices: int, stride: Stride) -> list[Members]:
    """Groups that fill the tier, or the first alone where they do not."""
    members, step, rows, apart = stride
    shape = [i * step + j * apart for j in range(rows) for i in range(members)]
    block = max(apart * rows if rows > 1 else step * members, max(shape) + 1)
    found: list[Members] = []
    for start in range(block):
        group = tuple(start + offset for offset in shape)
        if group[-1] < block and not any(start in other for other in found):
            found.append(group)
    if devices % block:
        return found[:1]
    return [tuple(base + member for member in group) for base in range(0, devices, block) for group in found]


def _way(link: Link, times: int = 1) -> Way:
    return Way(link.usable * times, nan if link.latency is None else float(link.latency))


def _beside(ways: Iterable[Way]) -> Way:
    """Links side by side."""
    both = list(ways)
    return Way(sum(way.bandwidth for way in both), _latest(way.latency for way in both))


def _latest(latencies: Iterable[float]) -> float:
    """The largest of those that are known."""
    return max((latency for latency in latencies if not isnan(latency)), default=nan)


def _widest_tree(ends: dict[Pair, float]) -> list[Pair]:
    """Kruskal's tree of the widest links: the way between any two nodes is the widest that there is."""
    root: dict[str, str] = {}

    def find(node: str) -> str:
        while (above := root.get(node, node)) != node:
            node = above
        return node

    kept = []
    for pair in sorted(ends, key=lambda pair: -ends[pair]):
        one, other = map(find, pair)
        if one != other:
            root[one] = other
            kept.append(pair)
    return kept
