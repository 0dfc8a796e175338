"""The computer that feeds a device."""

from __future__ import annotations

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
