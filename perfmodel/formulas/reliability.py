"""Failures, checkpoints and spare nodes: from mean times between failures to goodput."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, BytesPerSecond, Count, Hertz, Seconds

_SMALL = 0.02
"""Below which a difference of exponentials is taken from its series."""


def failure_rate(*, devices: Count, nodes: Count, device_mtbf: Seconds, node_mtbf: Seconds) -> Hertz:
    r"""Failures of a job per second; any of its parts stops all.

    .. math:: \lambda = \frac{n_d}{M_d} + \frac{n_h}{M_h}

    Args:
        devices: n_d.
        nodes: n_h, hosts.
        device_mtbf: M_d, mean time between failures of one device.
        node_mtbf: M_h, of one host with its network, devices left out.

    Assumes independent failures at constant rates.

    References:
        Derived: parts in series. The example is Llama 3 (arXiv:2407.21783, section 3.3.4): 419 unexpected interruptions of 16,384
        devices in 54 days, charged to the devices.

    >>> mtbf = 16384 * 54 * 86400 / 419
    >>> round(1 / failure_rate(devices=16384, nodes=2048, device_mtbf=mtbf, node_mtbf=np.inf) / 3600, 2)  # hours
    3.09
    """
    return devices / device_mtbf + nodes / node_mtbf


def storage_time(*, size: Bytes, bandwidth: BytesPerSecond) -> Seconds:
    r"""Time to write or to read a checkpoint.

    .. math:: \delta = n / B

    Args:
        size: n, of the checkpoint.
        bandwidth: B, of the storage, as the whole job sees it.

    References:
        Derived.

    >>> storage_time(size=2.3e12, bandwidth=40e9)
    57.5
    """
    return size / bandwidth


def young_interval(*, write: Seconds, rate: Hertz) -> Seconds:
    r"""Time of work between two checkpoints that loses least, to first order.

    .. math:: \tau = \sqrt{2 \delta / \lambda}

    Args:
        write: δ, for which a checkpoint stops the work.
        rate: λ, of failures.

    Assumes δ far below 1/λ.

    References:
        Young, A first order approximation to the optimum checkpoint interval, Commun. ACM 17(9), 1974.
        doi:10.1145/361147.361115. Not read at its source; the minimum of δ/τ + λτ/2 is derived.

    >>> float(young_interval(write=50.0, rate=1e-4))
    1000.0
    """
    return np.sqrt(2 * write / rate)


def daly_interval(*, write: Seconds, rate: Hertz) -> Seconds:
    r"""Time of work between two checkpoints that makes `checkpointed_time` least, to third order.

    .. math:: \tau = \begin{cases} \sqrt{2 \delta M} \left(1 + \frac{1}{3} \sqrt{\frac{\delta}{2 M}} +
              \frac{\delta}{18 M}\right) - \delta & \delta < 2 M \\ M & \text{otherwise} \end{cases}, \quad M = 1 / \lambda

    Args:
        write: δ, for which a checkpoint stops the work.
        rate: λ, of failures.

    References:
        Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future Generation Computer
        Systems 22(3), 2006. doi:10.1016/j.future.2004.11.016. Its abstract and figure captions were read, which give
        the three examples that a test holds (117 min, 57 min, 9.1 min); the series is derived.

    >>> round(float(daly_interval(write=300.0, rate=1 / 86400)) / 60)  # minutes
    117
    """
    share = np.sqrt(write * rate / 2)
    series = np.sqrt(2 * write / rate) * (1 + share / 3 + share**2 / 9) - write
    return np.where(write * rate < 2, series, 1 / rate)


def checkpointed_time(*, work: Seconds, interval: Seconds, write: Seconds, restart: Seconds, rate: Hertz) -> Seconds:
    r"""Expected wall time of work that stops to write checkpoints, fails and repeats what is lost.

    .. math:: T = M e^{R/M} \left(e^{(\tau + \delta)/M} - 1\right) \frac{W}{\tau}, \quad M = 1 / \lambda

    Args:
        work: W, time it would take without failures and checkpoints.
        interval: τ, of work between two checkpoints.
        write: δ, for which each stops the work.
        restart: R, from a failure until the work goes on where the last checkpoint stands.
        rate: λ, of failures; also while writing and restarting.

    References:
        Daly, 2006, as under `daly_interval`; derived again here from the run of length L that no failure breaks, which takes
        (e^(λL) - 1)/λ.

    >>> day = 86400.0
    >>> round(float(checkpointed_time(work=day, interval=3000.0, write=60.0, restart=600.0, rate=1 / 11135)) / day, 4)
    1.2389
    """
    return np.exp(rate * restart) * np.expm1(rate * (interval + write)) / rate * work / interval


def checkpointed_deviation(
    *, work: Seconds, interval: Seconds, write: Seconds, restart: Seconds, rate: Hertz
) -> Seconds:
    r"""Standard deviation of the wall time whose expectation is `checkpointed_time`.

    .. math:: \sigma^2 = \frac{W}{\tau} \left(v(L) + \bar{k} \, v(R) + \bar{k} (\bar{k} + 1) z (z + 2 y)\right), \quad
              v(x) = \frac{e^{2 \lambda x} - 2 \lambda x e^{\lambda x} - 1}{\lambda^2}

    Args:
        work: W, time it would take without failures and checkpoints.
        interval: τ, of work between two checkpoints.
        write: δ, for which each stops the work.
        restart: R, from a failure until the work goes on.
        rate: λ, of failures.

    L = τ + δ; k̄ = e^(λL) - 1 failures for each segment on average, of which each loses y = 1/λ - L/k̄ of work and takes
    z = (e^(λR) - 1)/λ to restart; v is the variance of the time until no failure breaks a run of length x.

    References:
        Derived; segments are independent.

    >>> round(float(checkpointed_deviation(work=86400.0, interval=3000.0, write=60.0, restart=600.0, rate=1 / 11135)))
    7671
    """
    segment = interval + write
    failures = np.expm1(rate * segment)
    lost, again = 1 / rate - segment / failures, np.expm1(rate * restart) / rate
    variance = (
        _run_variance(rate * segment)
        + failures * _run_variance(rate * restart)
        + failures * (failures + 1) * again * (again + 2 * lost) * rate**2
    )
    deviation: Seconds = np.sqrt(work / interval * variance) / rate
    return deviation


def _run_variance(length: Count) -> Count:
    """Variance of the time until a run of some length is unbroken, both in mean times between failures."""
    exact = np.exp(2 * length) - 2 * length * np.exp(length) - 1
    series = length**3 * (1 / 3 + length / 3 + 11 * length**2 / 60 + 13 * length**3 / 180)
    return np.where(length < _SMALL, series, exact)


def spares_exhausted(*, spares: Count, rate: Hertz, repair: Seconds) -> Count:
    r"""Share of the time in which a job stands still because all spare nodes are in repair too.

    .. math:: B = \frac{a^{s+1} / (s + 1)!}{\sum_{i=0}^{s+1} a^i / i!}, \quad a = \lambda T_r

    Args:
        spares: s, nodes that stand by.
        rate: λ, of failures that take a node out while the job runs.
        repair: T_r, mean time until a node is back.

    Assumes that a job which stands still suffers no further failures; any distribution of repair times.

    References:
        Erlang's loss formula with s + 1 servers: nodes in repair are calls, and a job that stands still takes none. Derived.

    >>> round(float(spares_exhausted(spares=1, rate=1 / 86400, repair=86400.0)), 6)
    0.2
    """
    load = np.asarray(rate, dtype=float) * repair
    servers = np.asarray(spares) + 1
    blocked = np.ones(np.broadcast_shapes(load.shape, servers.shape))
    for count in range(1, int(np.max(servers)) + 1):
        blocked = np.where(count <= servers, load * blocked / (count + load * blocked), blocked)
    return blocked
