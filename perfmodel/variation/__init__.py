"""Stragglers, failures and idle time: what happens to a predicted step on real machines."""

from __future__ import annotations

from perfmodel.variation.apply import Varied, vary

__all__ = ["Varied", "vary"]
