"""Timings of the CPU that this runs on: kernels, levels of memory, messages between its processes."""
