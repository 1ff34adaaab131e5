"""Benchmarks with clusters of several brokers."""
