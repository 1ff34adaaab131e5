"""Benchmarks of the monitor."""
