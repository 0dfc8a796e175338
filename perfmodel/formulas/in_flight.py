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
