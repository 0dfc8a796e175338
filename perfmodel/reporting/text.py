"""Numbers as people read them."""

from __future__ import annotations

from math import isinf

from perfmodel.units import Number

DAY = 86400.0
LONG, ENDLESS = 1e4, 1e12
"""From where on a number without prefixes has separators in place of decimals, and where even these do not help."""
_DECIMAL = (
    (1e18, "E"),
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
    (1e-9, "n"),
)


def quantity(value: Number, unit: str) -> str:
    """Four digits with a prefix.

    >>> quantity(16.058, "s"), quantity(2.5e-6, "s"), quantity(312e12, "FLOP/s"), quantity(0.0, "s")
    ('16.06 s', '2.5 us', '312 TFLOP/s', '0 s')
    >>> quantity(float("inf"), "B/s"), quantity(7.3535e25, "s"), quantity(8858233.0, "s")
    ('unbounded', '7.354e+25 s', '8,858,233 s')
    >>> quantity(85899345920, "B")
    '80 GiB'
    """
    value = float(value)
    if isinf(value):
        return "unbounded"
    if unit == "B":
        return _binary(value)
    for size, prefix in _DECIMAL:
        if abs(value) >= size * 0.99995:
            if unit in {"s", "USD"} and size > 1:
                break
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:,.0f} {unit}" if LONG <= abs(value) < ENDLESS else f"{value:,.4g} {unit}"


def share(value: float) -> str:
    """A fraction in percent.

    >>> share(0.4567)
    '45.7 %'
    """
    return f"{100 * value:.1f} %"


def percent(value: float | None) -> str:
    """A fraction in percent, for a column whose header has the unit.

    >>> percent(0.4567), percent(None)
    ('45.7', '')
    """
    return "" if value is None else f"{100 * value:.1f}"


def count(value: float) -> str:
    """A whole number with separators.

    >>> count(1234567.0)
    '1,234,567'
    """
    return f"{value:,.0f}"


def rate(value: float) -> str:
    """Four digits, or a whole number with separators.

    >>> rate(52.4893), rate(1457.31), rate(18063.2)
    ('52.49', '1,457', '18,063')
    """
    return count(value) if value >= 999.95 else f"{value:.4g}"


def long_time(time: float) -> str:
    """Seconds up to two minutes, then minutes, hours, days.

    >>> long_time(90.0), long_time(5400.0), long_time(36000.0), long_time(864000.0)
    ('90 s', '90 min', '10 h', '10 days')
    """
    for size, unit, most in ((60.0, "min", 7200.0), (3600.0, "h", 2 * DAY)):
        if 120 <= time < most:
            return f"{time / size:.4g} {unit}"
    return quantity(time, "s") if time < 120 else f"{time / DAY:,.4g} days"


def _binary(value: float) -> str:
    for power, prefix in ((5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if abs(value) >= 1024**power:
            return f"{value / 1024**power:.4g} {prefix}B"
    return f"{value:.4g} B"
