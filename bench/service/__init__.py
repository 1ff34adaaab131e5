"""Benchmarks of a whole service."""
