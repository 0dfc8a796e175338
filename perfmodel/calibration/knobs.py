"""Constants of a machine that whole steps may tell, each with its range and its place in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from perfmodel.calibration.document import Written, WrittenTier
from perfmodel.calibration.forms import BY_PRECISION, TIER_CONSTANTS, group_of, with_constants

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfmodel.calibration.document import HardwareFile
    from perfmodel.specs import Hardware
    from perfmodel.specs.common import Group, Precision

SHARE = (0.02, 1.0)
KERNELS: dict[tuple[str, str], tuple[float, float]] = {
    ("matmul", "sustained"): (0.3, 1.25), ("convolution", "fraction"): SHARE, ("attention", "fraction"): SHARE,
    ("streaming", "fraction"): SHARE, ("reduction", "fraction"): SHARE, ("launch", "time"): (1e-7, 2e-4),
}  # fmt: skip
"""Group and constant of the device, with what a fit may find. The share of the peak of products and `sustained` enter as their
product: kernels tell the first, steps the second."""
TIER = ("efficiency", "latency")
"""Constants of a tier: large messages tell the first, many small ones the second."""


class Knob(Protocol):
    """One constant that a fit may turn."""

    @property
    def name(self) -> str:
        """In words."""

    @property
    def bounds(self) -> tuple[float, float]:
        """What a fit may find."""

    def value(self, hardware: Hardware) -> float:
        """As the machine has it."""

    def turned(self, hardware: Hardware, value: float) -> Hardware:
        """The machine with another value."""

    def write(self, file: HardwareFile, hardware: Hardware, value: float, told: Told) -> None:
        """Into the machine's file, with where it comes from."""


@dataclass(frozen=True, slots=True)
class Told:
    """Where fitted values come from, and what they are worth."""

    key: str
    """Of the source in the file."""
    points: int
    error: float


@dataclass(frozen=True, slots=True)
class OfDevice:
    """A constant of the device."""

    group: str
    constant: str
    precision: Precision
    """Whose products it is about."""
    apart: bool
    """The precision has a group for itself."""

    @property
    def name(self) -> str:
        """As `convolution.fraction in fp32`."""
        return f"{self.group}.{self.constant}{f' in {self.precision}' if self.apart else ''}"

    @property
    def bounds(self) -> tuple[float, float]:
        """Of the table."""
        return KERNELS[self.group, self.constant]

    def _group(self, hardware: Hardware) -> Group:
        return group_of(hardware.device.efficiency, self.group, self.precision)

    def value(self, hardware: Hardware) -> float:
        """As the machine has it."""
        return float(getattr(self._group(hardware), self.constant))

    def turned(self, hardware: Hardware, value: float) -> Hardware:
        """The machine with another value."""
        device = with_constants(hardware.device, self.group, self.precision, {self.constant: value})
        return hardware.model_copy(update={"device": device})

    def write(self, file: HardwareFile, hardware: Hardware, value: float, told: Told) -> None:
        """Into its group."""
        slot = self.precision if self.apart else None
        said = statements(self._group(hardware), self.constant, told, alone=len(_constants(self._group(hardware))) == 1)
        file.write(Written(self.group, slot, {self.constant: value}, said))


@dataclass(frozen=True, slots=True)
class OfTier:
    """A constant of one tier of the network."""

    index: int
    tier: str
    constant: str

    @property
    def name(self) -> str:
        """As `efficiency of NVSwitch`."""
        return f"{self.constant} of {self.tier}"

    @property
    def bounds(self) -> tuple[float, float]:
        """Of the constants of tiers."""
        constant = TIER_CONSTANTS[self.constant]
        return constant.low, constant.high

    def value(self, hardware: Hardware) -> float:
        """As the machine has it."""
        return float(getattr(hardware.network[self.index], self.constant))

    def turned(self, hardware: Hardware, value: float) -> Hardware:
        """The machine with another value."""
        tiers = list(hardware.network)
        tiers[self.index] = tiers[self.index].model_copy(update={self.constant: value})
        return hardware.model_copy(update={"network": tuple(tiers)})

    def write(self, file: HardwareFile, hardware: Hardware, value: float, told: Told) -> None:
        """Into its tier."""
        said = statements(hardware.network[self.index], self.constant, told, alone=False)
        file.write_tier(WrittenTier(self.index, "", {self.constant: value}, said))


def knobs_of(hardware: Hardware, precisions: Sequence[Precision]) -> Iterator[Knob]:
    """All that steps in some precisions may tell of a machine."""
    own = hardware.device.efficiency.precisions
    for group, constant in KERNELS:
        seen = set()
        for precision in precisions if group in BY_PRECISION else precisions[:1]:
            apart = group in BY_PRECISION and getattr(own.get(precision), group, None) is not None
            slot = precision if apart else ""
            if slot not in seen:
                seen.add(slot)
                yield OfDevice(group, constant, precision, apart)
    for index, tier in enumerate(hardware.network):
        for constant in TIER:
            if getattr(tier, constant) > 0:
                yield OfTier(index, tier.name, constant)


def statements(group: Group, constant: str, told: Told, *, alone: bool) -> dict[str, Any]:
    """A group whose only constant was fitted is fitted; of others only the note says it, the rest keeps its status."""
    worth = f"{constant} fitted to {told.points} whole steps ({told.key}) with a median error of {told.error:.1%}"
    if alone:
        return {
            "source": told.key,
            "status": "fitted",
            "points": told.points,
            "error": round(max(told.error, 0.001), 3),
            "note": worth,
        }
    note = "; ".join(filter(None, (group.note, worth)))
    return {
        "source": str(group.source),
        "status": str(group.status),
        "points": None if group.points is None else int(group.points),
        "error": None if group.error is None else float(group.error),
        "note": note,
    }


def _constants(group: Group) -> list[str]:
    return [name for name in group.model_fields_set if name not in {"source", "status", "error", "points", "note"}]
