"""The links of a tier: which devices and switches each kind of link joins, and what one link carries."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from perfmodel.origin import Fraction, Text
from perfmodel.specs.common import Group, Size
from perfmodel.units import BytesPerSecond, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMES = re.compile(r"x([1-9]\d*)")

LONGEST = 100_000
"""Names on one side times characters on the other of an entry of `joins`: files are untrusted."""

Pair = tuple[str, str]


class Link(Group):
    """One kind of link of a tier.

    Links that are listed (`joins`) make a mesh or a tree. Others are regular: those of a torus need
    no list, since the tier's `shape` says what they join; `leaf` makes a leaf-spine fabric; `rates`
    a wide-area network.
    """

    name: Text
    bandwidth: BytesPerSecond
    """Of one link, in each direction."""
    overhead: Annotated[Fraction, Field(ge=0, lt=1)] = 0.0
    """Share of it that headers, acknowledgements and copies on the way take."""
    latency: Seconds | None = None
    """Of one step of a collective over such a link; None is that of the tier."""
    ports: Size | None = None
    """The most of these links that one device has."""
    joins: tuple[Text, ...] = ()
    """What they join: '0 - 1', '0 - 3 x2' for two links side by side, '0 1 - plx0' for several devices and a switch.
    Numbers are devices of the tier; other names are switches, roots and sockets, which pass traffic on."""
    cube: Size | None = None
    """Of a torus that optical switches join: devices along each edge of a cube. A slice of whole cubes closes to rings along
    all axes; without cubes an axis closes where the slice spans the tier."""
    concurrent: Annotated[Fraction, Field(ge=1)] | None = None
    """Of a torus: axes whose links one collective keeps busy at the same time; None: all (rings along all axes at once)."""
    leaf: Size | None = None
    """Of a leaf-spine fabric: devices under one leaf, which reach one another at the full bandwidth of the tier."""
    oversubscription: Annotated[Fraction, Field(ge=1)] = 1.0
    """Of a leaf: bandwidth of its devices over that of its uplinks."""
    rates: tuple[BytesPerSecond, ...] = ()
    """Of a wide-area network: the bandwidth of each site's link; a ring is as fast as the slowest."""

    @property
    def usable(self) -> float:
        """Bytes per second that one link carries in each direction."""
        return float(self.bandwidth) * (1 - self.overhead)

    @property
    def pairs(self) -> Iterator[tuple[Text, Pair, int]]:
        """Each pair of nodes that it joins: as written, the two names, how many links side by side."""
        for text in self.joins:
            yield from pairs_of(text)


def pairs_of(text: Text) -> Iterator[tuple[Text, Pair, int]]:
    """The pairs that one entry of `joins` names; nothing where it does not read as '0 - 1'."""
    left, _, right = str(text).partition("-")
    names = right.split()
    times = _TIMES.fullmatch(names[-1]) if len(names) > 1 else None
    if times:
        names.pop()
    if len(names) * len(left) > LONGEST:
        return
    for one, other in product(left.split(), names):
        yield text, (one, other), int(times[1]) if times else 1


def is_device(node: str) -> bool:
    """Whether a name of `joins` is that of a device."""
    return node.isdigit()
