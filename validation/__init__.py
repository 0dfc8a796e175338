"""Measured cases that predictions are held against; `tools` makes them from published tables."""
