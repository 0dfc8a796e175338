"""Fit the delays of `variations/jitter-weak-scaling.yaml` to what weak scaling inside a host loses beyond messages.

Usage: python tools/fit_jitter.py [STUDY …]

Of runs that differ only in their devices, measured time over that on one device, over the same ratio as predicted, is what waiting for
the slowest adds. One distribution is fitted to all calibration rows; test rows judge.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfmodel.specs.measurement import Measurement
    from perfmodel.validation.run import Judged

    Array = NDArray[np.float64]

STUDIES = ["deeplearningexamples"]
"""Whose rows run on one to sixteen devices of an NVLink host, with warm data and graphs that the host keeps up with."""


class Loss(NamedTuple):
    """Time on several devices over that on one, measured over predicted."""

    devices: int
    ratio: float
    split: str


def same(one: Measurement) -> tuple[object, ...]:
    """What runs of one group share: all but the devices and what grows with them."""
    each = None if one.global_batch is None else one.global_batch / (one.devices or 1)
    return (one.source, one.table, one.workload, one.hardware, one.strategy, one.precision, one.microbatch, one.seq_len,
            one.overrides, one.metric, each)  # fmt: skip


def losses(judged: Judged) -> Iterator[Loss]:
    """Of every group with a run on one device; inside a host, where messages take next to nothing."""
    from perfmodel.library import find

    measurements = {row.measurement.id: row.measurement for rows in judged.study.configurations for row in rows}
    groups: dict[tuple[object, ...], dict[int, tuple[float, float, str]]] = defaultdict(dict)
    for outcome in judged.outcomes:
        one = measurements[outcome.id]
        devices, host = int(one.devices or 1), find("hardware", one.hardware).host.devices
        rate = outcome.metric in {"samples_per_second", "tokens_per_second"}
        if outcome.counts and outcome.predicted and rate and devices <= host:
            times = devices / outcome.measured, devices / outcome.predicted
            groups[same(one)].setdefault(devices, (*times, outcome.split))
    for runs in groups.values():
        for devices, (measured, predicted, split) in runs.items():
            if 1 in runs and devices > 1:
                yield Loss(devices, (measured / runs[1][0]) / (predicted / runs[1][1]), split)


def kinds() -> dict[str, Callable[[Array, float], Array]]:
    """Expected slowest of n over that of one, by the one parameter of each distribution."""
    from perfmodel.formulas.order_statistics import exponential_kth, lognormal_kth, normal_kth

    return {
        "exponential, mean": lambda n, x: np.asarray(exponential_kth(waited=n, dropped=0, shift=1.0, mean=x)) / (1 + x),
        "normal, deviation": lambda n, x: np.asarray(normal_kth(waited=n, dropped=0, mean=1.0, deviation=x)),
        "lognormal, sigma": lambda n, x: (
            np.asarray(lognormal_kth(waited=n, dropped=0, median=1.0, sigma=x)) / np.exp(x**2 / 2)
        ),
    }


def main() -> None:
    """Fit each distribution by least absolute error and print it beside its error on rows held apart."""
    from scipy.optimize import minimize_scalar

    from perfmodel.validation.run import validate
    from perfmodel.validation.study import load_studies

    found = [loss for one in validate(load_studies(sys.argv[1:] or STUDIES)) for loss in losses(one)]
    columns = {
        split: np.array([(one.devices, one.ratio) for one in found if one.split == split]).T.reshape(2, -1)
        for split in ("calibration", "test")
    }

    def error(form: Callable[[Array, float], Array], value: float, split: str) -> float:
        devices, ratio = columns[split]
        return float(np.mean(np.abs(form(devices, value) - ratio)))

    def none(devices: Array, _: float) -> Array:
        return np.ones_like(devices)

    print({split: rows.shape[1] for split, rows in columns.items()})
    print(f"none: {error(none, 0.0, 'calibration'):.4f}, held apart {error(none, 0.0, 'test'):.4f}")
    for name, form in kinds().items():
        best = minimize_scalar(lambda x, form=form: error(form, x, "calibration"), bounds=(1e-4, 0.3), method="bounded")
        print(f"{name} {best.x:.4f}: {best.fun:.4f}, held apart {error(form, best.x, 'test'):.4f}")


if __name__ == "__main__":
    main()
