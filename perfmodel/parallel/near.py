"""Remedies: the nearest numbers that would do."""

from __future__ import annotations

import math


def divisors(value: int, of: int) -> str:
    """The divisors of a number on both sides of a value."""
    small = [d for d in range(1, math.isqrt(of) + 1) if of % d == 0]
    return _around(value, sorted({*small, *(of // d for d in small)}))


def multiples(value: int, of: int) -> str:
    """The multiples of a number on both sides of a value."""
    below = value // of * of
    return _around(value, [m for m in (below, below + of) if m])


def _around(value: int, allowed: list[int]) -> str:
    below = [a for a in allowed if a < value][-1:]
    above = [a for a in allowed if a > value][:1]
    return " and ".join(map(str, below + above))
