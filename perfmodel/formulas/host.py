"""The computer that feeds its devices: with kernels, and with samples."""

from __future__ import annotations

import numpy as np

from perfmodel.units import Count, Seconds


def dispatch(*, launches: Count, time: Seconds, speed: Count) -> Seconds:
    r"""Time of the host to launch the kernels of a pass, the framework's own work included.

    .. math:: T = \frac{n t_h}{s}

    Args:
        launches: n, kernels and collectives.
        time: t_h, of one, on the host at which times of frameworks are stated.
        speed: s, of one thread of this host, relative to that one.

    Assumes that the host runs ahead of the device: of the two the slower sets the pace of a pass; and that one thread launches, as
    frameworks do, whose time shrinks with its speed alone.

    References:
        Derived. That asynchronous launches bind small kernels: NVIDIA, CUDA graphs, and the host
        overheads of Lin et al., 2024 (arXiv:2404.12674), section III.

    >>> round(dispatch(launches=1000.0, time=2e-5, speed=1.25), 6)
    0.016
    """
    return launches * time / speed


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


def preparation(*, samples: Count, time: Seconds, cores: Count) -> Seconds:
    r"""Time of a host to prepare the samples of one step: reading, decoding, augmenting.

    .. math:: T = \frac{b \, t_s}{c}

    Args:
        samples: b, that the devices of the host take in one step.
        time: t_s, of one core for one sample.
        cores: c, that work at once.

    Assumes samples that are alike, enough of them to keep every core busy, and files in the host's memory: what
    storage delivers is not modelled. A pipeline that works ahead of the device hides the shorter of preparation and step.

    References:
        Mohan et al., Analyzing and mitigating data stalls in DNN training, VLDB 2021 (arXiv:2007.06775): rates of
        ingestion, preparation and fetching are measured apart (DS-Analyzer, tool/what_if_tool.py), and the slowest
        sets the pace; the formula is derived.

    >>> round(preparation(samples=2048.0, time=0.0132, cores=7.0), 3)  # seven cores, 530 pictures a second
    3.862
    """
    return samples * time / cores
