"""Benchmarks of the servers that tests and the demonstration start."""
