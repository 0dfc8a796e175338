"""Idle time of pipeline schedules with equal stages."""

from __future__ import annotations

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
