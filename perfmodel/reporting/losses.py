"""Why a step is not faster: the ladder from the needed FLOP at the peak down to the prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.cost.losses import IDEAL, LADDER
from perfmodel.graph.flops import CONVENTIONS
from perfmodel.reporting.prediction import prediction_report
from perfmodel.reporting.report import Report, Section
from perfmodel.reporting.text import quantity, share

if TYPE_CHECKING:
    from perfmodel.prediction import Prediction

TITLE = "Why it is not faster"


def losses_report(prediction: Prediction) -> Report:
    """A prediction with its losses, in time and in the utilisation that each leaves."""
    base = prediction_report(prediction)
    conventions = tuple(f"{name}: {text}" for name, text in CONVENTIONS.items())
    return replace(base, sections=(*base.sections, section(prediction)), notes=(*conventions, *base.notes))


def section(prediction: Prediction) -> Section:
    """The ladder: from all devices at their peak to the step; the last utilisation is the MFU."""
    step, losses = prediction.step_time, prediction.losses
    rows, so_far = [], 0.0
    for name, time in losses.items():
        so_far += time
        left = share(losses[IDEAL] / so_far)
        rows.append((name, quantity(time, "s"), share(time / step), left, LADDER.get(name, "")))
    total = ("step", quantity(step, "s"), share(1.0), share(prediction.mfu()), "")
    return Section(TITLE, ("", "time", "of step", "MFU left", ""), (*rows, total), frozenset({1, 2, 3}), frozenset({0}))
