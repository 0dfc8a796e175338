"""A source held against itself: metrics of one run must tell the same step time under some convention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.flops import CONVENTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.prediction import Prediction
    from perfmodel.specs.measurement import Measurement

DIRECT = ("step_time", "samples_per_second", "tokens_per_second", "tokens_per_second_per_device")
"""Metrics that need no convention of counting FLOP."""
TOLERANCE = 0.10
"""Metrics of one run may differ by rounding, and by conventions that we do not name."""


def contradiction(times: Sequence[Measurement], prediction: Prediction) -> str:
    """What is wrong between the metrics of one run, or nothing.

    Two direct metrics (time, samples, tokens) that agree outvote a FLOP rate that fits no convention we know.

    Args:
        times: metrics of time, the most direct first.
        prediction: of the same configuration; only its batch and its FLOP are used, never its time.
    """
    if not times:
        return ""
    reference = list(implied_step_times(times[0], prediction))
    confirmed = False
    for other in times[1:]:
        gaps = [
            (abs(b / a - 1), name, b / a - 1) for _, a in reference for name, b in implied_step_times(other, prediction)
        ]
        gap, name, signed = min(gaps)
        if gap > TOLERANCE and not (confirmed and other.metric not in DIRECT):
            return f"{other.metric} implies a step {100 * signed:+.0f} % off {times[0].metric} ({name} comes nearest)"
        confirmed = confirmed or other.metric in DIRECT
    return ""


def _with_attention(p: Prediction) -> float:
    """6 x parameters x tokens, embeddings included, and attention over all pairs: twice what `causal` leaves out."""
    return p.flops("6nd") + 2 * (p.flops() - p.flops("causal"))


def implied_step_times(m: Measurement, p: Prediction) -> Iterator[tuple[str, float]]:
    """The step time that a measured value tells, under each convention that may be meant."""
    value, samples, tokens = m.measured, float(p.layout.batch), p.tokens_per_step
    match m.metric:
        case "step_time":
            yield "direct", value
        case "samples_per_second":
            yield "batch", samples / value
        case "tokens_per_second" | "tokens_per_second_per_device":
            devices = p.devices if m.metric.endswith("device") else 1.0
            yield "tokens", (tokens or samples) / (value * devices)
        case "model_flops_per_device_per_second" | "mfu":
            rate = value if m.metric != "mfu" else value * p.peak
            yield from ((name, p.flops(name) / (rate * p.devices)) for name in CONVENTIONS)
            yield "6nd with attention", _with_attention(p) / (rate * p.devices)
        case "hardware_flops_per_device_per_second" | "hfu":
            rate = value if m.metric != "hfu" else value * p.peak
            # some sources count a full recomputation even where their runs do less
            yield "with recomputation", p.hardware_flops / (rate * p.devices)
            yield "4/3 of full attention", 4 / 3 * p.flops() / (rate * p.devices)
            yield "8nd", 4 / 3 * p.flops("6nd") / (rate * p.devices)
