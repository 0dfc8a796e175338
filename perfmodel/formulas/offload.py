"""What leaves a device: copies to and from its host, drives, and the optimiser on the host's cores."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, BytesPerSecond, Count, Seconds


def host_copy(*, size: Bytes, link: BytesPerSecond, fraction: Count, uplink: BytesPerSecond, sharers: Count) -> Seconds:
    r"""Between a device and the memory of its host, in one direction, all devices at once.

    .. math:: T = \frac{n}{\min(\varphi B, U / s)}

    Args:
        size: n.
        link: B, of the device, in this direction.
        fraction: φ, the share of it that copies of pinned memory reach.
        uplink: U, of the switch over the devices that share it, as copies reach it.
        sharers: s, those devices; each copies a part of its own.

    Assumes pinned memory, large copies, and links that carry both directions at once.

    References:
        Rajbhandari et al., ZeRO-Infinity, SC 2021 (arXiv:2104.07857): each rank moves its own part over its own link
        (bandwidth-centric partitioning); the equation is derived.

    >>> host_copy(size=12e9, link=15.75e9, fraction=0.76, uplink=12e9, sharers=4).item()
    4.0
    """
    return size / np.minimum(fraction * link, uplink / sharers)


def drive_copy(
    *, written: Bytes, read: Bytes, write_rate: BytesPerSecond, read_rate: BytesPerSecond, sharers: Count
) -> Seconds:
    r"""Between the memory of a host and its drives.

    .. math:: T = s \left(\frac{w}{W} + \frac{r}{R}\right)

    Args:
        written: w, of one device.
        read: r, of one device.
        write_rate: W, of all drives of the host.
        read_rate: R, likewise.
        sharers: s, devices of the host.

    Assumes that reading and writing take turns on a drive.

    References:
        Derived; that drives serve all devices of a host in parallel: ZeRO-Infinity (arXiv:2104.07857).

    >>> drive_copy(written=1e9, read=2e9, write_rate=10e9, read_rate=20e9, sharers=8)
    1.6
    """
    return sharers * (written / write_rate + read / read_rate)


def host_update(*, parameters: Count, traffic: Bytes, bandwidth: BytesPerSecond, sharers: Count) -> Seconds:
    r"""The optimiser's step on the cores of the host, bound by the host's memory.

    .. math:: T = \frac{s \Psi q}{B}

    Args:
        parameters: Ψ, that one device leaves to the host.
        traffic: q, bytes that each takes through memory: gradient, master weight and moments read, the last two and the
            narrow weight written; 30 of Adam with fp32 gradients.
        bandwidth: B, of the host's memory, that such a step reaches.
        sharers: s, devices of the host.

    References:
        Ren et al., ZeRO-Offload, ATC 2021 (arXiv:2101.06840): CPU-Adam is vectorised and works in tiles, so that memory
        binds it, and weights are sent back tile by tile; the equation is derived.

    >>> host_update(parameters=1e9, traffic=30.0, bandwidth=120e9, sharers=1)
    0.25
    """
    return sharers * parameters * traffic / bandwidth
