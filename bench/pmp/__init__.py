"""Benchmarks of the metrics pipeline, from samples to loads."""
