"""Gradients that travel in pieces."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Bytes


def last_bucket(*, size: Bytes, first: Bytes, bucket: Bytes) -> Bytes:
    r"""The piece of the gradients that is complete only when the backward pass ends, so that nothing hides it.

    .. math:: l = r - b \left(\lceil r / b \rceil - 1\right), \quad r = n - f

    Args:
        size: n, of all gradients; up to f they all are one piece.
        first: f, of the first piece, which is small so that it leaves early.
        bucket: b, of each further one.

    Assumes that pieces may end inside a layer; a library ends them where a layer does.

    References:
        Li et al., PyTorch distributed - experiences on accelerating data parallel training, VLDB 2020
        (arXiv:2006.15704), sections 3.2.2 and 3.2.3; the formula is derived.

    >>> [float(last_bucket(size=n, first=1.0, bucket=25.0)) for n in (0.5, 11.0, 40.0, 51.0)]
    [0.5, 10.0, 14.0, 25.0]
    """
    rest = size - first
    last: Bytes = np.where(rest > 0, rest - bucket * (np.ceil(rest / bucket) - 1), size)
    return last
