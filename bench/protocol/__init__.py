"""Benchmarks of compression and TLS."""
