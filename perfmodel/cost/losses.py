"""Why a step takes longer than its arithmetic at the peak: named losses that add up to the step time."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING

from perfmodel.cost.position import POSITIONS, position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfmodel.timeline import Term
    from perfmodel.units import Seconds

IDEAL = "ideal"
SCANS = "state-space scans"
LADDER = {
    IDEAL: "needed FLOP (full-attention) on all devices at their peak",
    "uncounted arithmetic": "FLOP that the convention leaves out, less those of it that are not executed (causal kernels, Winograd)",
    "imbalance": "products of the fullest device beyond an equal share: embedding and head on one stage, uneven experts",
    "kernel efficiency": "products slower than the peak: tiles, waves, loading, clocks",
    SCANS: "products of small chunks, decays between them, states that pass through memory",
    "memory-bound operations": "norms, activations, softmax, losses, lookups, adding up gradients",
    "kernel launches": "start of each kernel on the device",
    "recomputation": "passes forward executed again, messages included",
    "pipeline bubble": "stages that wait for the pipeline to fill and drain",
    "exposed tensor parallel": "messages that nothing hides",
    "exposed context parallel": "likewise",
    "exposed expert parallel": "likewise",
    "exposed table parallel": "likewise: ids, vectors and gradients of embedding tables",
    "exposed pipeline parallel": "likewise",
    "exposed data parallel": "likewise",
    "exposed parameter servers": "pushing, adding up, pulling that nothing hides",
    "exposed offload": "copies to and from hosts and drives, and updates there, that nothing hides",
    "host": "dispatch of kernels where it is slower than the device",
    "input": "preparation of samples by the hosts, where it is slower than the step",
    "padding": "tokens that only fill up rows",
    "sequence imbalance": "waiting for the ranks with the longest sequences",
    "stragglers": "waiting for slow devices and messages",
    "optimizer": "update of the weights",
}
"""Every loss and what it is, in the order of the ladder."""
SERVERS = {"push", "pull", "server"}


def ladder(
    terms: Iterable[tuple[Term, float, float]], *, ideal: Seconds, average: float | None, peak: float
) -> dict[str, float]:
    """Losses in the order of `LADDER`; their sum is that of the exposed times.

    Args:
        terms: each with its total and its exposed time.
        ideal: needed FLOP over all devices and their peak.
        average: executed FLOP over all devices and their peak, recomputation left out; None where the kernels alone
            know what is executed.
        peak: of one device.

    A product at the peak is told apart from what keeps it from there; what is executed beyond the average of the
    devices is imbalance, and the average beyond the ideal arithmetic that the convention does not count.
    """
    losses = dict.fromkeys(LADDER, 0.0)
    executed = 0.0
    for term, time, exposed in terms:
        for name, part, arithmetic in _parts(term, time, exposed, peak):
            losses[name] = losses.get(name, 0.0) + part
            executed += arithmetic
    mean = executed if average is None or isclose(executed, average, rel_tol=1e-9) else float(average)
    losses[IDEAL] = float(ideal)
    losses["uncounted arithmetic"] = mean - float(ideal)
    losses["imbalance"] = executed - mean
    return {name: time for name, time in losses.items() if time}


def _parts(term: Term, time: float, exposed: float, peak: float) -> Iterator[tuple[str, float, float]]:
    """Losses of a term, each with the seconds at the peak that its name does not hold."""
    whole = _whole(term)
    if whole:
        yield whole, exposed, 0.0
        return
    count, shown = time / float(term.time), exposed / time
    launching = min(float(term.inputs.get("launch", 0.0)), float(term.time)) * count * shown
    found = position(term)
    arithmetic = found.flops * count * shown / peak if found else 0.0
    yield "kernel launches", launching, 0.0
    name = "kernel efficiency" if arithmetic else "memory-bound operations"
    yield SCANS if term.kind == "state space" else name, exposed - launching - arithmetic, arithmetic


def _whole(term: Term) -> str:
    """The loss that a term is part of as a whole; empty for kernels of passes."""
    if term.kind == "recompute" or term.name.startswith("recompute "):
        return "recomputation"
    if term.kind == "bubble":
        return "pipeline bubble"
    if term.kind in SERVERS:
        return "exposed parameter servers"
    if term.kind.endswith((" parallel", "offload")):
        return f"exposed {term.kind}"
    return term.kind if term.kind == "optimizer" or term.formula not in POSITIONS else ""
