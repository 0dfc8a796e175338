"""A job on a torus: the slice that it gets, and the axes of the slice along which a group's members stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.topology import torus_axis_bandwidth, torus_bandwidth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfmodel.parallel import Group
    from perfmodel.specs.network import Tier
    from perfmodel.units import BytesPerSecond, Count


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
    job = np.maximum(group.job, np.maximum(group.size * group.stride, group.rows * group.apart))
    shape = tuple(map(int, tier.shape or ()))
    extents = slices(shape, int(tier.links[0].cube or 1))[np.clip(np.ceil(job), 1, tier.devices).astype(np.int64)]
    orders = [
        _filled(tier, group, members, extents[..., order]) for order in map(list, permutations(range(len(shape))))
    ]
    totals = np.stack(np.broadcast_arrays(*(sum(axis.bandwidth for axis in axes) for axes in orders)))
    best = totals.argmax(axis=0)
    return tuple(_chosen([axes[index] for axes in orders], best) for index in range(len(shape)))


def _chosen(axes: list[Axis], which: NDArray[np.int64]) -> Axis:
    """Row by row, one of several axes."""

    def pick(values: list[Count]) -> Count:
        table = np.stack(np.broadcast_arrays(*values, which)[:-1])
        return np.asarray(np.take_along_axis(table, np.broadcast_to(which, table.shape[1:])[None], axis=0)[0])

    return Axis(*(pick([getattr(axis, name) for axis in axes]) for name in ("members", "spacing", "bandwidth")))


def _filled(tier: Tier, group: Group, members: Count, extents: NDArray[np.int64]) -> tuple[Axis, ...]:
    """A group along the axes of a slice which ranks fill in this order."""
    link = tier.links[0]
    reach = np.where(np.asarray(members) > 1, members * group.stride * 1.0, 1.0)
    whole = np.all(extents % link.cube == 0, axis=-1) if link.cube else np.bool_(False)  # noqa: FBT003 - no cubes
    found: list[Axis] = []
    below: Count = 1.0
    for axis in range(extents.shape[-1]):
        extent = extents[..., axis]
        spacing = np.clip(group.stride / below, 1, extent)
        along = np.maximum(np.ceil(np.clip(reach / below, 1, extent) / spacing), 1)
        wraps = whole if link.cube else np.isin(extent, np.asarray(tier.shape))
        width = torus_axis_bandwidth(
            members=along, spacing=spacing, closed=wraps & (along * spacing == extent), bandwidth=link.usable
        )
        found.append(Axis(along, np.where(along > 1, spacing, 0), width))
        below = below * extent
    return tuple(found)


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
