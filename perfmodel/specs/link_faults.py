"""What cannot be in the links of a tier."""

from __future__ import annotations

import re
from collections import Counter
from math import inf, isclose
from typing import TYPE_CHECKING

from perfmodel.specs.links import is_device, pairs_of
from perfmodel.specs.mesh import mesh, side
from perfmodel.yamlfile import Fault, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs.links import Link
    from perfmodel.specs.network import Tier

MOST = 64
"""Devices of a tier whose links may be listed one by one."""
_NAME = re.compile(r"[A-Za-z][\w.]*|\d+")


def link_faults(path: str, tier: Tier, inside: int) -> Iterator[Fault]:
    """What cannot be in the links of one tier, which has ``inside`` devices in a unit of the tier inside."""
    if not tier.links:
        return
    for stage in ((_own_faults, _kind_faults), (_listed_faults,), (_whole_faults,), (_sum_faults,)):
        faults = [fault for check in stage for fault in check(path, tier, inside)]
        yield from faults
        if faults:
            return  # what comes later would only repeat it in other words


def _own_faults(path: str, tier: Tier, inside: int) -> Iterator[Fault]:  # noqa: ARG001 - one shape for all stages
    """No bandwidth, or joins that do not read as '0 - 1'."""
    for index, link in enumerate(tier.links):
        own = f"{path}.links.{index}"
        if not link.bandwidth > 0:
            yield Fault(f"{own}.bandwidth", "must be greater than 0", link.bandwidth)
        for rate in link.rates:
            if not rate > 0:
                yield Fault(f"{own}.rates", "must be greater than 0", rate)
        for text in link.joins:
            pairs = list(pairs_of(text))
            if not pairs or not all(_NAME.fullmatch(node) for _, pair, _ in pairs for node in pair):
                message = f"{str(text)!r} joins nothing; write '0 - 1', '0 - 1 x2' or '0 1 - switch'"
                yield Fault(f"{own}.joins", message, text)


def _kind_faults(path: str, tier: Tier, inside: int) -> Iterator[Fault]:
    """Links of which it is not clear what they join, and regular ones whose numbers contradict the tier's."""
    for index, link in enumerate(tier.links):
        own = f"{path}.links.{index}"
        kinds = [name for name in ("joins", "cube", "leaf", "rates") if getattr(link, name)]
        if len(kinds) > 1:
            yield Fault(f"{own}.{kinds[1]}", f"a link has either {kinds[0]} or {kinds[1]}, not both")
        elif link.leaf:
            yield from _leaf_faults(own, link, tier, inside)
        elif link.cube or tier.shape:
            yield from _torus_faults(own, link, tier, inside)
        elif link.concurrent:
            yield Fault(f"{own}.concurrent", "is for a torus; give the tier a shape", link.concurrent)
        elif link.oversubscription > 1:
            yield Fault(f"{own}.oversubscription", "is of a leaf; say how many devices one has", link.oversubscription)
        elif not kinds:
            message = f"{link.name} joins nothing; give joins, leaf or rates, or the tier a shape"
            yield Fault(f"{own}.name", message, link.name)
        elif index and not (link.joins and tier.links[0].joins):
            yield Fault(f"{own}.name", "only links that are listed (joins) can be of several kinds", link.name)


def _torus_faults(path: str, link: Link, tier: Tier, inside: int) -> Iterator[Fault]:
    if not tier.shape:
        yield Fault(f"{path}.cube", "is for a torus; give the tier a shape", link.cube)
    elif link.joins or link.rates or inside > 1:
        message = "the links of a torus join single devices, in the innermost tier, and have no list"
        yield Fault(f"{path}.name", message, link.name)
    elif link.cube and any(extent % link.cube for extent in tier.shape):
        axes = " x ".join(map(str, tier.shape))
        yield Fault(f"{path}.cube", f"{link.cube} does not divide each axis of {axes}", link.cube)


def _leaf_faults(path: str, link: Link, tier: Tier, inside: int) -> Iterator[Fault]:
    units = (link.leaf or 1) // inside
    if not units or (link.leaf or 1) % inside or tier.devices % (link.leaf or 1):
        message = f"{link.leaf} must be a multiple of {inside} and divide the {tier.devices} devices of the tier"
        yield Fault(f"{path}.leaf", message, link.leaf)
    elif units > (link.ports or inf):
        yield Fault(f"{path}.ports", f"{units} units need as many ports of a leaf, which has {link.ports}", link.ports)


def _listed_faults(path: str, tier: Tier, inside: int) -> Iterator[Fault]:
    """Lists where there are too many devices for one, and pairs that cannot be."""
    listed = any(link.joins for link in tier.links)
    if listed and (inside > 1 or tier.devices > MOST):
        what = f"joins {tier.devices}" if inside == 1 else f"joins units of {inside}"
        message = f"links can be listed in the innermost tier, for up to {MOST} devices; this one {what}"
        yield Fault(f"{path}.links.0.joins", message)
        return
    for index, link in enumerate(tier.links):
        yield from _pair_faults(f"{path}.links.{index}.joins", link, tier.devices)


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


def _whole_faults(path: str, tier: Tier, inside: int) -> Iterator[Fault]:  # noqa: ARG001 - one shape for all stages
    """Switches that join nothing else, devices that cannot reach one another, and groups that no ring joins."""
    ends = [
        (f"{path}.links.{i}.joins", text, pair) for i, link in enumerate(tier.links) for text, pair, _ in link.pairs
    ]
    if not ends:
        return
    count = Counter(node for _, _, pair in ends for node in pair)
    hubs = {node for node, times in count.items() if times > 1 and not is_device(node)}
    lonely = [
        (where, text, node) for where, text, pair in ends for node in pair if not is_device(node) | (node in hubs)
    ]
    for where, text, node in lonely:
        yield Fault(where, f"{node} joins nothing else{nearest(node, hubs)}", text)
    reached = side("0", [pair for _, _, pair in ends])
    lost = [str(device) for device in range(tier.devices) if str(device) not in reached]
    made = mesh(tier.devices, tier.links)
    ringless = [str(k) for k in range(2, tier.devices + 1) if not lost and not made.ring((k, 1, 1, 0)).bandwidth]
    if not lonely and (lost or ringless):
        what = f"device {', '.join(lost)} cannot be reached from device 0"
        if not lost:
            what = f"no ring of direct links joins the first {', '.join(ringless)} devices"
        yield Fault(f"{path}.links.0.joins", f"{what}; also list the links through switches or the host")


def _sum_faults(path: str, tier: Tier, inside: int) -> Iterator[Fault]:  # noqa: ARG001 - one shape for all stages
    """A bandwidth of the tier that is not that of its links: a change of it alone would do nothing."""
    link = tier.links[0]
    if link.rates:
        return
    if link.joins:
        sums = _of_device_0(tier)
    elif tier.shape:
        sums = {f"2 x {len(tier.shape)} {link.name}": 2 * len(tier.shape) * float(link.bandwidth)}
    else:
        sums = {str(link.name): float(link.bandwidth)}
    if not any(isclose(tier.bandwidth, total, rel_tol=0.01) for total in sums.values()):
        what = " or ".join(f"{total / 1e9:g} GB/s ({name})" for name, total in sums.items())
        message = f"is not what one device has of the links: {what}; set that of the links, and this to the same"
        yield Fault(f"{path}.bandwidth", message, tier.bandwidth)


def _of_device_0(tier: Tier) -> dict[str, float]:
    """Bandwidth of all links of device 0 to other devices, and to switches, by kind."""
    found: dict[str, float] = {}
    for link in tier.links:
        for _, pair, times in link.pairs:
            if "0" in pair:
                name = f"{link.name}" if all(map(is_device, pair)) else f"{link.name} to a switch"
                found[name] = found.get(name, 0.0) + float(link.bandwidth) * times
    return found
