"""What a step takes when some workers are slow, and what redundancy buys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.units import Count, Hertz, Seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_LOGITS = np.linspace(-45.0, 60.0, 801)
"""Of the probabilities at whose quantiles the survival function of the k-th of n is summed; the trapezoidal rule in the
logit is exact to about twelve digits, since the integrand falls off exponentially on both sides."""


def straggler_delay(*, time: Seconds, factor: Count) -> Seconds:
    r"""What waiting for the slowest adds to a phase.

    .. math:: T = t (f - 1)

    Args:
        time: t, of the phase on every device if none were slow.
        factor: f, expected ratio of the slowest that is waited for to that time.

    Assumes that messages which hide under computing stay hidden.

    References:
        Derived; f is an expected order statistic (`perfmodel.formulas.order_statistics`).

    >>> round(straggler_delay(time=2.0, factor=1.05), 6)
    0.1
    """
    return time * (factor - 1)


def coded_gradient_time(
    *, waited: Count, dropped: Count, load: Count, reduction: Count,
    compute: Seconds, compute_delay: Seconds, communication: Seconds, communication_delay: Seconds,
) -> Seconds:  # fmt: skip
    r"""A step with gradient coding: each of n workers works on d shares of the data and sends 1/m of a gradient.

    .. math:: T = E\left[\left(d (t_1 + X_1) + \frac{t_2 + X_2}{m}\right)_{k:n}\right], \quad
              X_i \sim \text{Exp}(\tau_i)

    Args:
        waited: k = n - s, workers whose results are needed.
        dropped: s, stragglers for which nobody waits; s <= d - m.
        load: d, shares of the data on each worker; 1 is uncoded.
        reduction: m, by which the coding shrinks each message.
        compute: t₁, least time on one share.
        compute_delay: τ₁, mean of the exponential delay on one share.
        communication: t₂, least time of a whole message.
        communication_delay: τ₂, mean of its exponential delay.

    References:
        Ye and Abbe, Communication-computation efficient gradient coding, ICML 2018 (arXiv:1802.03475): the scheme and its
        limit d >= s + m. The integral over the sum of two exponential delays is derived.

    >>> times = {"compute": 1.6, "compute_delay": 1.25, "communication": 6.0, "communication_delay": 10.0}
    >>> round(float(coded_gradient_time(waited=7, dropped=1, load=4, reduction=3, **times)), 4)
    21.3697
    """
    from scipy.special import betainc, expit, log_expit

    first, second = load * np.asarray(compute_delay, dtype=float), np.asarray(communication_delay) / reduction
    slow, fast = np.maximum(first, second)[..., None], np.minimum(first, second)[..., None]
    delay = (slow + fast) * -log_expit(-_LOGITS)
    late = np.exp(-delay / slow) * (1 + delay / slow * _phi(delay * (1 / fast - 1 / slow)))
    missing = np.asarray(dropped, dtype=float)[..., None]
    waiting = betainc(missing + 1, np.asarray(waited, dtype=float)[..., None], np.minimum(late, 1.0))
    integral = np.sum(waiting * (slow + fast) * expit(_LOGITS), axis=-1) * (_LOGITS[1] - _LOGITS[0])
    expected: Seconds = load * np.asarray(compute) + np.asarray(communication) / reduction + integral
    return expected


def _phi(x: Array) -> Array:
    """(1 - e^-x) / x, the sum of two exponential delays without cancellation where their means are alike."""
    return np.where(x > 0, -np.expm1(-x) / np.where(x > 0, x, 1.0), 1.0)


def replicated_time(*, groups: Count, copies: Count, shift: Seconds, mean: Seconds) -> Seconds:
    r"""A step in which each share of the data lies on several workers and the first of them counts.

    .. math:: T = r t_0 + \tau H_{n/r}

    Args:
        groups: n / r, shares of the data.
        copies: r, workers that hold each; each works r times as long.
        shift: t₀, least time of a worker without copies.
        mean: τ, of its exponential delay, which grows with the load.

    References:
        Derived: the first of r delays of mean rτ has mean τ, and the last of the groups is waited for. The scheme is the
        repetition code of Tandon, Lei, Dimakis, Karampatziakis, Gradient coding, ICML 2017 (arXiv:1612.03301).

    >>> round(float(replicated_time(groups=4, copies=2, shift=1.0, mean=1.0)), 6)
    4.083333
    """
    from scipy.special import digamma

    return copies * np.asarray(shift) + mean * (digamma(np.asarray(groups, dtype=float) + 1) + np.euler_gamma)


def balance_gain(*, mean_speed: Hertz, least_speed: Hertz) -> Count:
    r"""How much faster a step gets when each worker's batch follows its speed.

    .. math:: g = \frac{\sum_i v_i}{n \min_i v_i} - 1

    Args:
        mean_speed: Σv/n, samples per second of the workers on average.
        least_speed: min v, of the slowest.

    Assumes times in proportion to the samples, as on CPUs, and no time for messages.

    References:
        Chen, Weng, Wang, Li, Li, Semi-dynamic load balancing, SoCC 2020 (arXiv:1806.02508), which reports up to 54 %;
        the form is derived.

    >>> round(balance_gain(mean_speed=1.54, least_speed=1.0), 6)
    0.54
    """
    return mean_speed / least_speed - 1
