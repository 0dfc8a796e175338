"""What the memory and the drives of a host keep for its devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.capacity import spread_over
from perfmodel.cost.holdings import holdings
from perfmodel.cost.in_flight import layers_in_flight
from perfmodel.cost.offload import HostSide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfmodel.cost.holdings import Holdings
    from perfmodel.parallel import Layout, Share
    from perfmodel.parallel.sharded_state import State
    from perfmodel.specs import Hardware, Strategy
    from perfmodel.units import Bytes, Count

KEPT = ("optimizer", "gradients", "parameters", "activations", "buffers", "tables")
"""What a host keeps: the states, what of those on drives is on its way, and embedding tables with their own."""


@dataclass(frozen=True, slots=True)
class KeptOff:
    """Of one device, bytes by state in the host's memory and on its drives; numbers, or columns."""

    host: Mapping[str, Bytes]
    nvme: Mapping[str, Bytes]


def states_kept_off(held: Holdings, state: State, layout: Layout, strategy: Strategy) -> KeptOff:
    """States that do not hang on microbatches; gradients always pass the memory of a host that steps the optimiser."""
    off, spread = strategy.keeps_off, strategy.sharding
    arriving = state.gradient * off.share("optimizer") * off.updates_on_host
    sizes = {
        "optimizer": spread_over(held.learning, layout, state.optimizer * off.share("optimizer"), spread.optimizer),
        "gradients": spread_over(held.learning, layout, arriving, spread.optimizer),
        "parameters": spread_over(held, layout, state.weight * off.share("parameters"), spread.parameters),
    }
    on_drives = {name: size for name, size in sizes.items() if off.tier(name) == "nvme"}
    in_memory = {name: size for name, size in sizes.items() if name not in on_drives}
    # two layers' worth of what drives keep is in pinned buffers: one is read as one is written
    share = np.minimum(1.0, 2 * held.unit / np.maximum(held.parameters, 1))
    buffers = share * sum(on_drives.values(), start=0.0)
    return KeptOff({**in_memory, "buffers": buffers, "tables": held.tables_off}, on_drives)


def activations_kept_off(held: Holdings, layout: Layout, strategy: Strategy, stage: Count) -> KeptOff:
    """Activations of the microbatches in flight."""
    size = {"activations": layers_in_flight(strategy.schedule, layout, stage) * held.leaving}
    return KeptOff({}, size) if strategy.keeps_off.activations == "nvme" else KeptOff(size, {})


def on_host(hardware: Hardware, devices: Count) -> Count:
    """Devices of a job that keep something on the same host."""
    return HostSide(hardware.host, devices).sharers


def kept_by_hosts(
    share: Share, state: State, layout: Layout, strategy: Strategy, hardware: Hardware
) -> dict[str, dict[str, float]]:
    """Bytes by tier and state on one host, all of whose devices keep as much as those of the stage that keeps most."""
    stages = np.arange(int(layout.pp))
    held = holdings(share, layout, strategy, stages)
    both = states_kept_off(held, state, layout, strategy), activations_kept_off(held, layout, strategy, stages)
    devices = float(on_host(hardware, layout.devices))

    def sizes(tier: str) -> dict[str, float]:
        each = {name: np.broadcast_to(size, len(stages)) for one in both for name, size in getattr(one, tier).items()}
        stage = int(np.argmax(sum(each.values(), start=np.zeros(len(stages)))))
        return {name: devices * float(column[stage]) for name, column in each.items() if column[stage] > 0}

    return {tier: sizes(tier) for tier in ("host", "nvme")}


def off_room(hardware: Hardware, tier: str) -> float:
    """Bytes that a host has for it."""
    host = hardware.host
    drives = 0.0 if host.storage is None else float(host.storage.capacity)
    return drives if tier == "nvme" else float(host.memory or 0.0)
