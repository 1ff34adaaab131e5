"""Fixtures of the page benchmarks."""
