"""Fixtures of the monitor benchmarks."""
