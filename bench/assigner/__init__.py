"""Benchmarks of single decisions of the planner."""
