"""Closed forms: pure, keyword-only functions on floats or numpy arrays, in SI units."""
