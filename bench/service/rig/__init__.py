"""Fixtures of the service benchmarks. Start with guarded.py."""
