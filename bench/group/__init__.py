"""Benchmarks of consumer groups that follow."""
