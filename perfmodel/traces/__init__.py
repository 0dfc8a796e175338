"""Profiler traces: readers, classes of kernels, what a step spends its time on."""
