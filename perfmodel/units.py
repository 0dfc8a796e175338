"""The vocabulary of units: one name per quantity, the same in a YAML file and in a formula.

Inside perfmodel every quantity is a plain float (or an array of them) in SI: B, FLOP, s, W, USD.
In a signature ``Bytes`` says so; in a spec it also reads ``"80 GiB"``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from numpy.typing import NDArray
from pydantic_core import core_schema

from perfmodel.origin import origin_of, traced

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

Number = float | NDArray[Any]

LEAST, MOST = 1e-30, 1e30
"""Of a quantity in SI that is not zero: beyond, sums and products of formulas are no longer numbers."""
TINY = 1e-300
"""Stands for a quantity of zero where it would divide."""

_LARGE = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SMALL = {"": 0, "m": -3, "u": -6, "n": -9, "p": -12}
_BASE = {"B": ("B", 1.0, _LARGE), "bit": ("B", 1 / 8, _LARGE), "FLOP": ("FLOP", 1.0, _LARGE), "s": ("s", 1.0, _SMALL),
         "W": ("W", 1.0, _LARGE), "J": ("J", 1.0, _LARGE | _SMALL), "Hz": ("1/s", 1.0, _LARGE)}  # fmt: skip
UNITS = {
    prefix + name: (base, size * 10.0**power)
    for name, (base, size, powers) in _BASE.items()
    for prefix, power in powers.items()
}
"""Without those that only a slip of the shift key would write: mB, Ms."""
UNITS |= {f"{prefix}iB": ("B", 2.0 ** (10 * n)) for n, prefix in enumerate("KMGTP", start=1)}
UNITS |= {"min": ("s", 60.0), "h": ("s", 3600.0), "day": ("s", 86400.0), "USD": ("USD", 1.0)}
_TEXT = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z]+)(?:/([a-z]+))?\s*")
_EXAMPLE = {"B": "80 GiB", "B/s": "300 GB/s", "FLOP/s": "312 TFLOP/s", "s": "5 us", "W": "400 W",
            "FLOP": "2 GFLOP", "USD/s": "2.5 USD/h", "J": "1 kJ", "1/s": "1.4 GHz"}  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """A unit of measure; parses text such as ``"300 GB/s"`` into SI."""

    name: str

    def parse(self, text: object) -> float:
        """SI value of a number with its unit.

        Raises ValueError, with the remedy, for a bare number, an unknown unit or one of another kind.

        >>> Unit("B/s").parse("200 Gbit/s")
        25000000000.0
        >>> Unit("USD/s").parse("3.6 USD/h")
        0.001
        >>> Unit("B/s").parse("200 Gb/s")
        Traceback (most recent call last):
        ...
        ValueError: 'Gb/s' is no unit; write Gbit/s or GB/s
        >>> Unit("B").parse(80)
        Traceback (most recent call last):
        ...
        ValueError: needs a unit of B, as in '80 GiB'
        """
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        needed = f"a unit of {self.name}, as in {_EXAMPLE.get(self.name, self.name)!r}"
        if not match:
            raise ValueError(f"needs {needed}")
        number, unit, per = match.groups()
        written = f"{unit}/{per}" if per else unit
        if unit not in UNITS or (per and UNITS.get(per, ("", 0))[0] != "s"):
            raise ValueError(f"{written!r} is no unit{_hint(unit, per) or f'; write {needed}'}")
        base, size = UNITS[unit]
        found = f"{base}/s" if per else base
        if found != self.name:
            raise ValueError(f"needs a unit of {self.name}, not {written}")
        value = float(number) * size / (UNITS[per][1] if per else 1.0)
        if not 0 <= value < math.inf:
            raise ValueError("must not be negative" if value < 0 else "is larger than any number")
        if value and not LEAST <= value <= MOST:
            raise ValueError(f"must be {f'at least {LEAST:g}' if value < LEAST else f'at most {MOST:g}'} {self.name}")
        return value

    def _validate(self, value: object) -> float:
        origin = origin_of(value)
        number = self.parse(value)
        kept: float = traced(number, origin) if origin else number
        return kept

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Read text with a unit into a float in SI."""
        return core_schema.no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the field as text with this unit."""
        return {"type": "string", "description": f"a number with a unit of {self.name}"}


def _hint(unit: str, per: str | None) -> str:
    if per is None and unit.endswith("ps") and _spelled(unit[:-2]):
        return f"; write {_spelled(unit[:-2])}/s"
    over = f"/{_SPELLED.get(per, per)}" if per else ""
    if unit.endswith("b") and f"{unit[:-1]}B" in UNITS:
        return f"; write {unit[:-1]}bit{over} or {unit[:-1]}B{over}"
    if "FLOPS" in unit.upper():
        return f"; write {_spelled(unit[: unit.upper().index('FLOPS')] + 'FLOP')}/s"
    return f"; write {_spelled(unit)}{over}" if _spelled(unit) else ""


_SPELLED = {"sec": "s", "second": "s", "seconds": "s", "minute": "min", "minutes": "min", "hr": "h", "hour": "h",
            "hours": "h", "days": "day", "b": "bit", "kb": "kbit", "Mb": "Mbit", "Gb": "Gbit", "Tb": "Tbit"}  # fmt: skip


def _spelled(unit: str) -> str:
    """The unit that was meant, or nothing."""
    close = [known for known in UNITS if known.lower() == unit.lower()]
    return unit if unit in UNITS else _SPELLED.get(unit) or (close[0] if close else "")


Bytes = Annotated[Number, Unit("B")]
Flop = Annotated[Number, Unit("FLOP")]
Seconds = Annotated[Number, Unit("s")]
BytesPerSecond = Annotated[Number, Unit("B/s")]
FlopPerSecond = Annotated[Number, Unit("FLOP/s")]
Watts = Annotated[Number, Unit("W")]
Joules = Annotated[Number, Unit("J")]
Dollars = Annotated[Number, Unit("USD")]
DollarsPerSecond = Annotated[Number, Unit("USD/s")]
Hertz = Annotated[Number, Unit("1/s")]
Count = Annotated[Number, Unit("1")]
