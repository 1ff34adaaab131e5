"""Benchmarks of clusters of several brokers."""
