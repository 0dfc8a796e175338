"""What a machine must state, and a strategy must be, for states to leave the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.specs.offload import STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.specs import Hardware

    Fault = tuple[str, Any, Callable[[], str], Any]
    """The field that a rule blames, where it is broken, what to tell of it, and a value of the field that says where it stands."""


def offload_faults(strategy: Any, hardware: Hardware) -> Iterator[Fault]:
    """Rules for what a strategy keeps off its devices, or anything with the same fields."""
    off, host = strategy.keeps_off, hardware.host
    if not off.tiers:
        return
    blamed = next(off.tier(state) for state in STATES if off.tier(state) != "none")
    needs = {
        "device_link": (host.device_link, "63 GB/s"),
        "memory": (host.memory, "2 TB"),
        **({"storage": (host.storage, "{capacity: 30 TB, read: 25 GB/s, write: 12 GB/s}")} if "nvme" in off.tiers else {}),
        **({"copies.update": (host.takes.update, "200 GB/s")} if off.updates_on_host else {}),
    }  # fmt: skip
    for path, (value, example) in needs.items():
        message = (
            f"{hardware.name} states no host.{path}, which {off} needs; give it, as hardware.host.{path}={example}"
        )
        yield "offload", np.asarray(value is None), message.__str__, blamed
    if strategy.sync != "all-reduce" and {off.optimizer, off.parameters} != {"none"}:
        message = f"{strategy.sync} has its own place for states; take sync all-reduce, or offload activations alone"
        yield "offload", np.asarray(True), message.__str__, blamed  # noqa: FBT003 - a mask
