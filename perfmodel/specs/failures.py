"""How often parts of a job break, and what a checkpoint and a restart take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from perfmodel.origin import Integer
from perfmodel.specs.common import Group, Positive, Share, Size
from perfmodel.units import Bytes, BytesPerSecond, Seconds
from perfmodel.yamlfile import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator


class Failures(Group):
    """How often parts break, and what a checkpoint and a restart take."""

    device_mtbf: Seconds | None = None
    """Mean time between failures of one device."""
    node_mtbf: Seconds | None = None
    """Of one host with its network, its devices left out."""
    storage_bandwidth: BytesPerSecond
    """Of checkpoints of the whole job."""
    checkpoint_size: Bytes | None = None
    """Default: weights and optimiser states, by the memory model."""
    stall: Share = 1.0
    """Of the time to write a checkpoint in which the training stands still; small where it is written in the background."""
    interval: Seconds | None = None
    """Of work between checkpoints; default the best, by Daly."""
    restart: Seconds
    """From a failure to the first step after it, reading the checkpoint left out."""
    spares: Annotated[Integer, Field(ge=0, le=100_000)] | None = None
    """Nodes that stand by; None is always enough."""
    repair: Seconds | None = None
    """Mean time until a failed node is back."""
    steps: Size | None = None
    """Of the whole training, for its time, where the workload does not state it; or"""
    samples: Positive | None = None
    """so many samples, or"""
    tokens: Positive | None = None
    """tokens."""


def failure_faults(failures: Failures) -> Iterator[Fault]:
    """Rates of nothing, spare nodes that nobody repairs, a length of the training that is given twice."""
    if failures.device_mtbf is None and failures.node_mtbf is None:
        yield Fault("failures", "needs device_mtbf or node_mtbf")
    for name in ("device_mtbf", "node_mtbf", "storage_bandwidth", "interval", "repair"):
        value = getattr(failures, name)
        if value is not None and not value > 0:
            yield Fault(f"failures.{name}", "must be greater than 0", value)
    if failures.spares is not None and failures.repair is None:
        yield Fault("failures.spares", "needs 'repair', the time until a failed node is back", failures.spares)
    given = [name for name in ("steps", "samples", "tokens") if getattr(failures, name) is not None]
    if len(given) > 1:
        yield Fault(f"failures.{given[1]}", f"stands beside {given[0]}; the length of the training is given once")
