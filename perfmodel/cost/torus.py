"""A job on a torus: the slice that it gets, and the axes of the slice along which a group's members stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import permutations
from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.topology import torus_axis_bandwidth, torus_bandwidth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfmodel.parallel import Group
    from perfmodel.specs.network import Tier
    from perfmodel.units import BytesPerSecond, Count


Place = tuple[int, float, int]
"""Members along an axis, their spacing, and 1 where they go all around it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A group along one axis of a torus."""

    members: Count
    spacing: Count
    """Devices from one member to the next."""
    bandwidth: BytesPerSecond
    """Of the group there, both directions together."""


def axes_of(tier: Tier, group: Group, members: Count) -> tuple[Axis, ...]:
    """The axes of a slice, in the order in which ranks fill it, with the members of a group along each.

    The slice is the most cubic box that holds the job. Ranks fill its axes one after the other, in the order that gives
    the group most, as compilers lay degrees along axes of their size. An axis closes to a ring where the group
    goes all around it and the slice has the links that wrap.
    """
    base = tier.devices + 1  # so that one number tells three; each distinct group is placed once
    job = np.maximum(group.job, np.maximum(group.size * group.stride, group.rows * group.apart))
    stride = np.where(np.asarray(members) > 1, group.stride, 1)
    whole = (np.asarray(np.ceil(x), dtype=np.int64) for x in (members, stride, np.clip(job, 1, tier.devices)))
    key = reduce(lambda above, below: above * base + below, whole)
    distinct, index = np.unique(key, return_inverse=True)
    shape, cube = tuple(map(int, tier.shape or ())), int(tier.links[0].cube or 0)
    placed = np.array([_placed(shape, cube, *(int(x) // base**n % base for n in (2, 1, 0))) for x in distinct])
    along, spacing, closed = np.moveaxis(placed[index].reshape(*np.shape(key), len(shape), 3), (-1, -2), (0, 1))
    usable = tier.links[0].usable
    widths = [torus_axis_bandwidth(members=m, spacing=s, closed=c, bandwidth=usable)
              for m, s, c in zip(along, spacing, closed, strict=True)]  # fmt: skip
    return tuple(map(Axis, along, np.where(along > 1, spacing, 0), widths))


@lru_cache(maxsize=65536)
def _placed(shape: tuple[int, ...], cube: int, members: int, stride: int, job: int) -> tuple[Place, ...]:
    """A group's members along each axis, their spacing, and whether they go all around: in the best order of the axes."""
    extents = tuple(map(int, slices(shape, max(cube, 1))[job]))
    wraps = [not any(extent % cube for extent in extents) if cube else extent in shape for extent in extents]
    orders = permutations(zip(extents, wraps, strict=True))
    return max((_filled(members, stride, tuple(axes)) for axes in orders), key=_links_used)


def _filled(members: int, stride: int, axes: tuple[tuple[int, bool], ...]) -> tuple[Place, ...]:
    """Along the axes of a slice which ranks fill in this order."""
    found: list[Place] = []
    below = 1
    for extent, wraps in axes:
        spacing = min(max(stride / below, 1), extent)
        reach = min(max(members * stride / below, 1), extent) if members > 1 else 1
        along = max(ceil(reach / spacing), 1)
        found.append((along, spacing, int(wraps and along * spacing == extent)))
        below *= extent
    return tuple(found)


def _links_used(places: tuple[Place, ...]) -> float:
    return sum((1 + closed) / spacing for along, spacing, closed in places if along > 1)


def torus_share(tier: Tier, axes: tuple[Axis, ...]) -> BytesPerSecond:
    """What a group along these axes reaches."""
    total: BytesPerSecond = 0.0
    widest: BytesPerSecond = 0.0
    for axis in axes:
        total, widest = total + axis.bandwidth, np.maximum(widest, axis.bandwidth)
    concurrent = tier.links[0].concurrent or len(axes)
    return torus_bandwidth(total=total, widest=widest, concurrent=concurrent) * tier.efficiency


@lru_cache(maxsize=32)
def slices(shape: tuple[int, ...], cube: int) -> NDArray[np.int64]:
    """The box for each number of devices, axes in ascending order: of whole cubes where that is possible, then the most cubic.

    A number that no box has gets the next larger one.
    """
    boxes = 1 + np.stack([axis.ravel() for axis in np.indices(shape)], axis=1)
    broken, spread = (boxes % cube > 0).any(axis=1), boxes.max(axis=1) - boxes.min(axis=1)
    table = np.zeros((prod(shape) + 1, len(shape)), dtype=np.int64)
    for index in np.lexsort((spread, broken))[::-1]:
        table[boxes[index].prod()] = np.sort(boxes[index])
    for devices in range(prod(shape) - 1, -1, -1):
        if not table[devices].any():
            table[devices] = table[devices + 1]
    return table
