"""Idle time of pipeline schedules that part the gradient of inputs from that of weights.

The gradient of inputs is what the stage before waits for; that of weights may come later and fill a bubble. All forms
hold for any times of the three passes (`zero_bubble_v` within its range), as `perfmodel.schedule.simulate` shows.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from perfmodel.units import Count, Number, Seconds


def zero_bubble_h1(
    *, forward: Seconds, backward: Seconds, weight: Seconds, stages: Count, microbatches: Count
) -> Seconds:
    r"""Idle time of ZB-H1, which needs no more memory than 1F1B.

    .. math:: T = \max\left((p - 1)(f + b) - k w,\ (p - 1) f + (p - 1 - k) b,\ (p - 1) b + (p - 1 - k) f\right),\
              k = \min(m, p) - 1

    Args:
        forward: f, of one microbatch through a stage.
        backward: b, gradients of inputs.
        weight: w, gradients of weights.
        stages: p.
        microbatches: m.

    Assumes equal stages. With m >= p it is (p - 1) max(f + b - w, f, b), of which the source has f + b - w, and with m <= p
    its (m + p - 1)(f + b) + w less the time of the passes. The other terms, where w exceeds f or b, are derived.

    References:
        Qi, Wan, Huang, Lin, Zero bubble pipeline parallelism, ICLR 2024 (arXiv:2401.10241), Table 2, appendix H.

    >>> float(zero_bubble_h1(forward=1.0, backward=1.0, weight=1.0, stages=4, microbatches=8))
    3.0
    """
    filled = np.minimum(microbatches, stages) - 1
    left = stages - 1 - filled
    return _largest(
        (stages - 1) * (forward + backward) - filled * weight,
        (stages - 1) * forward + left * backward,
        (stages - 1) * backward + left * forward,
    )


def zero_bubble_h2(*, forward: Seconds, backward: Seconds, weight: Seconds, stages: Count) -> Seconds:
    r"""Idle time of ZB-H2, which keeps about twice the activations of 1F1B.

    .. math:: T = (p - 1) \max(f + b - 2w,\, b - f,\, 0)

    Args:
        forward: f, of one microbatch through a stage.
        backward: b, gradients of inputs.
        weight: w, gradients of weights.
        stages: p.

    Assumes equal stages, m >= 2 p - 1 microbatches, and that a stage may begin its next step before the others have
    ended theirs (the source validates the optimiser's step afterwards). The terms besides f + b - 2w are derived.

    References:
        Qi, Wan, Huang, Lin, Zero bubble pipeline parallelism, ICLR 2024 (arXiv:2401.10241), Table 2.

    >>> float(zero_bubble_h2(forward=1.0, backward=1.5, weight=1.0, stages=4))
    1.5
    """
    return (stages - 1) * _largest(forward + backward - 2 * weight, backward - forward, 0.0)


def zero_bubble_v(*, forward: Seconds, backward: Seconds, weight: Seconds, stages: Count) -> Seconds:
    r"""Idle time of ZB-V: two chunks on each stage, the second on the way back, the memory of 1F1B.

    .. math:: T = \max\Big((p - 1)(b - w),\ (p - 1)(f - w) + \tfrac{b - f}{2},\ (p - 1)(f - \tfrac{b + w}{2}),\\
              \tfrac{p - 1}{2}(b - f),\ \tfrac{b + (p - 2) w - (p - 1) f}{2},\ \tfrac{p - 2}{2}(f - b),\
              \tfrac{p - 2}{2}(w - f),\ 0\Big)

    Args:
        forward: f, of one microbatch through both chunks of a stage.
        backward: b, gradients of inputs.
        weight: w, gradients of weights.
        stages: p.

    Zero for one stage. Assumes equal chunks, m >= 2 p - 1 microbatches, w >= f / 2, and steps that follow one another as in `zero_bubble_h2`.
    The order of passes is fixed; the source's search finds shorter ones for passes of unlike length. Derived: the
    source says that nothing is left where f = b = w.

    References:
        Qi, Wan, Huang, Lin, Zero bubble pipeline parallelism (arXiv:2401.10241), section 6; the order is that of
        ScheduleZBVZeroBubble in PyTorch.

    >>> float(zero_bubble_v(forward=1.0, backward=1.5, weight=1.0, stages=4))
    1.5
    """
    f, b, w, p = forward, backward, weight, stages
    first = _largest((p - 1) * (b - w), (p - 1) * (f - w) + (b - f) / 2, (p - 1) * ((f - b) + (f - w)) / 2)
    last = _largest((p - 1) * (b - f) / 2, ((b - w) + (p - 1) * (w - f)) / 2, (p - 2) * (w - f) / 2)
    return np.where(np.asarray(p) > 1, _largest(first, last, (p - 2) * (f - b) / 2, 0.0), 0.0)


def dual_pipe_bubble(
    *, forward: Seconds, backward: Seconds, weight: Seconds, together: Seconds, stages: Count
) -> Seconds:
    r"""Idle time of DualPipe, which feeds microbatches from both ends and overlaps passes of the two directions.

    .. math:: T = \max\Big(&f - (\tfrac{p}{2} - 2) b - (\tfrac{3p}{2} - 4) w + (p - 3) j,\
              b - (\tfrac{p}{2} - 1) f - (\tfrac{3p}{2} - 4) w + (p - 3) j,\\
              &f + (p - 3)(j - b - w),\ (p - 1) b - (\tfrac{p}{2} - 1) f - (\tfrac{p}{2} - 2) w - j,\
              f + \tfrac{p}{2} b - (\tfrac{p}{2} - 2) w - j,\ 0\Big)

    Args:
        forward: f, of one microbatch through a stage.
        backward: b, gradients of inputs.
        weight: w, gradients of weights.
        together: j, a forward pass and a whole backward pass that overlap.
        stages: p, even.

    Assumes equal stages and an even m >= 2 p microbatches. Where f = b and nothing overlaps (j = f + b + w) it is the
    source's (p/2 - 1)(F&B + B - 3W); the rest is derived from the order of passes in the source's code.

    References:
        DeepSeek-AI, DeepSeek-V3 technical report, 2024 (arXiv:2412.19437); order and table in deepseek-ai/DualPipe.

    >>> float(dual_pipe_bubble(forward=1.0, backward=1.0, weight=1.0, together=3.0, stages=8))
    6.0
    """
    f, b, w, j, half = forward, backward, weight, together, stages / 2
    filled = (stages - 3) * j - (3 * half - 4) * w
    filling = _largest(f - (half - 2) * b + filled, b - (half - 1) * f + filled, f + (stages - 3) * (j - b - w))
    draining = _largest((stages - 1) * b - (half - 1) * f, f + half * b) - (half - 2) * w - j
    return _largest(filling, draining, 0.0)


def _largest(*terms: Number) -> Number:
    return reduce(np.maximum, terms)
