"""Burst parallel training: each layer on as many devices as pay for it, so that the others are free for other jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.communication import exchange
from perfmodel.cost.compute import Processor
from perfmodel.graph import expand
from perfmodel.parallel import Group, Message
from perfmodel.timeline import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfmodel.graph import Graph
    from perfmodel.parallel.messages import Collective
    from perfmodel.specs import Hardware, Workload

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

    def cluster_gain(self, devices: int, *, alone: float, spread: float) -> float:
        """Work of the cluster, whose free devices run other jobs, over that of this job spread over all of them.

        Args:
            devices: of the cluster.
            alone: time of the iteration on one device.
            spread: on all of them, the gradients averaged.

        Other jobs run at the pace of one device; what sharing a device costs them is left out, so this is an upper bound.
        """
        free = devices * self.time - self.device_seconds
        return (alone + free) / self.time * spread / alone


def layers_of(workload: Workload, hardware: Hardware, batch: int, devices: Sequence[int]) -> list[Layer]:
    """The operations of a network, each on every number of devices that the batch is spread over.

    Args:
        workload: with all its operations on one device.
        hardware: whose kernels and fabric price them.
        batch: samples of the job.
        devices: numbers to choose from, each at most the batch.
    """
    processor = Processor(hardware.device, workload.training.precision)
    graphs = [expand(workload, microbatch=int(np.ceil(batch / n)), fused=True) for n in devices]

    def times(graph: Graph) -> list[float]:
        ops = (op for block in graph.blocks() for op in block.ops * block.repeat)
        return [sum(float(duration(processor.time(k))) for k in (*op.forward(), *op.backward())) for op in ops]

    def message(size: float, count: int, collective: Collective) -> float:
        made = exchange(Message("", collective, size, Group(count, 1)), hardware.network, "data parallel")
        return float(made.time) if count > 1 else 0.0

    columns = list(zip(*map(times, graphs), strict=True))
    ops = [op for block in graphs[0].blocks() for op in block.ops * block.repeat]
    return [
        Layer(
            column,
            tuple(message(4.0 * float(op.parameters), n, "all-reduce") for n in devices),
            message(float(op.saved), 2, "send"),
        )
        for op, column in zip(ops, columns, strict=True)
    ]


def burst(
    layers: Sequence[Layer], devices: Sequence[int], *, amplification: float = np.inf, exempt: float = 0.0
) -> Burst:
    """Devices for each layer that make the iteration shortest.

    Args:
        layers: in their order; each follows the one before.
        devices: numbers to choose from, the first being 1.
        amplification: most device-seconds that a layer may take, over those on one device.
        exempt: layers that take no longer than this on one device are not limited, so that they need not move.

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
        within = np.ones(len(count), dtype=bool) if own[0] <= exempt else own * count <= amplification * own[0]
        own = np.where(within | (count == 1), own, np.inf)
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
