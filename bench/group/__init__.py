"""Benchmarks of consumer groups whose positions are synchronised."""
