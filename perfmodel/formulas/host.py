"""The computer that feeds a device."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Count, Seconds


def dispatch(*, launches: Count, time: Seconds) -> Seconds:
    r"""Time of the host to launch the kernels of a pass, the framework's own work included.

    .. math:: T = n t_h

    Args:
        launches: n, kernels and collectives.
        time: t_h, of one.

    Assumes that the host runs ahead of the device: of the two the slower sets the pace of a pass.

    References:
        Derived. That asynchronous launches bind small kernels: NVIDIA, CUDA graphs, and the host
        overheads of Lin et al., 2024 (arXiv:2404.12674), section III.

    >>> dispatch(launches=1000.0, time=2e-5)
    0.02
    """
    return launches * time


def polling(*, ranks: Count, cycle: Seconds) -> Seconds:
    r"""Time until a thread that looks for collectives once in a cycle starts one that is ready.

    .. math:: T = \frac{t_c}{2} \quad (p > 1)

    Args:
        ranks: p, that take part.
        cycle: t_c, between two looks.

    Assumes that collectives become ready at any point of a cycle alike, and that all ranks look at the same time, since they
    agree on what is ready. What they send each other to agree is left out.

    References:
        Derived. The cycle: Sergeev and Del Balso, Horovod, 2018 (arXiv:1802.05799), section 3, and Horovod's documentation,
        tensor fusion (HOROVOD_CYCLE_TIME; 1 ms since version 0.21).

    >>> float(polling(ranks=8, cycle=1e-3))
    0.0005
    """
    return np.where(np.asarray(ranks) > 1, cycle / 2, 0.0)
