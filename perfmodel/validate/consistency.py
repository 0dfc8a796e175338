"""A source held against itself: metrics of one run must tell the same step time under some convention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.flops import CONVENTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.prediction import Prediction
    from perfmodel.specs.measurement import Measurement

TOLERANCE = 0.10
"""Metrics of one run may differ by rounding, and by conventions that we do not name."""


def contradiction(times: Sequence[Measurement], prediction: Prediction) -> str:
    """What is wrong between the metrics of one run, or nothing.

    Args:
        times: metrics of time, the most direct first.
        prediction: of the same configuration; only its batch and its FLOP are used, never its time.
    """
    if not times:
        return ""
    first = times[0]
    reference = list(implied_step_times(first, prediction))
    for other in times[1:]:
        implied = list(implied_step_times(other, prediction))
        gaps = [(abs(b / a - 1), name, b / a - 1) for _, a in reference for name, b in implied]
        gap, name, signed = min(gaps)
        if gap > TOLERANCE:
            return f"{other.metric} implies a step {100 * signed:+.0f} % off {first.metric} ({name} comes nearest)"
    return ""


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
        case "hardware_flops_per_device_per_second" | "hfu":
            rate = value if m.metric != "hfu" else value * p.peak
            # some sources count a full recomputation even where their runs do less
            yield "with recomputation", p.hardware_flops / (rate * p.devices)
            yield "4/3 of the model's", 4 / 3 * p.flops() / (rate * p.devices)
