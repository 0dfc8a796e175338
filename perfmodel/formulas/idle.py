"""When the stages of a 1F1B pipeline stand idle: what side work could use."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Count, Seconds


def bubble_share(*, stages: Count, microbatches: Count, chunks: Count) -> Count:
    r"""Share of a pipeline's time in which each stage waits.

    .. math:: \beta = \frac{p - 1}{m v + p - 1}

    Args:
        stages: p.
        microbatches: m.
        chunks: v, model chunks on each stage; 1 is plain 1F1B or GPipe.

    Assumes equal stages.

    References:
        Narayanan et al., SC 2021, section 2.2 (bubble over ideal time (p - 1)/(v m)). That it exceeds 40 % at p = m = 4 is what Zhang
        et al., FreeRide, 2024 (arXiv:2409.06941), start from.

    >>> round(bubble_share(stages=4, microbatches=4, chunks=1), 3)
    0.429
    """
    return (stages - 1) / (microbatches * chunks + stages - 1)


def fill_wait(*, stage: Count, forward: Seconds) -> Seconds:
    r"""Time until the first microbatch reaches a stage.

    .. math:: T = i t_f

    Args:
        stage: i, counted from 0.
        forward: t_f, of one microbatch through one stage.

    References:
        Derived; bubbles of type A of FreeRide (arXiv:2409.06941).

    >>> fill_wait(stage=3, forward=0.5)
    1.5
    """
    return stage * forward


def first_backward_wait(*, behind: Count, microbatches: Count, forward: Seconds, backward: Seconds) -> Seconds:
    r"""Time between the forward passes that fill the pipeline and the first backward pass of a stage.

    .. math:: T = (j + 1 - \min(m, j + 1)) t_f + j t_b

    Args:
        behind: j = p - 1 - i, stages behind this one.
        microbatches: m.
        forward: t_f, of one microbatch through one stage.
        backward: t_b.

    References:
        Derived from the 1F1B schedule; bubbles of type B of FreeRide (arXiv:2409.06941).

    >>> float(first_backward_wait(behind=3, microbatches=4, forward=0.5, backward=1.0))
    3.0
    """
    return (behind + 1 - np.minimum(microbatches, behind + 1)) * forward + behind * backward


def steady_wait(*, behind: Count, microbatches: Count, forward: Seconds) -> Seconds:
    r"""Time of a stage between its last backward passes, each of which waits for the stage behind.

    .. math:: T = (\min(m, j + 1) - 1) t_f

    Args:
        behind: j = p - 1 - i, stages behind this one.
        microbatches: m.
        forward: t_f, of one microbatch through one stage.

    References:
        Derived from the 1F1B schedule: what is left of (p - 1)(t_f + t_b); bubbles of type D of FreeRide (arXiv:2409.06941).

    >>> float(steady_wait(behind=3, microbatches=4, forward=0.5))
    1.5
    """
    return (np.minimum(microbatches, behind + 1) - 1) * forward


def drain_wait(*, stage: Count, backward: Seconds) -> Seconds:
    r"""Time of a stage after its last backward pass, until the first stage is done.

    .. math:: T = i t_b

    Args:
        stage: i, counted from 0.
        backward: t_b, of one microbatch through one stage.

    References:
        Derived; bubbles of type C of FreeRide (arXiv:2409.06941).

    >>> drain_wait(stage=3, backward=1.0)
    3.0
    """
    return stage * backward
