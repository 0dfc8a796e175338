"""The expected k-th smallest of n independent times: how long a step waits for its slowest, or all but its slowest.

Exact where a closed form exists; else the expectation of the quantile function over the beta distribution of
the k-th of n uniform numbers, by the trapezoidal rule in its logit, where the density is smooth and falls off
exponentially on both sides, so that 401 points reach about ten digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.units import Count, Seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfmodel.units import Number

    Array = NDArray[np.float64]

POINTS = 401
"""Of the quadrature."""
SPREADS, DECADES = 8.0, 40.0
"""It reaches as many standard deviations and e-foldings of each tail."""


def exponential_kth(*, waited: Count, dropped: Count, shift: Seconds, mean: Seconds) -> Seconds:
    r"""Expected k-th of n times with a least time and an exponential delay.

    .. math:: T = t_0 + \tau (H_n - H_{n-k}), \quad H_n = \sum_{i=1}^n 1/i

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        shift: t₀, the least time; 0 is the exponential distribution.
        mean: τ, of the delay.

    References:
        Derived: between one arrival and the next of j that are left lies an exponential time of mean τ/j. Used so for
        fastest-k gradient descent by Egger, Kas Hanna, Bitar, 2023 (arXiv:2304.08589).

    >>> round(float(exponential_kth(waited=4, dropped=0, shift=0.0, mean=1.0)), 6)  # 1 + 1/2 + 1/3 + 1/4
    2.083333
    """
    from scipy.special import digamma

    missing = np.asarray(dropped, dtype=float)
    return shift + mean * (digamma(waited + missing + 1) - digamma(missing + 1))


def normal_kth(*, waited: Count, dropped: Count, mean: Seconds, deviation: Seconds) -> Seconds:
    r"""Expected k-th of n normally distributed times.

    .. math:: T = \mu + \sigma E[\Phi^{-1}(U_{k:n})]

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        mean: μ.
        deviation: σ.

    Assumes σ so far below μ that times below zero do not matter.

    References:
        Derived, by quadrature over the beta distribution of the k-th of n uniform numbers.

    >>> round(float(normal_kth(waited=2, dropped=0, mean=0.0, deviation=1.0)), 6)  # 1 / sqrt(pi)
    0.56419
    """
    from scipy.special import expit, ndtri

    logit, weights = _order(waited, dropped)
    deviate = np.copysign(ndtri(expit(-np.abs(logit))), logit)
    return mean + deviation * _expectation(deviate, weights)


def lognormal_kth(*, waited: Count, dropped: Count, median: Seconds, sigma: Count) -> Seconds:
    r"""Expected k-th of n times whose logarithm is normally distributed.

    .. math:: T = t_m E[\exp(\sigma \Phi^{-1}(U_{k:n}))]

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        median: tₘ.
        sigma: σ, standard deviation of the logarithm.

    References:
        Derived, by quadrature over the beta distribution of the k-th of n uniform numbers.

    >>> round(float(lognormal_kth(waited=1, dropped=0, median=1.0, sigma=0.5)), 6)  # exp(sigma^2 / 2)
    1.133148
    """
    from scipy.special import expit, ndtri

    logit, weights = _order(waited, dropped)
    deviate = np.copysign(ndtri(expit(-np.abs(logit))), logit)
    return median * _expectation(np.exp(_spread(sigma) * deviate), weights)


def gamma_kth(*, waited: Count, dropped: Count, shift: Seconds, mean: Seconds, shape: Count) -> Seconds:
    r"""Expected k-th of n times with a least time and a gamma-distributed delay, as of several exponential parts.

    .. math:: T = t_0 + \frac{\tau}{a} E[P^{-1}(a, U_{k:n})]

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        shift: t₀, the least time.
        mean: τ, of the delay.
        shape: a; 1 is the exponential distribution.

    References:
        Derived, by quadrature over the beta distribution of the k-th of n uniform numbers; P is the regularised
        incomplete gamma function.

    >>> round(float(gamma_kth(waited=4, dropped=0, shift=0.0, mean=1.0, shape=1.0)), 6)
    2.083333
    """
    from scipy.special import expit, gammainccinv, gammaincinv

    logit, weights = _order(waited, dropped)
    parameter, tail = _spread(shape), expit(-np.abs(logit))
    delay = np.where(logit < 0, gammaincinv(parameter, tail), gammainccinv(parameter, tail))
    return shift + mean / shape * _expectation(delay, weights)


def weibull_kth(*, waited: Count, dropped: Count, shift: Seconds, scale: Seconds, shape: Count) -> Seconds:
    r"""Expected k-th of n times with a least time and a Weibull-distributed delay.

    .. math:: T = t_0 + \lambda E[(-\ln(1 - U_{k:n}))^{1/c}]

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        shift: t₀, the least time.
        scale: λ, that 63 % of the delays stay below.
        shape: c; 1 is the exponential distribution, less has a heavier tail.

    References:
        Derived, by quadrature: the known sum over k terms alternates and loses all digits beyond some
        forty. The first of n is λ Γ(1 + 1/c) / n^(1/c), which a test holds.

    >>> round(float(weibull_kth(waited=4, dropped=0, shift=0.0, scale=1.0, shape=1.0)), 6)
    2.083333
    """
    from scipy.special import log_expit

    logit, weights = _order(waited, dropped)
    return shift + scale * _expectation((-log_expit(-logit)) ** (1 / _spread(shape)), weights)


def pareto_kth(*, waited: Count, dropped: Count, minimum: Seconds, tail: Count) -> Seconds:
    r"""Expected k-th of n times with a power-law tail.

    .. math:: T = t_m \frac{\Gamma(n + 1) \, \Gamma(n - k + 1 - 1/\alpha)}{\Gamma(n - k + 1) \, \Gamma(n + 1 - 1/\alpha)}

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        minimum: tₘ, least time.
        tail: α; above 1, else the mean is infinite.

    References:
        Derived: the expectation of (1 - U)^(-1/α) over the beta distribution of the k-th of n uniform numbers.

    >>> round(float(pareto_kth(waited=1, dropped=0, minimum=1.0, tail=3.0)), 6)  # mean: alpha / (alpha - 1)
    1.5
    """
    from scipy.special import poch

    power = 1 / np.asarray(tail, dtype=float)
    last = np.asarray(dropped, dtype=float) + 1
    expected: Seconds = minimum * poch(last + waited - power, power) / poch(last - power, power)
    return expected


def empirical_kth(*, waited: Count, dropped: Count, times: Seconds, weights: Count) -> Seconds:
    r"""Expected k-th of n times drawn from a list of measured ones.

    .. math:: T = t_1 + \sum_{i=1}^{m-1} (t_{i+1} - t_i) \left(1 - I_{F_i}(k, n - k + 1)\right)

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        times: t, in any order (last axis: the list).
        weights: w, how often each occurs, in any unit (last axis); F_i is the share of times up to t_i.

    References:
        Derived: I, the regularised incomplete beta function, is the probability that at least k of n
        times are at most t_i.

    >>> float(empirical_kth(waited=2, dropped=0, times=np.array([1.0, 3.0]), weights=np.array([1.0, 1.0])))
    2.5
    """
    from scipy.special import betainc

    values, shares = np.broadcast_arrays(np.atleast_1d(times), np.atleast_1d(np.asarray(weights, dtype=float)))
    order = np.argsort(values, axis=-1)
    values, shares = np.take_along_axis(values, order, -1), np.take_along_axis(shares, order, -1)
    below = np.cumsum(shares, axis=-1)
    reached = np.minimum(below / below[..., -1:], 1.0)[..., :-1]
    late = 1 - betainc(_spread(waited), _spread(dropped) + 1, reached)
    expected: Seconds = values[..., 0] + np.sum(np.diff(values, axis=-1) * late, axis=-1)
    return expected


def mixture_kth(*, waited: Count, dropped: Count, time: Seconds, slowdown: Count, probability: Count) -> Seconds:
    r"""Expected k-th of n equal times of which each is longer by a share with some probability.

    .. math:: T = t \left(1 + x \left(1 - I_{1-p}(k, n - k + 1)\right)\right)

    Args:
        waited: k, those that are waited for.
        dropped: n - k, the slowest, for which nobody waits.
        time: t, of one that is not slow.
        slowdown: x, share by which a slow one is slower.
        probability: p, of being slow.

    References:
        Derived: the step is slow when more than n - k are; of all n, 1 - (1 - p)^n.

    >>> round(float(mixture_kth(waited=100, dropped=0, time=1.0, slowdown=0.5, probability=0.01)), 6)
    1.316984
    """
    from scipy.special import betainc

    missing = np.asarray(dropped, dtype=float)
    slow = betainc(missing + 1, np.asarray(waited, dtype=float), probability)  # symmetric: 1 - I_(1-p)(k, n-k+1)
    return time * (1 + slowdown * slow)


def _order(waited: Count, dropped: Count) -> tuple[Array, Array]:
    """Logits with weights (last axis) of the k-th of n uniform numbers."""
    from scipy.special import digamma, log_expit, polygamma

    k, rest = np.broadcast_arrays(np.asarray(waited, dtype=float), np.asarray(dropped, dtype=float) + 1)
    centre, spread = digamma(k) - digamma(rest), np.sqrt(polygamma(1, k) + polygamma(1, rest))
    low, high = centre - SPREADS * spread - DECADES / k, centre + SPREADS * spread + DECADES / rest
    logit = np.moveaxis(np.linspace(low, high, POINTS), 0, -1)
    logarithm = k[..., None] * log_expit(logit) + rest[..., None] * log_expit(-logit)
    weights = np.exp(logarithm - logarithm.max(axis=-1, keepdims=True))
    return logit, weights / weights.sum(axis=-1, keepdims=True)


def _expectation(values: Array, weights: Array) -> Array:
    total: Array = np.sum(values * weights, axis=-1)
    return total


def _spread(value: Number) -> Array:
    """A number or column with an axis of its own for the quadrature."""
    spread: Array = np.asarray(value, dtype=float)[..., None]
    return spread
