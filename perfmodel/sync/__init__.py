"""How replicas agree on the weights after each step: one file for each protocol, and the table of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.sync import all_reduce, parameter_server, peer_to_peer
from perfmodel.sync.replicas import Replicas, Synchronisation

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfmodel.specs.strategy import Sync

PROTOCOLS: dict[Sync, Callable[[Replicas], Synchronisation]] = {
    "all-reduce": all_reduce.synchronise,
    "parameter-server": parameter_server.synchronise,
    "peer-to-peer": peer_to_peer.synchronise,
}
"""What `sync` of a strategy means."""

__all__ = ["PROTOCOLS", "Replicas", "Synchronisation", "synchronise"]


def synchronise(replicas: Replicas) -> Synchronisation:
    """What the protocol that the strategy names adds to a step."""
    made = PROTOCOLS[replicas.strategy.sync](replicas)
    made = replace(made, after=(*made.after, *replicas.weight_loop()))
    if replicas.strategy.schedule == "dual-pipe":
        return replace(made, gradients=(replicas.mirrored(), *made.gradients))
    return made
