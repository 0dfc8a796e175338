"""Work that is not the same for all: sequences of several lengths, logical workers in turn, rehearsal, decoupled passes."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Count, Seconds


def sequence_time(*, length: Count, linear: Seconds, quadratic: Seconds) -> Seconds:
    r"""Time that a sequence takes: attention grows with the square of its length, everything else with the length.

    .. math:: c(l) = b l + a l^2

    Args:
        length: l, tokens.
        linear: b, for each token.
        quadratic: a, for each pair of tokens.

    References:
        Derived; Feng et al., FreeScale, MLSys 2026 (arXiv:2604.24073), and Ge et al., ByteScale, SIGCOMM 2025 (arXiv:2502.21231),
        weigh sequences so.

    >>> sequence_time(length=1000, linear=1e-6, quadratic=1e-9)
    0.002
    """
    return linear * length + quadratic * length**2


def padding_share(*, tokens: Count, blocks: Count, capacity: Count) -> Count:
    r"""Share of computed tokens that only fill up.

    .. math:: w = 1 - \frac{\sum l_i}{n L}

    Args:
        tokens: Σl, of all sequences.
        blocks: n, rows that are computed.
        capacity: L, tokens of a row.

    References:
        Derived; Ruschel, Iftekhar, Manjunath, You, BLoad, 2023 (arXiv:2310.10879), counts padding so.

    >>> padding_share(tokens=75.0, blocks=10, capacity=10.0)
    0.25
    """
    return 1 - tokens / (blocks * capacity)


def padding_time(*, padded: Seconds, useful: Seconds) -> Seconds:
    r"""What tokens that only fill up rows add to a step.

    .. math:: T = t_p - t_u

    Args:
        padded: t_p, of the step with them.
        useful: t_u, of the same sequences if each microbatch held but its own tokens.

    References:
        Derived; Ruschel, Iftekhar, Manjunath, You, BLoad, 2023 (arXiv:2310.10879), counts the tokens.

    >>> padding_time(padded=1.0, useful=0.75)
    0.25
    """
    return padded - useful


def left_over(*, time: Seconds, busy: Seconds) -> Seconds:
    r"""What a device waits in a step that was simulated.

    .. math:: T = t - b

    Args:
        time: t, from the first pass of the pipeline to its last.
        busy: b, of them that this stage computes and sends.

    References:
        Derived; t is found by playing the passes of unequal stages, for which there is no formula.

    >>> left_over(time=1.0, busy=0.75)
    0.25
    """
    return time - busy


def waiting_share(*, mean: Seconds, longest: Seconds) -> Count:
    r"""Share of a step in which ranks of unequal work wait for the last.

    .. math:: w = 1 - \bar t / \max_r t_r

    Args:
        mean: t̄, time of the ranks on average.
        longest: of the rank with most work.

    References:
        Derived; the bubble of FreeScale (arXiv:2604.24073).

    >>> round(waiting_share(mean=0.8, longest=1.0), 6)
    0.2
    """
    return 1 - mean / longest


def sliced_time(*, workers: Count, time: Seconds, switch: Seconds) -> Seconds:
    r"""Step of a device on which several logical workers take turns.

    .. math:: T = k t + (k - 1) t_s

    Args:
        workers: k, on this device.
        time: t, of one logical worker's step.
        switch: tₛ, to save one and load the next.

    References:
        Derived; Li, Xiao et al., EasyScale, SC 2023 (doi:10.1145/3581784.3607054), share devices so.

    >>> sliced_time(workers=4, time=0.5, switch=0.01)
    2.03
    """
    return workers * time + (workers - 1) * switch


def rehearsed_time(*, time: Seconds, batch: Count, rehearsed: Count, exchange: Seconds) -> Seconds:
    r"""Step with samples of a rehearsal buffer added to the batch, which are fetched from other ranks beside it.

    .. math:: T = \max\left(t \frac{b + r}{b}, t_x\right)

    Args:
        time: t, of a step without them.
        batch: b, new samples of a rank.
        rehearsed: r, samples of the buffer.
        exchange: tₓ, to fetch them.

    References:
        Derived; Bouvier, Nicolae et al., Efficient data-parallel continual learning with asynchronous distributed rehearsal
        buffers, 2024 (arXiv:2406.03285).

    >>> round(float(rehearsed_time(time=0.1, batch=56, rehearsed=7, exchange=0.01)), 6)
    0.1125
    """
    return np.maximum(time * (batch + rehearsed) / batch, exchange)


def decoupled_time(*, forward: Seconds, backward: Seconds, modules: Count, transfer: Seconds) -> Seconds:
    r"""Iteration of a network whose modules run backward at the same time, each with the error of an earlier one.

    .. math:: T = t_f + \frac{t_b}{K} + (K - 1) t_x

    Args:
        forward: t_f, of the whole network; modules run forward one after the other.
        backward: t_b, of the whole network.
        modules: K, of equal work, each on its device.
        transfer: tₓ, of activations between two modules.

    References:
        Huo, Gu, Yang, Huang, Decoupled parallel backpropagation with convergence guarantee, ICML 2018 (arXiv:1804.10574); the
        transfer is derived.

    >>> round(decoupled_time(forward=1.0, backward=2.0, modules=4, transfer=0.0), 6)
    1.5
    """
    return forward + backward / modules + (modules - 1) * transfer


def useful_share(*, workers: Count, overhead: Count) -> Count:
    r"""Efficiency of data parallelism whose overhead each further worker adds.

    .. math:: \alpha = \frac{1 + R}{1 + G R}

    Args:
        workers: G.
        overhead: R, of messages over computing.

    References:
        Zou, Chen et al., Distributed training large-scale deep architectures, 2017 (arXiv:1709.06622); recalled, not read.

    >>> round(useful_share(workers=4, overhead=0.1), 4)
    0.7857
    """
    return (1 + overhead) / (1 + workers * overhead)


def busiest_expert(*, tokens: Count, experts: Count) -> Count:
    r"""Expected tokens of the expert with most over the mean, when a router without preferences sends each at random.

    .. math:: f = 1 + \sqrt{\frac{E}{n}} \, E[\max_{i \le E} Z_i]

    Args:
        tokens: n, that are routed, each counted as often as it has experts.
        experts: E.

    Assumes many tokens for each expert, so that counts are nearly normal; Z are standard normal deviates.

    References:
        Derived: counts of mean n/E that add up to n differ from one another as independent ones of variance n/E do. The least
        imbalance that any unbiased router has.

    >>> round(float(busiest_expert(tokens=32768.0, experts=64)), 4)
    1.1036
    """
    from perfmodel.formulas.order_statistics import normal_kth

    spread = np.sqrt(np.asarray(experts, dtype=float) / tokens)
    return 1 + spread * normal_kth(waited=experts, dropped=0, mean=0.0, deviation=1.0)


def settling_imbalance(*, first: Count, last: Count, steps: Count, settling: Count) -> Count:
    r"""Mean imbalance of experts over a training in which the router learns to balance.

    .. math:: \bar f = f_1 + (f_0 - f_1) \frac{s}{n} \left(1 - e^{-n/s}\right)

    Args:
        first: f₀, of the first steps, busiest over mean.
        last: f₁, that it settles at.
        steps: n, of the training.
        settling: s, steps in which the difference falls to 1/e.

    References:
        Derived, the mean of an exponential decay; that imbalance is largest at the beginning and settles is an assumption
        about the router, to be replaced by its log.

    >>> round(float(settling_imbalance(first=2.0, last=1.1, steps=10000, settling=500)), 4)
    1.145
    """
    share = np.asarray(settling, dtype=float) / steps
    return last + (first - last) * share * -np.expm1(-1 / share)
