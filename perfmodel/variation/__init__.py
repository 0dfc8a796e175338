"""Stragglers, failures and idle time: what happens to a predicted step on real machines."""
