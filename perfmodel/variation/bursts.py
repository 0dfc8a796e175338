"""Burst parallel training: each layer on as many devices as pay for it, so that the others are free for other jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: what it takes on each number of devices that a plan may choose from."""

    times: tuple[float, ...]
    """Of computing its share of the batch, forward and backward."""
    syncs: tuple[float, ...]
    """To agree on its gradients."""
    handover: float
    """To bring its input to another number of devices."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Devices of each layer and what the iteration takes."""

    devices: tuple[int, ...]
    time: float
    device_seconds: float
    """For which the job holds devices; the rest of devices x time is free."""

    def cluster_throughput(self, devices: int, alone: float) -> float:
        """Work of the cluster over that of the job spread over all devices in ``alone`` seconds.

        Free device-seconds do as much work as those of a job on one device: an upper bound.
        """
        free = devices * self.time - self.device_seconds
        own = 1 / self.time
        return (own + free / self.time / (devices * alone)) * alone


def burst(layers: Sequence[Layer], devices: Sequence[int], *, amplification: float = np.inf) -> Burst:
    """Devices for each layer that make the iteration shortest.

    Args:
        layers: in their order; each follows the one before.
        devices: numbers to choose from, the first being 1.
        amplification: most device-seconds that a layer may take, over those on one device.

    Exact by dynamic programming over layers and numbers of devices. The costs are those of the planner of Park et al., Efficient strong
    scaling through burst parallel training (DeepPool), MLSys 2022 (arXiv:2112.10065).

    >>> first, second = Layer((8.0, 4.0), (0.0, 0.1), 0.2), Layer((1.0, 0.95), (0.0, 1.0), 0.2)
    >>> burst([first, second], [1, 2]).devices
    (2, 1)
    """
    count = np.asarray(devices, dtype=float)
    stay = np.eye(len(devices), dtype=bool)
    best, choices = np.zeros(len(devices)), []
    for index, layer in enumerate(layers):
        own = np.asarray(layer.times) + np.asarray(layer.syncs)
        spent = own * count / own[0]
        own = np.where(spent <= amplification * (1 + 1e-12), own, np.inf)
        moved = np.where(stay | (index == 0), 0.0, layer.handover) + best[:, None]
        choices.append(np.argmin(moved, axis=0))
        best = moved.min(axis=0) + own
    path = [int(np.argmin(best))]
    for choice in reversed(choices[1:]):
        path.append(int(choice[path[-1]]))
    path.reverse()
    seconds = sum(
        (layer.times[at] + layer.syncs[at]) * devices[at] + (0 if index == 0 or path[index - 1] == at else layer.handover * devices[at])
        for index, (layer, at) in enumerate(zip(layers, path, strict=True))
    )  # fmt: skip
    return Burst(tuple(devices[at] for at in path), float(best.min()), float(seconds))
