"""The closed table of units, against pint and against what people write."""

from __future__ import annotations

import math
import re
from typing import Any

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.units import UNITS, Unit

BASE = {"B": "byte", "FLOP": "FLOP", "s": "second", "W": "watt", "J": "joule", "1/s": "hertz", "USD": "USD"}


@pytest.fixture(scope="module")
def pint_units() -> Any:
    registry: Any = pint.UnitRegistry()
    registry.define("FLOP = [work]")
    registry.define("USD = [money]")
    return registry


def test_agrees_with_pint_on_every_unit(pint_units: Any) -> None:
    assert len(UNITS) > 50
    for unit, (base, size) in UNITS.items():
        assert pint_units.Quantity(1, unit).to(BASE[base]).magnitude == pytest.approx(size, rel=1e-12), unit


@pytest.mark.parametrize("text", ["mB", "uB", "mbit", "mFLOP", "ks", "Ms", "mHz"])
def test_slips_of_the_shift_key_are_no_units(text: str) -> None:
    """40 mB would be a twenty-fifth of a byte, and 5 Ms two months."""
    assert text not in UNITS


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("B", "80 GiB", 80 * 2**30),
        ("B", "80GB", 80e9),
        ("B", "  1.5   MB ", 1.5e6),
        ("B", "0 B", 0.0),
        ("B", ".5 kB", 500.0),
        ("B", "5. kB", 5000.0),
        ("B", "1e3 GB", 1e12),
        ("B", "2.5E-3GB", 2.5e6),
        ("B", "+3 Mbit", 3e6 / 8),
        ("B/s", "200 Gbit/s", 25e9),
        ("B/s", "60 GB/min", 1e9),
        ("FLOP/s", "312 TFLOP/s", 312e12),
        ("FLOP", "1 EFLOP", 1e18),
        ("s", "5 us", 5e-6),
        ("s", "3 day", 259200.0),
        ("W", "0.4 kW", 400.0),
        ("J", "3 pJ", 3e-12),
        ("1/s", "1.4 GHz", 1.4e9),
        ("USD/s", "3.6 USD/h", 1e-3),
    ],
)
def test_reads(unit: str, text: str, value: float) -> None:
    assert Unit(unit).parse(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("unit", "text", "message"),
    [
        # a number alone
        ("B", 80, "needs a unit of B, as in '80 GiB'"),
        ("B", 80e9, "needs a unit of B, as in '80 GiB'"),
        ("B", "80", "needs a unit of B, as in '80 GiB'"),
        ("B/s", None, "needs a unit of B/s, as in '300 GB/s'"),
        ("s", True, "needs a unit of s, as in '5 us'"),
        # no number, or one that is written in another way
        ("B", "GB", "needs a unit of B, as in '80 GiB'"),
        ("B", "", "needs a unit of B, as in '80 GiB'"),
        ("B", "1,000 GB", "needs a unit of B, as in '80 GiB'"),
        ("B", "1 000 GB", "needs a unit of B, as in '80 GiB'"),
        ("B", "nan GB", "needs a unit of B, as in '80 GiB'"),
        ("B", "1e400 GB", "is larger than any number"),
        ("s", "-5 us", "must not be negative"),
        # another kind of unit
        ("B", "1 GB/s", "needs a unit of B, not GB/s"),
        ("FLOP/s", "3 TFLOP", "needs a unit of FLOP/s, not TFLOP"),
        ("s", "5 W", "needs a unit of s, not W"),
        ("B", "5 GB/s/s", "needs a unit of B, as in '80 GiB'"),
        # bits and bytes, rates without a slash
        ("B", "80 Gb", "'Gb' is no unit; write Gbit or GB"),
        ("B/s", "5 parsec", "'parsec' is no unit; write a unit of B/s, as in '300 GB/s'"),
        ("B/s", "200 Gb/s", "'Gb/s' is no unit; write Gbit/s or GB/s"),
        ("B/s", "200 Gbps", "'Gbps' is no unit; write Gbit/s"),
        ("B/s", "800 kbps", "'kbps' is no unit; write kbit/s"),
        ("B/s", "25 GBps", "'GBps' is no unit; write GB/s"),
        ("FLOP/s", "312 TFLOPS", "'TFLOPS' is no unit; write TFLOP/s"),
        ("FLOP/s", "19 GFlops", "'GFlops' is no unit; write GFLOP/s"),
        ("FLOP/s", "5 kFLOPS", "'kFLOPS' is no unit; write kFLOP/s"),
        # wrong case, other spellings
        ("B", "80 gib", "'gib' is no unit; write GiB"),
        ("B", "80 gb", "'gb' is no unit; write GB"),
        ("B", "40 mB", "'mB' is no unit; write MB"),
        ("s", "5 Ms", "'Ms' is no unit; write ms"),
        ("s", "5 US", "'US' is no unit; write us"),
        ("W", "400 w", "'w' is no unit; write W"),
        ("s", "3 sec", "'sec' is no unit; write s"),
        ("USD/s", "3 USD/hr", "'USD/hr' is no unit; write USD/h"),
        ("B/s", "3 gb/sec", "'gb/sec' is no unit; write GB/s"),
        ("s", "3 parsecs", "'parsecs' is no unit; write a unit of s, as in '5 us'"),
        ("FLOP/s", "3 TOPS", "'TOPS' is no unit; write a unit of FLOP/s, as in '312 TFLOP/s'"),
    ],
)
def test_refuses_with_the_right_spelling(unit: str, text: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Unit(unit).parse(text)


@given(
    unit=st.sampled_from(sorted(UNITS)), value=st.floats(1e-12, 1e12),
    space=st.sampled_from(["", " ", "  "]), form=st.sampled_from(["{!r}", "{:.17e}", "{:.17E}"]),
)  # fmt: skip
def test_round_trip(unit: str, value: float, space: str, form: str) -> None:
    base, size = UNITS[unit]
    text = f"{form.format(value)}{space}{unit}"
    assert math.isclose(Unit(base).parse(text), value * size, rel_tol=1e-14)
    if base != "1/s":
        assert math.isclose(Unit(f"{base}/s").parse(f"{text}/h"), value * size / 3600, rel_tol=1e-14)
