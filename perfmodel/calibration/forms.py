"""Which constants the timings of an operation determine, and where a device keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmodel.specs.hardware import OtherProducts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfmodel.specs.common import Group, Precision
    from perfmodel.specs.hardware import Device, Efficiency

    Constants = Mapping[str, float]

BY_PRECISION = {"matmul", "convolution"}
"""Groups that a precision may have for itself."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant of a group, with the range that a fit may search."""

    name: str
    start: float
    low: float
    high: float
    digits: int
    again: float | None = None
    """Where a second search starts: tiles that are full or not make the loss uneven, and one search may end in a hollow of it."""


@dataclass(frozen=True, slots=True)
class Form:
    """The constants that one operation determines."""

    group: str
    """Field of `perfmodel.specs.hardware.Efficiency`, or of the products of a precision."""
    constants: tuple[Constant, ...]
    engine: tuple[Constant, ...] = ()
    """Searched too, but not kept: what the engine around the kernel does, such as filling its cache of keys."""
    engine_group: str = ""
    """Where those stand, if not in the group."""
    keeps_launch: bool = False
    """The least time of these kernels is that of the device; else it belongs to the engine that was timed."""


FRACTION = Constant("fraction", 0.7, 0.02, 1.0, 3, again=0.5)
OVERLAP = Constant("overlap", 3.0, 1.0, 20.0, 2)
MEMORY = Constant("memory_fraction", 0.8, 0.1, 1.0, 3, again=0.6)
LAUNCH = Constant("time", 5e-6, 1e-7, 2e-4, 7)

TIER_CONSTANTS = {
    constant.name: constant
    for constant in (
        Constant("efficiency", 0.8, 0.02, 1.0, 3), Constant("latency", 3e-6, 2e-7, 2e-3, 3),
        Constant("setup", 8e-6, 1e-7, 2e-3, 3), Constant("ramp", 3e-5, 1e-7, 1e-2, 3),
        Constant("ramp_size", 6e6, 1e4, 1e9, 3), Constant("in_network", 0.55, 0.05, 1.0, 3),
        Constant("direct", 0.7, 0.02, 1.0, 3), Constant("handshake", 6e-6, 1e-7, 1e-3, 3),
        Constant("eager", 3e4, 1e2, 1e8, 3),
    )
}  # fmt: skip
"""Of a tier of the network, with the digits that are kept; where measurements are few, the last are given up first."""

PRODUCT = (
    FRACTION, Constant("tile_balance", 20.0, 0.0, 300.0, 1), Constant("depth_half", 60.0, 0.0, 3000.0, 0),
    Constant("depth_time", 4e-9, 0.0, 5e-9, 12, again=7e-10), OVERLAP, MEMORY,
)  # fmt: skip

FORMS = {
    "gemm": Form("matmul", PRODUCT, keeps_launch=True),
    "cast and gemm": Form("matmul", PRODUCT, engine=(FRACTION,), engine_group="streaming"),
    "attention": Form(
        "attention",
        (FRACTION, Constant("softmax_width", 30.0, 0.0, 400.0, 0), Constant("keys_half", 100.0, 0.0, 3000.0, 0)),
        engine=(OVERLAP, MEMORY),
    ),
    "convolution": Form(
        "convolution",
        (FRACTION, Constant("filter_gradient", 0.65, 0.05, 1.0, 3), Constant("input_gradient", 0.85, 0.05, 1.0, 3),
         Constant("tile_balance", 20.0, 0.0, 300.0, 1), Constant("depth_half", 20.0, 0.0, 3000.0, 0)),
    ),
    "stream": Form("streaming", (FRACTION,)),
    "reduction": Form("reduction", (FRACTION,)),
    "recurrent": Form("", ()),
    "experts": Form("", ()),
}  # fmt: skip
"""By operation; those without constants are predicted from the constants of the others."""


def group_of(efficiency: Efficiency, name: str, precision: Precision) -> Group:
    """A group of a device, of one precision where it keeps them apart."""
    group: Group = getattr(efficiency.products(precision) if name in BY_PRECISION else efficiency, name)
    return group


def with_constants(
    device: Device, name: str, precision: Precision, constants: Constants, *, apart: bool = False
) -> Device:
    """The device with some constants of one group changed; ``apart`` gives the precision a group of its own."""
    efficiency = device.efficiency
    group = group_of(efficiency, name, precision).model_copy(update=dict(constants))
    if name in BY_PRECISION and (apart or precision in efficiency.precisions):
        products = efficiency.precisions.get(precision, OtherProducts()).model_copy(update={name: group})
        changed: dict[str, Any] = {"precisions": {**efficiency.precisions, precision: products}}
    else:
        changed = {name: group}
    return device.model_copy(update={"efficiency": efficiency.model_copy(update=changed)})
