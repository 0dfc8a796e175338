"""Networks between hosts that a table describes and that differ from those of the library's machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perfmodel import library

if TYPE_CHECKING:
    from perfmodel.specs import Hardware

Value = str | int | bool

TOLERANCE = 0.05


def fabric_overrides(machine: str, printed: str, devices: int) -> dict[str, Value]:
    """What to override so that ``machine`` has the network that a table prints.

    Args:
        machine: name of the library.
        printed: links in the table's words.
        devices: of the job; one that stays inside a host needs no network.

    >>> fabric_overrides("dgx-a100-80gb", "NVLink3 + 400Gb/s RoCE per node", 128)
    {'hardware.network.1.bandwidth': '6.25 GB/s'}
    """
    hardware: Hardware = library.find("hardware", machine)
    bits = per_node(printed)
    if bits is None or len(hardware.network) < 2 or devices <= hardware.network[0].devices:
        return {}
    each = bits / 8 / hardware.host.devices
    if abs(each / float(hardware.network[1].bandwidth) - 1) <= TOLERANCE:
        return {}
    return {"hardware.network.1.bandwidth": f"{each / 1e9:g} GB/s"}


def per_node(printed: str) -> float | None:
    """Bits per second that a host has into the network, where a table says so in such words.

    >>> per_node("NVLink3 + 8x200Gb/s HDR IB per node"), per_node("NVLink in node"), per_node("1600 Gbps/node RoCE")
    (1600000000000.0, None, 1600000000000.0)
    >>> per_node("NVLink4 in node, 4x200 Gb/s GPUDirect-TCPX")
    800000000000.0
    >>> per_node("4 Omni-Path (100 Gb/s) links per node"), per_node("NVLink2; 4x Omni-Path 100 Gb/s per node")
    (400000000000.0, 400000000000.0)
    """
    rate = r"(\d+(?:\.\d+)?) ?([GT])b(?:/s|ps)"
    cards = r"(\d+) ?(?:x ?|(?:x ?)?Omni-Path \(?)"
    found = re.search(rf"(?:{cards})?{rate}[^;,+]*?(?:per |/ ?)node|in node, (\d+) ?x ?{rate}", printed)
    if not found:
        return None
    count, size, prefix = (
        first or second for first, second in zip(found.groups()[:3], found.groups()[3:], strict=True)
    )
    return int(count or 1) * float(size) * {"G": 1e9, "T": 1e12}[prefix]
