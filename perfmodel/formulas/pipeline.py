"""Idle time of pipeline schedules with equal stages whose backward pass is whole.

Every closed form is held against `perfmodel.schedule.simulate` over random shapes.
"""

from __future__ import annotations

import numpy as np

from perfmodel.units import Count, Seconds


def one_f_one_b_bubble(*, microbatch: Seconds, stages: Count, chunks: Count) -> Seconds:
    r"""Time in which a stage waits for the pipeline to fill and to drain.

    .. math:: T = \frac{p - 1}{v} (t_f + t_b)

    Args:
        microbatch: t_f + t_b, forward and backward of one microbatch through all chunks of a stage.
        stages: p.
        chunks: v, model chunks on each stage; 1 is plain 1F1B, and GPipe has the same bubble.

    Assumes equal stages, as many microbatches as a multiple of the stages where v > 1, and messages
    that take no longer than computing.

    References:
        Narayanan et al., Efficient large-scale language model training on GPU clusters using
        Megatron-LM, SC 2021, section 2.2. doi:10.1145/3458817.3476209

    >>> one_f_one_b_bubble(microbatch=0.2, stages=16, chunks=2)
    1.5
    """
    return microbatch * (stages - 1) / chunks


def breadth_first_bubble(*, microbatch: Seconds, stages: Count, chunks: Count, microbatches: Count) -> Seconds:
    r"""Time in which a stage waits where all microbatches pass one chunk before any passes the next.

    .. math:: T = \frac{t}{v} \left(p - 1 + (v - 1) \max(p - m, 0)\right)

    Args:
        microbatch: t, forward and backward of one microbatch through all chunks of a stage.
        stages: p.
        chunks: v, model chunks on each stage; 1 is GPipe.
        microbatches: m; with fewer than stages the first is back before the next chunk could begin anything else.

    Assumes equal stages. Derived; with m >= p it is the bubble of interleaving, without its condition that m be a
    multiple of p.

    References:
        The order of passes is that of ScheduleLoopedBFS in PyTorch, after Lamy-Poirier, Breadth-first pipeline
        parallelism, MLSys 2023 (arXiv:2211.05953), which we have not read.

    >>> float(breadth_first_bubble(microbatch=0.25, stages=4, chunks=2, microbatches=6))
    0.375
    """
    return microbatch / chunks * (stages - 1 + (chunks - 1) * np.maximum(stages - microbatches, 0))


def repeated_forward_bubble(
    *, forward: Seconds, backward: Seconds, stages: Count, microbatches: Count, repeats: Count
) -> Seconds:
    r"""Time in which a stage waits where each microbatch passes forward several times before its gradients.

    .. math:: T = (p - 1)(t_f + t_b) + r \max(p - m, 0)\, t_f

    Args:
        forward: t_f, of one microbatch through a stage.
        backward: t_b, whole.
        stages: p.
        microbatches: m.
        repeats: r, passes without gradient that precede the one with; 2 makes three forward, one backward.

    Assumes equal stages, all passes without gradient first, and 1F1B for the rest. Derived.

    References:
        The order of passes is that of ScheduleNF1B in microsoft/nnscaler (Lin et al., SuperScaler, arXiv:2301.08984),
        in its first form.

    >>> float(repeated_forward_bubble(forward=1.0, backward=2.0, stages=4, microbatches=8, repeats=2))
    9.0
    """
    waiting = repeats * np.maximum(stages - microbatches, 0) * forward
    return (stages - 1) * (forward + backward) + waiting


def decoupled_backward_bubble(*, forward: Seconds, stages: Count, microbatches: Count) -> Seconds:
    r"""Time in which a stage waits for the forward passes of the others, backward passes running on all at once.

    .. math:: T = m (p - 1) t_f

    Args:
        forward: t_f, of one microbatch through a stage.
        stages: p.
        microbatches: m, each with an update of its own.

    Assumes equal stages, and that the next forward pass begins after all backward passes. With T_F = p t_f and
    T_B = p t_b an iteration takes T_F + T_B / p.

    References:
        Huo, Gu, Yang, Huang, Decoupled parallel backpropagation with convergence guarantee, ICML 2018 (arXiv:1804.10574).

    >>> decoupled_backward_bubble(forward=1.0, stages=4, microbatches=1)
    3.0
    """
    return microbatches * (stages - 1) * forward


def no_bubble(*, microbatch: Seconds) -> Seconds:
    r"""Asynchronous pipelines never flush: once full, a stage waits for nobody.

    .. math:: T = 0 \cdot t

    Args:
        microbatch: t, forward and backward of one microbatch through a stage.

    Assumes equal stages and a job of many steps.

    References:
        Harlap et al., PipeDream: fast and efficient pipeline parallel DNN training, 2018 (arXiv:1806.03377).

    >>> no_bubble(microbatch=0.2)
    0.0
    """
    return 0.0 * microbatch
