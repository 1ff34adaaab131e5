"""Benchmarks of pairs of clusters whose roles are exchanged."""
