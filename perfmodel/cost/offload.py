"""Copies between devices and what their hosts keep for them, and the optimiser on a host's cores, as parts of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.offload import drive_copy, host_copy, host_update
from perfmodel.timeline import Overlap, Part, Serial, Term, term

if TYPE_CHECKING:
    from perfmodel.specs.hardware import Host
    from perfmodel.specs.offload import Tier
    from perfmodel.units import Bytes, BytesPerSecond, Count

KIND = "offload"
"""Of all these terms."""


@dataclass(frozen=True, slots=True)
class HostSide:
    """The memory, drives and cores that a device shares with the others of its host; the rules have made sure that they are stated."""

    host: Host
    devices: Count
    """Of the job, all of which copy at once."""

    @property
    def sharers(self) -> Count:
        """Devices of the job in one host."""
        return np.minimum(self.devices, self.host.devices)

    @property
    def rate(self) -> BytesPerSecond:
        """Of copies to or from one device while all others copy too; of a host without a stated link without bound."""
        host, takes = self.host, self.host.takes
        if host.device_link is None:
            return float("inf")
        most = host.device_link * takes.fraction
        return (
            most
            if takes.uplink is None
            else np.minimum(most, takes.uplink / np.minimum(self.devices, takes.uplink_devices))
        )

    def out(self, name: str, size: Bytes, tier: Tier) -> Part:
        """What a device sends; drives write what has arrived while more arrives."""
        return self._piped(f"{name} to {tier}", self._link(f"{name} to host", size), written=size, tier=tier)

    def back(self, name: str, size: Bytes, tier: Tier) -> Part:
        """What a device fetches; drives read ahead."""
        return self._piped(f"{name} from {tier}", self._link(f"{name} from host", size), read=size, tier=tier)

    def update(self, parameters: Count, traffic: Bytes, *, states: Bytes, weights: Bytes, tier: Tier) -> Part:
        """The optimiser's step on the host's cores; tile by tile states come from drives and go there, and weights to the device.

        Args:
            parameters: that this device leaves to the host.
            traffic: bytes that each takes through the host's memory.
            states: bytes of them, that drives keep.
            weights: bytes that the device wants back.
            tier: where the states are.
        """
        takes = self.host.takes
        step = term(
            "optimizer step on host", host_update, kind=KIND, parameters=parameters, traffic=traffic,
            bandwidth=takes.update, sharers=self.sharers,
        )  # fmt: skip
        parts = Overlap("update on host", (step, self._link("updated weights from host", weights)))
        return self._piped("update on host", parts, written=states, read=states, tier=tier)

    def _link(self, name: str, size: Bytes) -> Term:
        takes, link = self.host.takes, self.host.device_link
        shared = takes.uplink is not None
        return term(
            name, host_copy, kind=KIND, size=size, link=link, fraction=takes.fraction,
            uplink=takes.uplink if shared else link,
            sharers=np.minimum(self.devices, takes.uplink_devices) if shared else 1,
        )  # fmt: skip

    def _piped(self, name: str, part: Part, *, tier: Tier, written: Bytes = 0.0, read: Bytes = 0.0) -> Part:
        """A part with the drives that keep pace with it."""
        storage = self.host.storage
        if tier != "nvme" or storage is None:
            return part
        drives = term(
            f"{name} on drives", drive_copy, kind=KIND, written=written, read=read, write_rate=storage.write,
            read_rate=storage.read, sharers=self.sharers,
        )  # fmt: skip
        return Overlap(name, (part, drives))


def copied(name: str, part: Part, *, out: tuple[Part, ...] = (), back: tuple[Part, ...] = ()) -> Part:
    """A part with copies beside it; a link carries both directions at once."""
    ways = tuple(Serial(f"{name} {way}", ways) for way, ways in (("copies out", out), ("copies back", back)) if ways)
    return Overlap(name, (part, *ways)) if ways else part
