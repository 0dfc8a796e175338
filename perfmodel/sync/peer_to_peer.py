"""Peer to peer: every host sends its whole gradient to every other, and adds up what it gets.

The devices of a host reduce among themselves first; each then exchanges its part with those of the other hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.ports import ports
from perfmodel.formulas.parameter_server import full_exchange
from perfmodel.formulas.roofline import streaming
from perfmodel.sync.replicas import KIND, Synchronisation
from perfmodel.timeline import Serial, term

if TYPE_CHECKING:
    from perfmodel.sync.replicas import Replicas


def synchronise(replicas: Replicas) -> Synchronisation:
    """The full exchange, the sum on each device and the optimiser step."""
    device, group, size = replicas.hardware.device, replicas.layout.replicas, replicas.gradient
    way = ports(replicas.hardware, group)
    travel = term(
        "full exchange", full_exchange, kind=KIND,
        size=size, workers=way.hosts, bandwidth=way.host_share, latency=way.latency,
    )  # fmt: skip
    several = np.asarray(way.hosts) > 1
    add = term(
        "sum over hosts", streaming, kind="memory-bound", traffic=several * (way.hosts + 1) * size / way.inside,
        bandwidth=device.memory.bandwidth, fraction=device.efficiency.streaming.fraction,
        launch=several * device.efficiency.launch.time,
    )  # fmt: skip
    before = replicas.message("reduce-scatter in hosts", "reduce-scatter", size, way.local)
    after = replicas.message("all-gather in hosts", "all-gather", size, way.local)
    exchange = Serial("peer to peer", (before, travel, add, after))
    return Synchronisation((), (), (exchange,), (replicas.tied_embedding(), replicas.optimizer_step()))
