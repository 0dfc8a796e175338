"""Microbatches that a stage keeps activations of, beside those of `perfmodel.formulas.memory.in_flight_1f1b`."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Count


def in_flight_all(*, stage: Count, microbatches: Count) -> Count:
    r"""Microbatches that a stage keeps where no backward pass begins before the last forward pass has ended.

    .. math:: m

    Args:
        stage: counted from 0; all keep the same.
        microbatches: m.

    References:
        Huang et al., GPipe: efficient training of giant neural networks using pipeline parallelism, NeurIPS 2019
        (arXiv:1811.06965), section 2.3.

    >>> float(in_flight_all(stage=0, microbatches=64))
    64.0
    """
    return microbatches + 0.0 * np.asarray(stage)


def in_flight_level(*, stage: Count, depth: Count, microbatches: Count) -> Count:
    r"""Microbatches that every stage keeps alike, those that wait for the gradients of their weights included.

    .. math:: \min(m, d)

    Args:
        stage: counted from 0; all keep the same.
        depth: d; with p stages, p in ZB-H1 and ZB-V, 2 p - 1 in ZB-H2, p + 1 in DualPipe.
        microbatches: m.

    Assumes that the gradients of weights need as much as was kept; the source counts a little less.

    References:
        Qi, Wan, Huang, Lin, Zero bubble pipeline parallelism, ICLR 2024 (arXiv:2401.10241), section 2;
        deepseek-ai/DualPipe, README.

    >>> float(in_flight_level(stage=0, depth=8, microbatches=64))
    8.0
    """
    return np.minimum(microbatches, depth) + 0.0 * np.asarray(stage)


def in_flight_chunk(*, chunk: Count, stage: Count, stages: Count, chunks: Count, microbatches: Count) -> Count:
    r"""Microbatches of which a stage keeps the activations of one of its chunks, when the last of its chunks first runs backward.

    .. math:: \min(m, n), \qquad n = \begin{cases} \min(p, r) & c = v - 1 \\ p + \max(0, r - p) & c = 0 < v - 1 \\
              p & \text{otherwise} \end{cases}, \qquad r = 2 (p - s - 1) + 1

    Args:
        chunk: c, counted from 0 along the model.
        stage: s, counted from 0.
        stages: p.
        chunks: v, of each stage, at least 2.
        microbatches: m.

    Before its first backward pass a stage runs (v - 1) p + r forward passes, each chunk in turn for p microbatches. That is
    where the loss is; later passes shift what is kept from one chunk to another.

    References:
        Narayanan et al., SC 2021, section 2.2 (arXiv:2104.04473); the counts by chunk are derived.

    >>> [float(in_flight_chunk(chunk=c, stage=3, stages=4, chunks=2, microbatches=8)) for c in (0, 1)]
    [4.0, 1.0]
    """
    c, last = np.asarray(chunk), np.asarray(chunks) - 1
    rest = 2 * (np.asarray(stages) - stage - 1) + 1
    before = stages + np.where(c == 0, np.maximum(0, rest - stages), 0)
    return np.minimum(microbatches, np.where(c == last, np.minimum(stages, rest), before))
