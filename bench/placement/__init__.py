"""Benchmarks of plans, on synthetic loads and on a recording."""
