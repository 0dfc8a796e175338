"""Distributions of the time that something takes over the time predicted for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.formulas import order_statistics as kth
from perfmodel.specs import variation as specs

if TYPE_CHECKING:
    from perfmodel.specs.variation import Part

Array = NDArray[np.float64]
Quantile = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Factor:
    """One distribution: its order statistics by a documented formula, its quantiles for everything else."""

    formula: Callable[..., Any]
    parameters: dict[str, Any]
    quantile: Quantile
    """Of the logit of a probability, in which both tails keep their digits."""
    distribution: Callable[[Array], Array]
    """Probability of at most a value."""

    def kth(self, waited: float, dropped: float) -> float:
        """Expected ``waited``-th smallest of ``waited + dropped``."""
        return float(self.formula(waited=waited, dropped=dropped, **self.parameters))

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Independent draws; the logit of a uniform number is a logistic one."""
        return self.quantile(random.logistic(size=shape))


def factor(part: Part) -> Factor:
    """The distribution that a part of a YAML file means."""
    return _MAKERS[type(part)](part)


def _exponential(part: Any) -> Factor:
    return _shifted(1.0, part.mean)


def _shifted_exponential(part: Any) -> Factor:
    return _shifted(1.0 + part.shift, part.mean)


def _shifted(shift: float, mean: float) -> Factor:
    from scipy.special import log_expit

    return Factor(
        kth.exponential_kth, {"shift": shift, "mean": mean},
        lambda logit: shift - mean * log_expit(-logit),
        lambda x: -np.expm1(-np.maximum(x - shift, 0) / mean),
    )  # fmt: skip


def _deviate(logit: Array) -> Array:
    """Of a normal distribution, by the logit of its probability."""
    from scipy.special import expit, ndtri

    deviate: Array = np.copysign(ndtri(expit(-np.abs(logit))), logit)
    return deviate


def _normal(part: Any) -> Factor:
    from scipy.special import ndtr

    return Factor(
        kth.normal_kth, {"mean": 1.0, "deviation": part.deviation},
        lambda logit: 1 + part.deviation * _deviate(logit),
        lambda x: ndtr((x - 1) / part.deviation),
    )  # fmt: skip


def _lognormal(part: Any) -> Factor:
    from scipy.special import ndtr

    return Factor(
        kth.lognormal_kth, {"median": 1.0, "sigma": part.sigma},
        lambda logit: np.exp(part.sigma * _deviate(logit)),
        lambda x: ndtr(np.log(np.maximum(x, 1e-300)) / part.sigma),
    )  # fmt: skip


def _gamma(part: Any) -> Factor:
    return shifted_gamma(1.0, part.mean, part.shape)


def shifted_gamma(shift: float, mean: float, shape: float) -> Factor:
    """A least value and a gamma-distributed delay: also the sum of many delays of one kind, by its first three moments."""
    from scipy.special import expit, gammainc, gammainccinv, gammaincinv

    def quantile(logit: Array) -> Array:
        tail = expit(-np.abs(logit))
        delay = np.where(logit < 0, gammaincinv(shape, tail), gammainccinv(shape, tail))
        value: Array = shift + mean / shape * delay
        return value

    return Factor(
        kth.gamma_kth, {"shift": shift, "mean": mean, "shape": shape}, quantile,
        lambda x: np.asarray(gammainc(shape, np.maximum(x - shift, 0) * shape / mean), dtype=float),
    )  # fmt: skip


def _weibull(part: Any) -> Factor:
    from scipy.special import log_expit

    scale, shape = part.scale, part.shape
    return Factor(
        kth.weibull_kth, {"shift": 1.0, "scale": scale, "shape": shape},
        lambda logit: 1 + scale * (-log_expit(-logit)) ** (1 / shape),
        lambda x: -np.expm1(-((np.maximum(x - 1, 0) / scale) ** shape)),
    )  # fmt: skip


def _pareto(part: Any) -> Factor:
    from scipy.special import log_expit

    return Factor(
        kth.pareto_kth, {"minimum": 1.0, "tail": part.tail},
        lambda logit: np.exp(-log_expit(-logit) / part.tail),
        lambda x: -np.expm1(-part.tail * np.log(np.maximum(x, 1.0))),
    )  # fmt: skip


def _mixture(part: Any) -> Factor:
    from scipy.special import expit

    slow = 1.0 + part.slowdown
    return Factor(
        kth.mixture_kth, {"time": 1.0, "slowdown": part.slowdown, "probability": part.probability},
        lambda logit: np.where(expit(-logit) < part.probability, slow, 1.0),
        lambda x: np.where(x >= slow, 1.0, np.where(x >= 1, 1 - part.probability, 0.0)),
    )  # fmt: skip


def _empirical(part: Any) -> Factor:
    from scipy.special import expit

    order = np.argsort(part.factors)
    values, shares = np.asarray(part.factors, dtype=float)[order], np.asarray(part.shares, dtype=float)[order]
    below = np.cumsum(shares) / shares.sum()
    below[-1] = 1.0
    steps = np.concatenate([[0.0], below])
    return Factor(
        kth.empirical_kth, {"times": values, "weights": shares},
        lambda logit: values[np.searchsorted(below, expit(logit), side="left").clip(0, len(values) - 1)],
        lambda x: steps[np.searchsorted(values, x, side="right")],
    )  # fmt: skip


_MAKERS: dict[type, Callable[[Any], Factor]] = {
    specs.Exponential: _exponential, specs.ShiftedExponential: _shifted_exponential, specs.Normal: _normal,
    specs.Lognormal: _lognormal, specs.Gamma: _gamma, specs.Weibull: _weibull, specs.Pareto: _pareto,
    specs.Mixture: _mixture, specs.Empirical: _empirical,
}  # fmt: skip
