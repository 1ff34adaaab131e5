"""Benchmarks of tables and queries of stored metrics."""
