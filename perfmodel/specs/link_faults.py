"""What cannot be in the links of a tier."""

from __future__ import annotations

import re
from collections import Counter
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from perfmodel.specs.links import is_device, pairs_of
from perfmodel.specs.mesh import mesh, side
from perfmodel.yamlfile import Fault, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs.links import Link

MOST = 64
"""Devices of a tier whose links may be listed one by one."""
_NAME = re.compile(r"[A-Za-z][\w.]*|\d+")


class _Tier(NamedTuple):
    """What the links of a tier have to fit."""

    devices: int
    inside: int
    shape: tuple[int, ...] | None


def link_faults(
    path: str, links: tuple[Link, ...], *, devices: int, inside: int, shape: tuple[int, ...] | None
) -> Iterator[Fault]:
    """What cannot be in the links of one tier, which joins ``devices``, ``inside`` of them in a unit of the tier inside."""
    faults = [fault for index, link in enumerate(links) for fault in _own_faults(f"{path}.{index}", link)]
    faults += _kind_faults(path, links, _Tier(devices, inside, shape))
    yield from faults
    listed = [link for link in links if link.joins]
    if faults or not listed:
        return
    if inside > 1 or devices > MOST:
        what = f"joins {devices}" if inside == 1 else f"joins units of {inside}"
        message = f"links can be listed in the innermost tier, for up to {MOST} devices; this one {what}"
        yield Fault(f"{path}.0.joins", message)
        return
    faults = [
        fault for index, link in enumerate(links) for fault in _pair_faults(f"{path}.{index}.joins", link, devices)
    ]
    yield from faults
    if not faults:
        yield from _whole_faults(path, links, devices)


def _own_faults(path: str, link: Link) -> Iterator[Fault]:
    """No bandwidth, or joins that do not read as '0 - 1'."""
    if not link.bandwidth > 0:
        yield Fault(f"{path}.bandwidth", "must be greater than 0", link.bandwidth)
    for rate in link.rates:
        if not rate > 0:
            yield Fault(f"{path}.rates", "must be greater than 0", rate)
    for text in link.joins:
        pairs = list(pairs_of(text))
        if not pairs or not all(_NAME.fullmatch(node) for _, pair, _ in pairs for node in pair):
            message = f"{str(text)!r} joins nothing; write '0 - 1', '0 - 1 x2' or '0 1 - switch'"
            yield Fault(f"{path}.joins", message, text)


def _kind_faults(path: str, links: tuple[Link, ...], tier: _Tier) -> Iterator[Fault]:
    """Links of which it is not clear what they join, and regular ones whose numbers contradict the tier's."""
    for index, link in enumerate(links):
        own = f"{path}.{index}"
        kinds = [name for name in ("joins", "cube", "leaf", "rates") if getattr(link, name)]
        if len(kinds) > 1:
            yield Fault(f"{own}.{kinds[1]}", f"a link has either {kinds[0]} or {kinds[1]}, not both")
        elif link.leaf:
            yield from _leaf_faults(own, link, tier)
        elif link.cube or tier.shape:
            yield from _torus_faults(own, link, tier)
        elif link.concurrent:
            yield Fault(f"{own}.concurrent", "is for a torus; give the tier a shape", link.concurrent)
        elif link.oversubscription > 1:
            yield Fault(f"{own}.oversubscription", "is of a leaf; say how many devices one has", link.oversubscription)
        elif not kinds:
            message = f"{link.name} joins nothing; give joins, leaf or rates, or the tier a shape"
            yield Fault(f"{own}.name", message, link.name)
        elif index and not (link.joins and links[0].joins):
            yield Fault(f"{own}.name", "only links that are listed (joins) can be of several kinds", link.name)


def _torus_faults(path: str, link: Link, tier: _Tier) -> Iterator[Fault]:
    if not tier.shape:
        yield Fault(f"{path}.cube", "is for a torus; give the tier a shape", link.cube)
    elif link.joins or link.rates or tier.inside > 1:
        message = "the links of a torus join single devices, in the innermost tier, and have no list"
        yield Fault(f"{path}.name", message, link.name)
    elif link.cube and any(extent % link.cube for extent in tier.shape):
        axes = " x ".join(map(str, tier.shape))
        yield Fault(f"{path}.cube", f"{link.cube} does not divide each axis of {axes}", link.cube)


def _leaf_faults(path: str, link: Link, tier: _Tier) -> Iterator[Fault]:
    units = (link.leaf or 1) // tier.inside
    if not units or (link.leaf or 1) % tier.inside or tier.devices % (link.leaf or 1):
        message = f"{link.leaf} must be a multiple of {tier.inside} and divide the {tier.devices} devices of the tier"
        yield Fault(f"{path}.leaf", message, link.leaf)
    elif units > (link.ports or inf):
        yield Fault(f"{path}.ports", f"{units} units need as many ports of a leaf, which has {link.ports}", link.ports)


def _pair_faults(path: str, link: Link, devices: int) -> Iterator[Fault]:
    """Devices that there are not, links to oneself, links that are listed twice, more links than ports."""
    seen: set[frozenset[str]] = set()
    used: Counter[str] = Counter()
    for text, pair, times in link.pairs:
        unknown = [node for node in pair if is_device(node) and int(node) >= devices]
        for node in unknown:
            yield Fault(path, f"there is no device {node}; the tier has 0 to {devices - 1}", text)
        if pair[0] == pair[1]:
            yield Fault(path, f"joins {pair[0]} to itself", text)
        elif frozenset(pair) in seen:
            yield Fault(path, f"joins {pair[0]} and {pair[1]} twice; for links side by side write x2", text)
        seen.add(frozenset(pair))
        used.update({pair[0]: times, pair[1]: times})
        for node in {*pair} - {*unknown}:
            if is_device(node) and used[node] > (link.ports or inf) >= used[node] - times:
                message = f"gives device {node} {used[node]} links of {link.name}, but it has {link.ports} ports"
                yield Fault(path, message, text)


def _whole_faults(path: str, links: tuple[Link, ...], devices: int) -> Iterator[Fault]:
    """Switches that join nothing, and devices that cannot reach one another."""
    ends = [(f"{path}.{i}.joins", text, pair) for i, link in enumerate(links) for text, pair, _ in link.pairs]
    count = Counter(node for _, _, pair in ends for node in pair)
    hubs = {node for node in count if not is_device(node)}
    lonely = False
    for where, text, pair in ends:
        for node in pair:
            if node in hubs and count[node] == 1:
                lonely = True
                others = {hub for hub in hubs if count[hub] > 1}
                yield Fault(where, f"{node} joins nothing else{nearest(node, others)}", text)
    if lonely:
        return
    reached = side("0", [pair for _, _, pair in ends])
    lost = [str(device) for device in range(devices) if str(device) not in reached]
    ringless = [k for k in range(2, devices + 1) if not lost and not mesh(devices, links).ring((k, 1, 1, 0)).bandwidth]
    if lost:
        what = f"device {', '.join(lost)} cannot be reached from device 0"
    elif ringless:
        what = f"no ring of direct links joins the first {', '.join(map(str, ringless))} devices"
    if lost or ringless:
        yield Fault(f"{path}.0.joins", f"{what}; also list the links through switches or the host")
