"""Predictions held against measurements: cases, studies, statistics, budgets."""
