"""A job on a torus: the slice that it gets, and the axes of the slice along which a group's members stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.topology import torus_axis_bandwidth

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

    The slice is the most cubic box that holds the job; ranks fill its axes one after the other, shortest first.
    An axis closes to a ring where the group goes all around it and the slice has the links that wrap.
    """
    link = tier.links[0]
    shape = np.asarray(tier.shape)
    job = np.maximum(group.job, np.maximum(group.size * group.stride, group.rows * group.apart))
    extents = slices(tuple(map(int, shape)), int(link.cube or 1))[
        np.clip(np.ceil(job), 1, tier.devices).astype(np.int64)
    ]
    reach = np.where(np.asarray(members) > 1, members * group.stride * 1.0, 1.0)
    found: list[Axis] = []
    below: Count = 1.0
    for axis in range(len(shape)):
        extent = extents[..., axis]
        spacing = np.clip(group.stride / below, 1, extent)
        along = np.maximum(np.ceil(np.clip(reach / below, 1, extent) / spacing), 1)
        wraps = np.all(extents % link.cube == 0, axis=-1) if link.cube else np.isin(extent, shape)
        closed = wraps & (along * spacing == extent)
        width = torus_axis_bandwidth(members=along, spacing=spacing, closed=closed, bandwidth=link.usable)
        found.append(Axis(along, np.where(along > 1, spacing, 0), width))
        below = below * extent
    return tuple(found)


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
