"""Bytes that a stage of the model holds."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes, Count


def in_flight_1f1b(*, stage: Count, stages: Count, chunks: Count, microbatches: Count) -> Count:
    r"""Microbatches, in units of a whole stage, whose activations a stage keeps at its fullest.

    .. math:: \begin{cases} \min(m, p - s) & v = 1 \\
              \min\left(m, \frac{p (v - 1) + 1 + 2 (p - s - 1)}{v}\right) & v > 1 \end{cases}

    Args:
        stage: s, counted from 0.
        stages: p.
        chunks: v, model chunks on each stage.
        microbatches: m.

    Assumes that the warm-up runs as many forward passes as Megatron-LM's schedules do.

    References:
        Narayanan et al., SC 2021, section 2.2. For s = 0 the interleaved form is the factor
        1 + (p - 1)/(p v) of Korthikanti et al., 2022 (arXiv:2205.05198), section 4.2.3, times p.

    >>> float(in_flight_1f1b(stage=0, stages=8, chunks=1, microbatches=64))
    8.0
    >>> round(float(in_flight_1f1b(stage=0, stages=8, chunks=3, microbatches=64)), 4)
    10.3333
    """
    interleaved = (stages * (chunks - 1) + 1 + 2 * (stages - stage - 1)) / chunks
    return np.minimum(microbatches, np.where(np.asarray(chunks) > 1, interleaved, stages - stage))


def sharded(*, size: Bytes, ranks: Count, on: Count) -> Bytes:
    r"""A state that ZeRO spreads over the replicas, or that each replica keeps whole.

    .. math:: M = \begin{cases} n / d & \text{sharded} \\ n & \text{otherwise} \end{cases}

    Args:
        size: n.
        ranks: d, replicas that share it.
        on: 1 where the state is sharded, else 0.

    References:
        Rajbhandari, Rasley, Ruwase, He, ZeRO: memory optimizations toward training trillion
        parameter models, SC 2020, section 5. arXiv:1910.02054

    >>> float(sharded(size=12e9, ranks=4, on=1))
    3000000000.0
    """
    return np.where(np.asarray(on) > 0, size / ranks, size)
